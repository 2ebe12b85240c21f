// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/packet_socket.h"

#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "mediator/base/at_once.h"
#include "mediator/base/errno.h"
#include "mediator/wire/uplink/socket_option.h"
#include "vrdma/roce.h"

namespace vrdma::wire {
namespace {

// The bytes per priority that the driver and the queues behind it may hold. The default is enough
// for some 25 large frames, less than one window of a queue pair.
constexpr int send_buffer = 4 << 20;

constexpr sock_filter load_half(std::uint32_t offset) {
    return BPF_STMT(BPF_LD | BPF_H | BPF_ABS, offset);
}
constexpr sock_filter load_byte(std::uint32_t offset) {
    return BPF_STMT(BPF_LD | BPF_B | BPF_ABS, offset);
}
// `yes` and `no` say how many instructions a jump skips.
constexpr sock_filter if_equal(std::uint32_t value, std::uint8_t yes, std::uint8_t no) {
    return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no);
}
constexpr sock_filter end(std::uint32_t bytes_kept) {
    return BPF_STMT(BPF_RET | BPF_K, bytes_kept);
}

constexpr sock_filter load_length = BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0);
constexpr sock_filter if_at_least(std::uint32_t value, std::uint8_t yes, std::uint8_t no) {
    return BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, value, yes, no);
}
constexpr sock_filter if_more(std::uint32_t value, std::uint8_t yes, std::uint8_t no) {
    return BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, value, yes, no);
}

// Takes RoCE v1, and v2 over IPv4 with or without options and over IPv6. The kernel has taken a
// VLAN's tag out of the frame before it gets here. A fragment after a datagram's first has no
// ports. RoCE has no fragments, so the parser judges one that seems to have the port.
std::array<sock_filter, 18> filter_of(FrameLengths lengths) {
    const auto shortened = [](std::size_t length) {
        return static_cast<std::uint32_t>(std::min<std::size_t>(length, UINT32_MAX));
    };
    return {
        load_length,
        if_at_least(shortened(lengths.least), 0, 15),
        if_more(shortened(lengths.most), 14, 0),
        load_half(12),
        if_equal(VRDMA_ROCE_ETHERTYPE, 11, 0),
        if_equal(ETH_P_IP, 0, 5),
        load_byte(14 + 9),
        if_equal(IPPROTO_UDP, 0, 9),
        sock_filter BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14), // the header's length
        sock_filter BPF_STMT(BPF_LD | BPF_H | BPF_IND, 14 + 2),
        if_equal(VRDMA_ROCE_UDP_PORT, 5, 6),
        if_equal(ETH_P_IPV6, 0, 5),
        load_byte(14 + 6),
        if_equal(IPPROTO_UDP, 0, 3),
        load_half(14 + 40 + 2),
        if_equal(VRDMA_ROCE_UDP_PORT, 0, 1),
        end(0xffffffff),
        end(0),
    };
}

Result<> bind_interface(int socket, int link_index, std::uint16_t protocol) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(protocol);
    address.sll_ifindex = link_index;
    if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        return fail_errno();
    }
    return {};
}

UniqueFd open_socket() {
    return UniqueFd{::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
}

} // namespace

Result<UniqueFd> open_packet_socket(FrameLengths lengths) {
    UniqueFd socket = open_socket();
    auto filter = filter_of(lengths);
    const sock_fprog program{filter.size(), filter.data()};
    if (!socket || !set_option(socket.get(), SOL_SOCKET, SO_ATTACH_FILTER, program) ||
        !set_option(socket.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, 1) ||
        !set_option(socket.get(), SOL_PACKET, PACKET_VNET_HDR, 1)) {
        return fail_errno();
    }
    return socket;
}

// Binds to all protocols, though the filter takes two: a socket that is bound to one protocol sees
// a frame only after steering has dropped it.
Result<> bind_packet_socket(int socket, int link_index) {
    return bind_interface(socket, link_index, ETH_P_ALL);
}

// A socket without a protocol receives nothing.
Result<UniqueFd> open_sending_socket(int link_index, int priority) {
    UniqueFd socket = open_socket();
    if (!socket || !set_option(socket.get(), SOL_SOCKET, SO_PRIORITY, priority) ||
        !set_option(socket.get(), SOL_SOCKET, SO_SNDBUFFORCE, send_buffer) ||
        !set_option(socket.get(), SOL_PACKET, PACKET_VNET_HDR, 1)) {
        return fail_errno();
    }
    if (auto bound = bind_interface(socket.get(), link_index, 0); !bound) {
        return fail(bound.error());
    }
    return socket;
}

void close_packet_sockets(std::span<UniqueFd> sockets) noexcept {
    at_once(sockets.size(), [sockets](std::size_t number) { sockets[number] = {}; });
}

} // namespace vrdma::wire
