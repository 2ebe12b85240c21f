// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// One message of the protocol, received or to be sent.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"
#include "vrdma/vfio_user.h"

namespace vrdma::vfio_user {

// The limits of one message, which the mediator also reports to the client.
constexpr std::size_t max_transfer = 1 << 16;
constexpr std::size_t max_fds = 16; // QEMU rejects a larger value as malformed
constexpr std::size_t max_message_size =
    sizeof(vfio_user_header) + sizeof(vfio_user_region_access) + max_transfer;

struct Message {
    vfio_user_header header{};
    std::vector<std::byte> payload;
    std::vector<UniqueFd> fds;
    bool fds_lost = false; // the process had no room for all of them

    // The structure at the beginning of the payload.
    template <typename T>
    Result<T> read() const {
        if (payload.size() < sizeof(T)) {
            return fail(std::errc::invalid_argument);
        }
        T value;
        std::memcpy(&value, payload.data(), sizeof(value));
        return value;
    }

    template <typename T>
    std::span<const std::byte> after() const {
        return std::span{payload}.subspan(sizeof(T));
    }
};

// The answer to a command: the payload of the reply, and descriptors, which the sender still owns.
struct Answer {
    std::vector<std::byte> payload;
    std::vector<int> fds;

    template <typename T>
    Answer& add(const T& value) {
        const auto bytes = std::as_bytes(std::span{&value, 1});
        payload.insert(payload.end(), bytes.begin(), bytes.end());
        return *this;
    }
};

} // namespace vrdma::vfio_user
