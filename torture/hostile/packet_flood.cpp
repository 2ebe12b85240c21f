// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Packets of RoCE v2 for QPs that do not exist, as fast as a host can send them.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <vector>

#include "mediator/base/unique_fd.h"
#include "torture/failure.h"
#include "torture/hostile/neighbours.h"
#include "vrdma/roce.h"

namespace vrdma::torture::hostile {
namespace {

constexpr std::size_t burst = 512;
constexpr std::size_t packet_size = 256;
constexpr std::byte send_only{VRDMA_ROCE_RC_SEND_ONLY};

using Packet = std::array<std::byte, packet_size>;

UniqueFd socket_to(const std::string& address) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(VRDMA_ROCE_UDP_PORT);
    require(::inet_pton(AF_INET, address.c_str(), &to.sin_addr) == 1, "no IPv4 address");
    UniqueFd socket{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    check(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0 ? errno
                                                                                           : 0,
          "connect");
    return socket;
}

void fill(Packet& packet, Random& random) {
    std::ranges::generate(packet, [&] { return static_cast<std::byte>(random.next()); });
    packet[0] = send_only; // of a base transport header
    packet[1] = std::byte{0};
}

} // namespace

void packet_flood(const Seat& seat, Pace& pace) {
    const UniqueFd socket = socket_to(seat.network);
    Random random = Random::of({seat.seed});
    std::vector<Packet> packets(burst);
    std::vector<iovec> parts(burst);
    std::vector<mmsghdr> messages(burst);
    for (std::size_t i = 0; i < burst; ++i) {
        fill(packets[i], random);
        parts[i] = {packets[i].data(), packet_size};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    while (true) {
        pace.rest();
        // What is refused was sent as well: nobody listens there but the device.
        ::sendmmsg(socket.get(), messages.data(), burst, 0);
    }
}

} // namespace vrdma::torture::hostile
