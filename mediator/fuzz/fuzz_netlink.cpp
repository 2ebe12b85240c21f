// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Any bytes as a message of rtnetlink(7): a neighbour, a route, a link.
#include <algorithm>
#include <cstring>
#include <vector>

#include "mediator/fuzz/input.h"
#include "mediator/wire/uplink/neighbour_table.h"
#include "mediator/wire/uplink/route.h"

namespace vrdma::wire {
namespace {

// The input is the message's type, then the bytes after the header. The length in the header is
// right, because libnl passes on no other messages.
void receive(fuzz::Input input) {
    const auto type = input.take<std::uint16_t>();
    const auto body = input.rest();
    std::vector<std::uint8_t> message(NLMSG_HDRLEN + body.size());
    const nlmsghdr header{static_cast<std::uint32_t>(message.size()), type, 0, 0, 0};
    std::memcpy(message.data(), &header, sizeof(header));
    std::ranges::copy(body, message.begin() + NLMSG_HDRLEN);
    auto* const received = reinterpret_cast<nlmsghdr*>(message.data());
    (void)parse_neighbour(received);
    (void)parse_route(received);
    (void)parse_bridge(received);
}

} // namespace
} // namespace vrdma::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    vrdma::wire::receive(vrdma::fuzz::Input{{data, size}});
    return 0;
}
