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
#include "mediator/memory/second_mapping.h"
#include "vrdma/device.h"

namespace vrdma::vfio_user {
namespace {

struct FileKind {
    std::uint64_t page = 0; // its size in bytes, or 0 if the file is not memory
    bool huge = false;
    struct stat status {};
};

// A client may share only files of tmpfs and hugetlbfs. It could serve another file system itself,
// and a touch of such a file could block for ever.
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
        spdlog::warn("max_holes_mib has no effect, because the kernel does not report holes: {}",
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
        map.file = {}; // nobody may write to it, so its holes cannot be watched
        return {};
    }
    maps_.erase(place);
    return fail(shown.error());
}

// `map` is hidden already, so it makes no more pages in its file.
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

// A look at a file waits for the client if that works on the file. So the client's device pays for
// the time.
void ClientMemory::blame_since(Clock::time_point begin) noexcept {
    if (const auto cost = Clock::now() - begin; cost > FaultTimes::ordinary) {
        FaultGuard::blame(at(Iova{0}, 1), cost - FaultTimes::ordinary);
    }
}

// The long parts run without the lock. That is safe, because only this thread changes maps_, and a
// map that is not in maps_ is not shown again. A scratch page that is put meanwhile is recorded,
// and hide_all() maps over it.
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

// There are at most most_maps_ of them.
Result<> ClientMemory::unmap_range(Iova iova, std::uint64_t length) {
    const std::uint64_t end = raw(iova) + length;
    auto next = maps_.lower_bound(iova);
    const auto last = maps_.lower_bound(Iova{end});
    const auto cut_at = [&](std::uint64_t place, auto after) {
        return after != maps_.begin() &&
               raw(std::prev(after)->first) + std::prev(after)->second.length > place;
    };
    if (end <= raw(iova) || cut_at(raw(iova), next) || cut_at(end, last)) {
        return fail(std::errc::invalid_argument);
    }
    while (next != last) {
        const auto [start, size] = std::pair{next->first, next->second.length};
        ++next;
        if (const auto unmapped = unmap(start, size); !unmapped) {
            return unmapped;
        }
    }
    return {};
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

Result<std::uint64_t> ClientMemory::map_again(Iova iova, std::uint64_t length, std::byte* place) {
    const auto next = maps_.upper_bound(iova);
    const std::uint64_t end =
        next == maps_.begin() ? 0 : raw(std::prev(next)->first) + std::prev(next)->second.length;
    if (end <= raw(iova)) {
        return fail(std::errc::operation_not_supported);
    }
    const std::uint64_t mapped = std::min(length, end - raw(iova));
    return map_second_time(at(iova, mapped), mapped, place);
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

// Another thread may have made the page since the touch. But if the same page exists many times in
// a row, and each touch of it faults nevertheless, it cannot be read: it was swapped out, and is
// lost.
bool ClientMemory::is_lost(const std::byte* page) noexcept {
    constexpr int many = 64;
    times_ = there_ == page ? times_ + 1 : 0;
    there_ = times_ < many ? page : nullptr;
    return there_ == nullptr;
}

// When the allowance is used up, looks whether files have fewer pages by now, at most ten times per
// second.
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

// Takes scratch pages away, so that the next touch finds the memory that is there by now.
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

// Is called before the mappings of the range change. A scratch page that is put after this call is
// recorded anew.
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

// Maps the file without access at first, so that nobody touches it before its holes are watched.
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

// While a mapping with pages is replaced, the faults of all threads wait until its pages are
// removed. While madvise() removes the pages before that, they do not wait. Both cost the same.
void ClientMemory::give_up_pages(Iova iova, std::uint64_t length) const noexcept {
    constexpr std::uint64_t piece = 64 << 20;
    for (std::uint64_t done = 0; done < length; done += piece) {
        const std::uint64_t size = std::min(piece, length - done);
        ::madvise(at(iova + done, size), size, MADV_DONTNEED);
    }
}

// The faults of all threads also wait while page tables are removed, so the range is hidden in
// pieces. Hiding a piece may need one more mapping. If the process may have no more, the whole
// range is hidden at once, which needs none.
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
