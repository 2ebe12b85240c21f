// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Valid RoCE v2 packets for QPs that do not exist, as fast as a host can send them.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "mediator/base/unique_fd.h"
#include "torture/failure.h"
#include "torture/hostile/neighbours.h"
#include "vrdma/roce.h"

namespace vrdma::torture::hostile {
namespace {

constexpr std::size_t burst = 512;
constexpr std::size_t payload_size = 240;

// From the IP header to the ICRC, which covers all of it.
struct Packet {
    vrdma_ipv4 ip{};
    vrdma_udp udp{};
    vrdma_bth bth{};
    std::array<std::byte, payload_size> payload{};
    std::uint32_t icrc = 0;

    // The part that the socket gets. The kernel adds the headers before it.
    iovec datagram() { return {&bth, sizeof(Packet) - sizeof(vrdma_ipv4) - sizeof(vrdma_udp)}; }
};
static_assert(sizeof(Packet) ==
              sizeof(vrdma_ipv4) + sizeof(vrdma_udp) + sizeof(vrdma_bth) + payload_size + 4);

sockaddr_in address_of(const std::string& host) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(VRDMA_ROCE_UDP_PORT);
    require(::inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1, "no IPv4 address");
    return address;
}

// The source address of packets to `target`. The kernel numbers the packets of a connected socket,
// and does not fragment them.
sockaddr_in source_to(const sockaddr_in& target) {
    sockaddr_in source{};
    socklen_t size = sizeof(source);
    const UniqueFd socket{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    const bool known =
        ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&target), sizeof(target)) == 0 &&
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&source), &size) == 0;
    check(known ? 0 : errno, "connect");
    return source;
}

UniqueFd socket_of(const sockaddr_in& source) {
    UniqueFd socket{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    const int whole = IP_PMTUDISC_DO;
    const bool made =
        ::setsockopt(socket.get(), IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof(whole)) == 0 &&
        ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&source), sizeof(source)) == 0;
    check(made ? 0 : errno, "bind");
    return socket;
}

// The CRC of Ethernet, without its final inversion.
std::uint32_t crc(std::uint32_t before, std::span<const std::byte> bytes) {
    constexpr std::uint32_t polynomial = 0xedb88320;
    for (const std::byte byte : bytes) {
        before ^= std::to_integer<std::uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit) {
            before = before >> 1 ^ ((before & 1) != 0 ? polynomial : 0);
        }
    }
    return before;
}

// IBA A17.3.3: fields that routers change count as ones, and so do the eight bytes in front of the
// packet.
std::uint32_t icrc_of(Packet packet) {
    packet.ip.traffic_class = packet.ip.hop_limit = 0xff;
    packet.ip.checksum = packet.udp.checksum = 0xffff;
    reinterpret_cast<std::uint8_t*>(&packet.bth)[offsetof(vrdma_bth, target)] = 0xff;
    constexpr std::uint64_t ones = ~std::uint64_t{0};
    const auto covered =
        std::as_bytes(std::span{&packet, 1}).first(sizeof(Packet) - sizeof(packet.icrc));
    return ~crc(crc(~0u, std::as_bytes(std::span{&ones, 1})), covered);
}

// The headers are as the kernel will write them.
Packet packet_between(const sockaddr_in& source, const sockaddr_in& target) {
    constexpr std::size_t size = sizeof(Packet);
    Packet packet;
    packet.ip.version = VRDMA_IPV4_VERSION;
    packet.ip.length = htons(size);
    packet.ip.fragment = htons(VRDMA_IPV4_DONT_FRAGMENT);
    packet.ip.protocol = IPPROTO_UDP;
    std::memcpy(packet.ip.source, &source.sin_addr, sizeof(packet.ip.source));
    std::memcpy(packet.ip.target, &target.sin_addr, sizeof(packet.ip.target));
    packet.udp.source_port = source.sin_port;
    packet.udp.target_port = target.sin_port;
    packet.udp.length = htons(size - sizeof(vrdma_ipv4));
    return packet;
}

void fill(Packet& packet, Random& random) {
    packet.bth.opcode = VRDMA_ROCE_RC_SEND_ONLY;
    packet.bth.pkey = 0xffff;
    packet.bth.target = htonl(static_cast<std::uint32_t>(random.next()) & VRDMA_BTH_TARGET_QPN);
    packet.bth.psn = htonl(static_cast<std::uint32_t>(random.next()) & VRDMA_BTH_PSN);
    std::ranges::generate(packet.payload, [&] { return static_cast<std::byte>(random.next()); });
    packet.icrc = icrc_of(packet);
}

} // namespace

void packet_flood(const Seat& seat, Pace& pace) {
    sockaddr_in target = address_of(seat.network);
    const sockaddr_in source = source_to(target);
    const UniqueFd socket = socket_of(source);
    Random random = Random::of({seat.seed});
    std::vector<Packet> packets(burst, packet_between(source, target));
    std::vector<iovec> parts(burst);
    std::vector<mmsghdr> messages(burst);
    for (std::size_t i = 0; i < burst; ++i) {
        fill(packets[i], random);
        parts[i] = packets[i].datagram();
        messages[i].msg_hdr = {.msg_name = &target,
                               .msg_namelen = sizeof(target),
                               .msg_iov = &parts[i],
                               .msg_iovlen = 1,
                               .msg_control = nullptr,
                               .msg_controllen = 0,
                               .msg_flags = 0};
    }
    while (true) {
        pace.rest();
        // Errors are ignored: a refused packet was sent, too. Only the device listens there.
        ::sendmmsg(socket.get(), messages.data(), burst, 0);
    }
}

} // namespace vrdma::torture::hostile
