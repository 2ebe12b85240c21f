// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/client_memory.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>

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

Result<std::unique_ptr<ClientMemory>> ClientMemory::create(std::uint64_t size) {
    void* const base =
        ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        return fail_errno();
    }
    auto guard = FaultGuard::create(static_cast<std::byte*>(base), size);
    if (!guard) {
        ::munmap(base, size);
        return fail(guard.error());
    }
    return std::unique_ptr<ClientMemory>{
        new ClientMemory{static_cast<std::byte*>(base), size, std::move(*guard)}};
}

ClientMemory::~ClientMemory() {
    ::munmap(at(Iova{0}, 0), size());
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
    if (maps_.size() == max_maps) {
        return fail(std::errc::no_space_on_device);
    }
    Map map{length, std::move(file), offset, protection, page};
    if (!show(iova, map, 0, length)) {
        const auto error = fail_errno();
        hide(iova, length);
        return error;
    }
    maps_.emplace(iova, std::move(map));
    return {};
}

Result<> ClientMemory::unmap(Iova iova, std::uint64_t length) {
    const std::lock_guard lock{lock_};
    const auto found = maps_.find(iova);
    if (found == maps_.end() || found->second.length != length) {
        return fail(std::errc::invalid_argument);
    }
    if (!hide(iova, length)) {
        return fail_errno();
    }
    maps_.erase(found);
    return {};
}

void ClientMemory::unmap_all() {
    const std::lock_guard lock{lock_};
    hide(Iova{0}, size());
    maps_.clear();
}

// Where there was a scratch page the next touch meets what is there now. Without a fault there is
// none.
void ClientMemory::release(Iova iova, std::uint64_t length) noexcept {
    constexpr std::uint64_t mask = VRDMA_PAGE_SIZE - 1;
    if (guard_.faults() == 0 || length == 0 || at(iova, length) == nullptr) {
        return;
    }
    const std::uint64_t begin = raw(iova) & ~mask;
    const std::uint64_t end = std::min((raw(iova) + length + mask) & ~mask, size());
    const std::lock_guard lock{lock_};
    hide(Iova{begin}, end - begin);
    auto next = maps_.upper_bound(Iova{begin});
    if (next != maps_.begin()) {
        --next;
    }
    for (; next != maps_.end() && raw(next->first) < end; ++next) {
        show_again(next->first, next->second, begin, end);
    }
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

bool ClientMemory::hide(Iova iova, std::uint64_t length) const noexcept {
    return ::mmap(at(iova, length), length, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

} // namespace vrdma::vfio_user
