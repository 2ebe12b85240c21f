// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The vfio-user protocol from the client's side: a command, and its answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "mediator/base/unique_fd.h"
#include "torture/failure.h"
#include "vrdma/vfio_user.h"

namespace vrdma::torture::hostile {

struct Reply {
    std::vector<std::byte> payload;
    UniqueFd fd;

    template <typename T>
    T part(std::size_t offset = 0) const {
        T part{};
        require(payload.size() >= offset + sizeof(part), "a device's answer is too short");
        std::memcpy(&part, payload.data() + offset, sizeof(part));
        return part;
    }
};

UniqueFd connect_to(const std::string& socket);
// Sends a command, with `fd` unless it is negative, and returns its reply. The command has to
// succeed.
Reply converse(const UniqueFd& socket, vfio_user_command number, std::span<const std::byte> payload,
               int fd = -1);

template <typename... Parts>
Reply command(const UniqueFd& socket, vfio_user_command number, const Parts&... parts) {
    std::vector<std::byte> payload;
    const auto add = [&](const auto& part) {
        const auto bytes = std::as_bytes(std::span{&part, 1});
        payload.insert(payload.end(), bytes.begin(), bytes.end());
    };
    (add(parts), ...);
    return converse(socket, number, payload);
}

} // namespace vrdma::torture::hostile
