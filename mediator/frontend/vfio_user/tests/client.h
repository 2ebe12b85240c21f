// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A function on a soft HCA without threads, and messages to it.
#pragma once

#include <gtest/gtest.h>

#include "mediator/frontend/vfio_user/session.h"
#include "mediator/hca/soft/soft_hca.h"

namespace vrdma::vfio_user::test {

DeviceType device_type();
std::unique_ptr<hca::soft::SoftHca> make_hca();

// Everything that one function needs.
struct Bench {
    EventLoop loop;
    DeviceType type = device_type();
    std::unique_ptr<hca::soft::SoftHca> hca = make_hca();
    verbs::GidRegistry gids;

    std::vector<std::unique_ptr<Function>> make_functions(
        const std::string& name = "test", unsigned count = 1,
        PersonalityKind personality = PersonalityKind::vrdma);
    std::unique_ptr<Function> make_function();
};

UniqueFd shared_file(std::uint64_t size);
UniqueFd copy_of(const UniqueFd& fd);

template <typename... Parts>
Message command(std::uint16_t number, const Parts&... parts) {
    Answer bytes;
    (bytes.add(parts), ...);
    Message message;
    message.header = {7, number,
                      static_cast<std::uint32_t>(sizeof(vfio_user_header) + bytes.payload.size()),
                      0, 0};
    message.payload = std::move(bytes.payload);
    return message;
}

template <typename Part>
Part part_of(const Answer& answer, std::size_t offset = 0) {
    Part part{};
    EXPECT_GE(answer.payload.size(), offset + sizeof(part));
    std::memcpy(&part, answer.payload.data() + offset, sizeof(part));
    return part;
}

Message version_command(const std::string& json = "");

} // namespace vrdma::vfio_user::test
