// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/client_memory.h"

#include <linux/magic.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <mutex>

#include "mediator/base/errno.h"
#include "mediator/memory/fault_times.h"
#include "vrdma/device.h"

namespace vrdma::vfio_user {
namespace {

struct FileKind {
    std::uint64_t page = 0; // its size, or 0
    bool huge = false;
    struct stat status {};
};

// What a client shares is memory, not a file of a file system that it may serve itself: a touch of
// that could block for ever.
FileKind kind_of(int file) {
    FileKind kind;
    struct statfs info {};
    if (::fstat(file, &kind.status) != 0 || !S_ISREG(kind.status.st_mode) ||
        ::fstatfs(file, &info) != 0 ||
        (info.f_type != TMPFS_MAGIC && info.f_type != HUGETLBFS_MAGIC)) {
        return {};
    }
    kind.page = static_cast<std::uint64_t>(info.f_bsize);
    kind.huge = info.f_type == HUGETLBFS_MAGIC;
    return kind;
}

std::optional<FileHoles> watch_holes() {
    auto holes = FileHoles::open();
    if (holes) {
        return std::move(*holes);
    }
    static std::atomic_flag warned;
    if (!warned.test_and_set()) {
        spdlog::warn("max_holes_mib does not count, as the kernel does not tell of holes: {}",
                     describe(holes.error()));
    }
    return {};
}

} // namespace

Result<std::unique_ptr<ClientMemory>> ClientMemory::create(std::uint64_t size, int alarm,
                                                           std::size_t most_maps,
                                                           std::uint64_t most_holes) {
    auto reservation = Reservation::make(size);
    if (!reservation) {
        return fail(reservation.error());
    }
    auto guard = FaultGuard::create(reservation->base(), size, alarm);
    if (!guard) {
        return fail(guard.error());
    }
    return std::unique_ptr<ClientMemory>{new ClientMemory{
        std::move(*reservation), size, std::move(*guard), alarm, most_maps, most_holes}};
}

ClientMemory::ClientMemory(Reservation reservation, std::uint64_t size, FaultGuard guard, int alarm,
                           std::size_t most_maps, std::uint64_t most_holes)
    : GuestMemory{reservation.base(), size, &guard.faults()},
      reservation_{std::move(reservation)},
      guard_{std::move(guard)},
      alarm_{alarm},
      most_maps_{most_maps},
      watched_{watch_holes()},
      account_{most_holes / FileHoles::page_size} {
    guard_.fill_by(watched_ ? this : nullptr);
}

ClientMemory::~ClientMemory() {
    guard_.fill_by(nullptr);
}

bool ClientMemory::overlaps(Iova iova, std::uint64_t length) const {
    const auto next = maps_.lower_bound(iova);
    if (next != maps_.end() && raw(next->first) < raw(iova) + length) {
        return true;
    }
    return next != maps_.begin() &&
           raw(std::prev(next)->first) + std::prev(next)->second.length > raw(iova);
}

Result<> ClientMemory::map(Iova iova, std::uint64_t length, UniqueFd file, std::uint64_t offset,
                           int protection) {
    const auto begin = Clock::now();
    const FileKind kind = file ? kind_of(file.get()) : FileKind{.page = VRDMA_PAGE_SIZE};
    blame_since(begin);
    const std::uint64_t page = kind.page;
    if (page == 0 || length == 0 || at(iova, length) == nullptr ||
        (raw(iova) | length | offset) % page != 0) {
        return fail(std::errc::invalid_argument);
    }
    std::unique_lock lock{lock_};
    if (overlaps(iova, length)) {
        return fail(std::errc::file_exists);
    }
    if (maps_.size() >= most_maps_) {
        return fail(std::errc::no_space_on_device);
    }
    const auto place =
        maps_.emplace(iova, Map{length, std::move(file), offset, protection, page}).first;
    Map& map = place->second;
    const bool watched = watched_ && map.file && !kind.huge;
    if (watched) {
        map.holes = account_.open(kind.status);
    }
    forget_scratch(iova, length);
    const auto shown = show(iova, map, 0, length);
    if (shown) {
        return {};
    }
    hide(iova, length);
    lock.unlock();
    close_holes(map);
    lock.lock();
    if (watched && shown.error() == std::errc::operation_not_permitted &&
        (protection & PROT_WRITE) == 0) {
        map.file = {}; // nobody may write to it, so holes could not be told from its pages
        return {};
    }
    maps_.erase(place);
    return fail(shown.error());
}

// Of a map that is hidden: nothing is made in its file by it any more.
void ClientMemory::close_holes(Map& map) noexcept {
    if (!map.holes) {
        return;
    }
    const auto begin = Clock::now();
    const std::uint64_t pages = HoleAccount::pages_of(map.file.get());
    blame_since(begin);
    const std::lock_guard lock{lock_};
    account_.close(*map.holes, map.file.get(), pages);
    map.holes.reset();
}

// To look at a file waits for whoever has hold of it, so whoever shares it pays for the time.
void ClientMemory::blame_since(Clock::time_point begin) noexcept {
    if (const auto cost = Clock::now() - begin; cost > FaultTimes::ordinary) {
        FaultGuard::blame(at(Iova{0}, 1), cost - FaultTimes::ordinary);
    }
}

// What takes long is done without the lock: only this thread changes maps_, and what is not there
// any more is not shown again. A scratch page that is put meanwhile is known, and is taken away
// with what it stands in.
Result<> ClientMemory::unmap(Iova iova, std::uint64_t length) {
    const auto found = maps_.find(iova);
    if (found == maps_.end() || found->second.length != length) {
        return fail(std::errc::invalid_argument);
    }
    give_up_pages(iova, length);
    std::unique_lock lock{lock_};
    forget_scratch(iova, length);
    auto gone = maps_.extract(found); // closes its file without the lock
    lock.unlock();
    const auto hidden = hide_all(iova, length) ? Result<>{} : fail_errno();
    if (hidden) {
        close_holes(gone.mapped());
    } else {
        lock.lock();
        maps_.insert(std::move(gone));
        lock.unlock();
    }
    return hidden;
}

void ClientMemory::unmap_all() {
    for (const auto& [iova, map] : maps_) {
        give_up_pages(iova, map.length);
    }
    std::map<Iova, Map> gone; // closes its files without the lock
    {
        const std::lock_guard lock{lock_};
        forget_scratch(Iova{0}, size());
        gone.swap(maps_);
    }
    hide_all(Iova{0}, size());
    for (auto& [iova, map] : gone) {
        close_holes(map);
    }
}

const ClientMemory::Map* ClientMemory::find(const std::byte* address) const noexcept {
    const auto place = static_cast<std::uint64_t>(address - at(Iova{0}, 0));
    const auto next = maps_.upper_bound(Iova{place});
    if (next == maps_.begin() ||
        place - raw(std::prev(next)->first) >= std::prev(next)->second.length) {
        return nullptr;
    }
    return &std::prev(next)->second;
}

bool ClientMemory::fill(std::byte* address) noexcept {
    std::byte* const page =
        address - reinterpret_cast<std::uintptr_t>(address) % FileHoles::page_size;
    const std::lock_guard lock{lock_};
    const Map* const map = find(page);
    if (map == nullptr || !map->holes) {
        return false;
    }
    const bool room = has_room();
    const int error = room ? watched_->make(page) : watched_->look(page);
    const bool there = error == EEXIST || error == EAGAIN;
    if (error == 0) {
        account_.note((*map->holes)->second);
    }
    if (!room && !there) {
        refuse();
    }
    if ((error != 0 && !there) || (there && is_lost(page))) {
        return false;
    }
    watched_->end_fault();
    return true;
}

void ClientMemory::refuse() noexcept {
    const std::uint64_t one = 1;
    if (!refused_.exchange(true)) {
        static_cast<void>(!::write(alarm_, &one, sizeof(one)));
    }
}

// Somebody else may have made a page between the touch and now. If the same one is there again and
// again, it cannot be read: it was swapped out, and is lost.
bool ClientMemory::is_lost(const std::byte* page) noexcept {
    constexpr int many = 64;
    times_ = there_ == page ? times_ + 1 : 0;
    there_ = times_ < many ? page : nullptr;
    return there_ == nullptr;
}

// Files may have fewer pages by now. That is looked at ten times a second at most.
bool ClientMemory::has_room() noexcept {
    constexpr std::chrono::milliseconds pause{100};
    const auto begin = Clock::now();
    if (account_.has_room() || begin - counted_ < pause) {
        return account_.has_room();
    }
    for (const bool looked_at : {true, false}) {
        for (auto& [iova, map] : maps_) {
            if (!map.holes || (*map.holes)->second.looked_at == looked_at) {
                continue;
            }
            (*map.holes)->second.looked_at = looked_at;
            if (looked_at) {
                account_.bound((*map.holes)->second, HoleAccount::pages_of(map.file.get()));
            }
        }
    }
    counted_ = Clock::now();
    blame_since(begin);
    return account_.has_room();
}

// Where there was a scratch page the next touch meets what is there now.
void ClientMemory::release(Iova iova, std::uint64_t length) noexcept {
    if (guard_.faults() == 0 || overwhelmed() || at(iova, length) == nullptr) {
        return;
    }
    const std::byte* const begin = at(iova, length);
    const std::lock_guard lock{lock_};
    guard_.scratch().take_away(begin, begin + length,
                               [this](const auto& page) { return uncover(page); });
}

void ClientMemory::renew() noexcept {
    if (!overwhelmed()) {
        release(Iova{0}, size());
        return;
    }
    const std::lock_guard lock{lock_};
    hide(Iova{0}, size());
    for (const auto& [iova, map] : maps_) {
        (void)show(iova, map, 0, map.length);
    }
    guard_.recovered();
}

bool ClientMemory::uncover(const ScratchPages::Page& page) const noexcept {
    const auto begin = static_cast<std::uint64_t>(page.start - at(Iova{0}, 0));
    const std::uint64_t end = begin + page.size();
    if (!hide(Iova{begin}, page.size())) {
        return false;
    }
    auto next = maps_.upper_bound(Iova{begin});
    if (next != maps_.begin()) {
        --next;
    }
    for (; next != maps_.end() && raw(next->first) < end; ++next) {
        show_again(next->first, next->second, begin, end);
    }
    return true;
}

// Before what is shown there changes: a page that is put from then on is known by itself.
void ClientMemory::forget_scratch(Iova iova, std::uint64_t length) noexcept {
    const std::byte* const begin = at(iova, length);
    guard_.scratch().take_away(begin, begin + length, [](const auto&) { return true; });
}

void ClientMemory::show_again(Iova iova, const Map& map, std::uint64_t begin,
                              std::uint64_t end) const noexcept {
    const std::uint64_t start = raw(iova);
    const std::uint64_t from = std::max(begin, start);
    const std::uint64_t to = std::min(end, start + map.length);
    if (from < to) {
        const std::uint64_t mask = map.page - 1;
        (void)show(iova, map, (from - start) & ~mask, (to - start + mask) & ~mask);
    }
}

// Nobody touches a page of it before its holes are watched.
Result<> ClientMemory::show(Iova iova, const Map& map, std::uint64_t begin,
                            std::uint64_t end) const noexcept {
    if (!map.file) {
        return {};
    }
    std::byte* const place = at(iova + begin, end - begin);
    if (::mmap(place, end - begin, map.holes ? PROT_NONE : map.protection,
               MAP_SHARED | MAP_FIXED | MAP_NORESERVE, map.file.get(),
               static_cast<off_t>(map.offset + begin)) == MAP_FAILED) {
        return fail_errno();
    }
    if (!map.holes) {
        return {};
    }
    if (const auto watched = watched_->watch(place, end - begin); !watched) {
        return watched;
    }
    return ::mprotect(place, end - begin, map.protection) == 0 ? Result<>{} : fail_errno();
}

// To map over pages that are shown takes them away while all threads' faults wait; to give them up
// before does not, and costs the same.
void ClientMemory::give_up_pages(Iova iova, std::uint64_t length) const noexcept {
    constexpr std::uint64_t piece = 64 << 20;
    for (std::uint64_t done = 0; done < length; done += piece) {
        const std::uint64_t size = std::min(piece, length - done);
        ::madvise(at(iova + done, size), size, MADV_DONTNEED);
    }
}

// To take page tables away holds up all threads' faults, too. Where no mapping is left to cut a
// piece off, all of it needs none.
bool ClientMemory::hide_all(Iova iova, std::uint64_t length) const noexcept {
    constexpr std::uint64_t piece = 1 << 30;
    for (std::uint64_t done = 0; done < length; done += piece) {
        if (!hide(iova + done, std::min(piece, length - done))) {
            return hide(iova, length);
        }
    }
    return true;
}

bool ClientMemory::hide(Iova iova, std::uint64_t length) const noexcept {
    return ::mmap(at(iova, length), length, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

} // namespace vrdma::vfio_user
