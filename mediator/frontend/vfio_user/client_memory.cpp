// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/client_memory.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <mutex>

#include "mediator/base/errno.h"
#include "vrdma/device.h"

namespace vrdma::vfio_user {
namespace {

// What a client shares is memory, not a file of a file system that it may serve itself: a touch of
// that could block for ever. The size of a page, or 0.
std::uint64_t page_size(int file) {
    struct stat status {};
    struct statfs info {};
    if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || ::fstatfs(file, &info) != 0 ||
        (info.f_type != TMPFS_MAGIC && info.f_type != HUGETLBFS_MAGIC)) {
        return 0;
    }
    return static_cast<std::uint64_t>(info.f_bsize);
}

} // namespace

Result<std::unique_ptr<ClientMemory>> ClientMemory::create(std::uint64_t size, int alarm,
                                                           std::size_t most_maps) {
    auto reservation = Reservation::make(size);
    if (!reservation) {
        return fail(reservation.error());
    }
    auto guard = FaultGuard::create(reservation->base(), size, alarm);
    if (!guard) {
        return fail(guard.error());
    }
    return std::unique_ptr<ClientMemory>{
        new ClientMemory{std::move(*reservation), size, std::move(*guard), most_maps}};
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
    const std::uint64_t page = file ? page_size(file.get()) : VRDMA_PAGE_SIZE;
    if (page == 0 || length == 0 || at(iova, length) == nullptr ||
        (raw(iova) | length | offset) % page != 0) {
        return fail(std::errc::invalid_argument);
    }
    const std::lock_guard lock{lock_};
    if (overlaps(iova, length)) {
        return fail(std::errc::file_exists);
    }
    if (maps_.size() >= most_maps_) {
        return fail(std::errc::no_space_on_device);
    }
    Map map{length, std::move(file), offset, protection, page};
    forget_scratch(iova, length);
    if (!show(iova, map, 0, length)) {
        const auto error = fail_errno();
        hide(iova, length);
        return error;
    }
    maps_.emplace(iova, std::move(map));
    return {};
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
    if (!hide_all(iova, length)) {
        const auto error = fail_errno();
        lock.lock();
        maps_.insert(std::move(gone));
        lock.unlock();
        return error;
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
        show(iova, map, 0, map.length);
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
        show(iova, map, (from - start) & ~mask, (to - start + mask) & ~mask);
    }
}

bool ClientMemory::show(Iova iova, const Map& map, std::uint64_t begin,
                        std::uint64_t end) const noexcept {
    if (!map.file) {
        return true;
    }
    std::byte* const place = at(iova + begin, end - begin);
    return ::mmap(place, end - begin, map.protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                  map.file.get(), static_cast<off_t>(map.offset + begin)) != MAP_FAILED;
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
