// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/mdev/handover.h"

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "mediator/base/errno.h"
#include "mediator/device/state_stream.h"
#include "vrdma/mdev.h"

namespace vrdma::mdev {
namespace {

constexpr std::size_t bytes_at_a_time = std::size_t{64} << 10;

Result<> write_all(const UniqueFd& file, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
        if (written <= 0) {
            return fail_errno();
        }
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
}

// The reader refuses more bytes than the header announces, so the loop is bounded.
Result<> read_all(const UniqueFd& file, StreamReader& reader) {
    std::vector<std::byte> piece(bytes_at_a_time);
    for (off_t at = 0;;) {
        const ssize_t length = ::pread(file.get(), piece.data(), piece.size(), at);
        if (length < 0) {
            return fail_errno();
        }
        if (length == 0) {
            return {};
        }
        const auto taken = reader.take(std::span{piece}.first(static_cast<std::size_t>(length)));
        if (!taken) {
            return fail(taken.error());
        }
        if (!taken->empty()) {
            return fail(std::errc::invalid_argument);
        }
        at += length;
    }
}

} // namespace

Result<UniqueFd> to_file(std::span<const std::byte> image) {
    UniqueFd file{::memfd_create("vrdma-device", MFD_CLOEXEC)};
    if (!file) {
        return fail_errno();
    }
    return write_all(file, to_stream(image)).map([&] { return std::move(file); });
}

Result<> hand_over(int fd, const UniqueFd& file) {
    vrdma_mdev_handover handover{file.get(), 0};
    if (::ioctl(fd, VRDMA_MDEV_HAND_OVER, &handover) != 0) {
        return fail_errno();
    }
    return {};
}

Result<bool> take_over(int fd, std::uint64_t max_length,
                       const std::function<Result<>(std::span<const std::byte>)>& restore) {
    const UniqueFd file{::ioctl(fd, VRDMA_MDEV_TAKE_OVER)};
    if (!file) {
        if (errno == ENOENT) {
            return false;
        }
        return fail_errno();
    }
    StreamReader reader{max_length};
    if (const auto read = read_all(file, reader); !read) {
        return fail(read.error());
    }
    const auto image = reader.content();
    if (!image) {
        return fail(image.error());
    }
    return restore(*image).map([] { return true; });
}

} // namespace vrdma::mdev
