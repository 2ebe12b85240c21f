// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "mediator/base/errno.h"

namespace vrdma::vfio_user {
namespace {

// The most descriptors that the kernel passes at a time.
constexpr std::size_t max_fds_at_once = 253;
using Control = std::array<std::byte, CMSG_SPACE(max_fds_at_once * sizeof(int))>;

bool would_block() {
    return errno == EAGAIN || errno == EINTR;
}

} // namespace

ssize_t send_with_fds(int socket, std::span<const std::byte> bytes,
                      std::span<const int> fds) noexcept {
    alignas(cmsghdr) Control control{};
    iovec buffer{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &buffer;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(fds.size_bytes());
        cmsghdr* const part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(fds.size_bytes());
        std::memcpy(CMSG_DATA(part), fds.data(), fds.size_bytes());
    }
    return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

Result<std::optional<Message>> Channel::receive() {
    constexpr std::size_t header_size = sizeof(incoming_.header);
    if (received_ < header_size) {
        const auto header = std::as_writable_bytes(std::span{&incoming_.header, 1});
        const auto full = fill(header.subspan(received_));
        if (!full) {
            return fail(full.error());
        }
        if (!*full) {
            return std::nullopt;
        }
        const std::size_t size = incoming_.header.size;
        if (size < header_size || size > max_message_size) {
            return fail(std::errc::bad_message);
        }
        incoming_.payload.resize(size - header_size);
    }
    const auto full = fill(std::span{incoming_.payload}.subspan(received_ - header_size));
    if (!full) {
        return fail(full.error());
    }
    if (!*full) {
        return std::nullopt;
    }
    received_ = 0;
    return std::exchange(incoming_, {});
}

// Returns true once the target is full. Reads no further than that, so that descriptors belong to
// one message.
Result<bool> Channel::fill(std::span<std::byte> target) {
    if (target.empty()) {
        return true;
    }
    alignas(cmsghdr) Control control;
    iovec buffer{target.data(), target.size()};
    msghdr message{};
    message.msg_iov = &buffer;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t size = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size < 0) {
        if (would_block()) {
            return false;
        }
        return fail_errno();
    }
    if (size == 0) {
        return fail(std::errc::connection_reset);
    }
    if (const auto taken = take_fds(message); !taken) {
        return fail(taken.error());
    }
    received_ += static_cast<std::size_t>(size);
    return static_cast<std::size_t>(size) == target.size();
}

Result<> Channel::take_fds(const msghdr& message) {
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
         part = CMSG_NXTHDR(const_cast<msghdr*>(&message), part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(fd), sizeof(fd));
            incoming_.fds.emplace_back(fd);
        }
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0) { // not for lack of room in `control`
        incoming_.fds_lost = true;
    }
    if (incoming_.fds.size() > max_fds) {
        return fail(std::errc::bad_message);
    }
    return {};
}

Result<> Channel::send(const vfio_user_header& header, Answer answer) {
    const auto bytes = std::as_bytes(std::span{&header, 1});
    unsent_.assign(bytes.begin(), bytes.end());
    unsent_.insert(unsent_.end(), answer.payload.begin(), answer.payload.end());
    unsent_fds_ = std::move(answer.fds);
    return flush();
}

Result<> Channel::flush() {
    if (unsent_.empty()) {
        return {};
    }
    const ssize_t size = send_with_fds(socket_.get(), unsent_, unsent_fds_);
    if (size < 0) {
        if (would_block()) {
            return {};
        }
        return fail_errno();
    }
    unsent_.erase(unsent_.begin(), unsent_.begin() + size);
    unsent_fds_.clear();
    return {};
}

} // namespace vrdma::vfio_user
