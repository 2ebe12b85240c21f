// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/hole_account.h"

#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

#include "mediator/memory/file_holes.h"

namespace vrdma::vfio_user {
namespace {

// Whether the file is on the kernel's internal tmpfs, where no file ever has a name. On another
// tmpfs, the last link of an open file may be removed, and inotify cannot tell this from the end of
// the file.
bool is_unnamed(const struct stat& status) {
    static const dev_t device = [] {
        const UniqueFd file{::memfd_create("vrdma", MFD_CLOEXEC)};
        struct stat own {};
        return file && ::fstat(file.get(), &own) == 0 ? own.st_dev : 0;
    }();
    return status.st_dev == device && status.st_nlink == 0;
}

} // namespace

HoleAccount::Files::iterator HoleAccount::open(const struct stat& status) {
    settle();
    const auto file = files_.try_emplace({status.st_dev, status.st_ino}).first;
    left_ -= file->second.maps == 0 && file->second.made != 0 ? 1 : 0;
    ++file->second.maps;
    file->second.unnamed = is_unnamed(status);
    file->second.watch = none;
    return file;
}

void HoleAccount::close(Files::iterator file, int fd, std::uint64_t pages) noexcept {
    if (--file->second.maps != 0) {
        return;
    }
    bound(file->second, pages);
    if (file->second.made == 0) {
        files_.erase(file);
        return;
    }
    settle();
    if (left_ == most_left) {
        files_.erase(file); // its pages stay in used_
        return;
    }
    watch(file->second, fd);
    ++left_;
}

// A block is 512 bytes.
std::uint64_t HoleAccount::pages_of(int fd) noexcept {
    struct stat status {};
    return ::fstat(fd, &status) == 0
               ? static_cast<std::uint64_t>(status.st_blocks) / (FileHoles::page_size / 512)
               : ~std::uint64_t{0};
}

void HoleAccount::bound(File& file, std::uint64_t pages) noexcept {
    const std::uint64_t gone = file.made - std::min(file.made, pages);
    file.made -= gone;
    used_ -= gone;
}

void HoleAccount::watch(File& file, int fd) noexcept {
    if (!file.unnamed) {
        return;
    }
    if (!notices_) {
        notices_ = UniqueFd{::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
    }
    constexpr std::string_view directory = "/proc/self/fd/";
    std::array<char, 32> path{};
    char* const name = std::ranges::copy(directory, path.begin()).out;
    std::to_chars(name, path.end() - 1, fd);
    file.watch = ::inotify_add_watch(notices_.get(), path.data(), IN_DELETE_SELF);
}

// Forgets the files that are gone. Their inode numbers may be used for other files next.
void HoleAccount::settle() noexcept {
    if (!notices_) {
        return;
    }
    constexpr std::size_t many = 64 * sizeof(inotify_event);
    alignas(inotify_event) std::array<char, many> notices{};
    ssize_t size = 0;
    while ((size = ::read(notices_.get(), notices.data(), notices.size())) > 0) {
        for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
            inotify_event notice{};
            std::memcpy(&notice, notices.data() + at, sizeof(notice));
            at += sizeof(notice) + notice.len;
            const int watch = notice.wd;
            const auto file = std::ranges::find_if(
                files_, [watch](const auto& each) { return each.second.watch == watch; });
            if ((notice.mask & IN_IGNORED) != 0 && file != files_.end()) {
                forget(file);
            }
        }
    }
    if (left_ == 0) {
        notices_ = {};
    }
}

void HoleAccount::forget(Files::iterator file) noexcept {
    used_ -= file->second.made;
    files_.erase(file);
    --left_;
}

} // namespace vrdma::vfio_user
