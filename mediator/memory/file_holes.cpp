// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/memory/file_holes.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "mediator/base/errno.h"

namespace vrdma {

// The kernel's own touches fail. A program needs a privilege to be told of those as well, and
// nobody needs it.
Result<FileHoles> FileHoles::open() {
    constexpr long flags = O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY;
    UniqueFd fd{static_cast<int>(::syscall(SYS_userfaultfd, flags))};
    uffdio_api api{
        .api = UFFD_API, .features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM, .ioctls = 0};
    if (!fd || ::ioctl(fd.get(), UFFDIO_API, &api) != 0) {
        return fail_errno();
    }
    auto own = Mapping::anonymous(page_size);
    if (!own) {
        return fail(own.error());
    }
    return FileHoles{std::move(fd), std::move(*own)};
}

Result<> FileHoles::watch(std::byte* start, std::uint64_t size) const noexcept {
    uffdio_register range{};
    range.range = {reinterpret_cast<std::uintptr_t>(start), size};
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    return ::ioctl(fd_.get(), UFFDIO_REGISTER, &range) == 0 ? Result<>{} : fail_errno();
}

int FileHoles::make(std::byte* page) const noexcept {
    uffdio_zeropage zero{};
    zero.range = {reinterpret_cast<std::uintptr_t>(page), page_size};
    return ::ioctl(fd_.get(), UFFDIO_ZEROPAGE, &zero) == 0 ? 0 : errno;
}

// Maps the page, if it is there. Linux before 5.14 cannot.
int FileHoles::look(std::byte* page) const noexcept {
    uffdio_continue there{};
    there.range = {reinterpret_cast<std::uintptr_t>(page), page_size};
    return ::ioctl(fd_.get(), UFFDIO_CONTINUE, &there) == 0 ? EEXIST : errno;
}

// Causes another fault, of a page that is there.
void FileHoles::end_fault() const noexcept {
    ::madvise(own_.data(), page_size, MADV_DONTNEED);
    *own_.as<volatile char>() = 0;
}

} // namespace vrdma
