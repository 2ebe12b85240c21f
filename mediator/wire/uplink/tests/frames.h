// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Ethernet frames as tests send them.
#pragma once

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

namespace vrdma::wire {

using Frame = std::vector<std::byte>;

inline void append(Frame& frame, std::initializer_list<int> bytes) {
    for (const int byte : bytes) {
        frame.push_back(static_cast<std::byte>(byte));
    }
}

inline void append_half(Frame& frame, std::uint16_t value) {
    append(frame, {value >> 8, value & 0xff});
}

// A header from the near to the far end of the cable in network.h, or to a MAC with another last
// byte.
inline Frame ethernet(std::uint16_t type, int last_byte_of_target = 2) {
    Frame frame;
    append(frame, {2, 0, 0, 0, 0, last_byte_of_target, 2, 0, 0, 0, 0, 1});
    append_half(frame, type);
    return frame;
}

// The same frame with an 802.1Q tag.
inline Frame tagged(Frame frame, std::uint16_t tci) {
    Frame tag;
    append_half(tag, ETH_P_8021Q);
    append_half(tag, tci);
    frame.insert(frame.begin() + 12, tag.begin(), tag.end());
    return frame;
}

// A UDP or TCP header's ports, and a payload.
inline void append_ports_and_payload(Frame& frame, std::uint16_t port, std::size_t payload,
                                     int fill) {
    append_half(frame, 49152);
    append_half(frame, port);
    append_half(frame, static_cast<std::uint16_t>(8 + payload));
    append_half(frame, 0);
    frame.resize(frame.size() + payload, static_cast<std::byte>(fill));
}

struct Ipv4 {
    std::uint8_t protocol = IPPROTO_UDP;
    std::uint16_t port = 4791;
    std::size_t options = 0; // a multiple of 4
    std::size_t payload = 64;
    int fill = 0;
    int last_byte_of_target = 2; // of 10.0.0.x
};

inline Frame ipv4(const Ipv4& what, int last_byte_of_mac = 2) {
    Frame frame = ethernet(ETH_P_IP, last_byte_of_mac);
    const auto header = static_cast<int>(20 + what.options);
    append(frame, {0x40 | (header / 4), 0});
    append_half(frame, static_cast<std::uint16_t>(header + 8 + what.payload));
    append(frame, {0, 0, 0x40, 0, 64, what.protocol, 0, 0});
    append(frame, {10, 0, 0, 1, 10, 0, 0, what.last_byte_of_target});
    frame.resize(frame.size() + what.options, std::byte{1});
    std::uint32_t sum = 0;
    for (std::size_t at = ETH_HLEN; at < frame.size(); at += 2) {
        sum +=
            static_cast<std::uint32_t>(frame[at]) << 8 | static_cast<std::uint32_t>(frame[at + 1]);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    const std::uint32_t checksum = ~(sum + (sum >> 16)) & 0xffff;
    frame[ETH_HLEN + 10] = static_cast<std::byte>(checksum >> 8);
    frame[ETH_HLEN + 11] = static_cast<std::byte>(checksum);
    append_ports_and_payload(frame, what.port, what.payload, what.fill);
    return frame;
}

inline Frame ipv6(std::uint8_t protocol, std::uint16_t port, std::size_t payload = 64) {
    Frame frame = ethernet(ETH_P_IPV6);
    append(frame, {0x60, 0, 0, 0});
    append_half(frame, static_cast<std::uint16_t>(8 + payload));
    append(frame, {protocol, 64});
    append(frame, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
    append(frame, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});
    append_ports_and_payload(frame, port, payload, 0);
    return frame;
}

// RoCE v1: a GRH and more, from fe80::1 to fe80::2.
inline Frame roce_v1() {
    Frame frame = ethernet(0x8915);
    append(frame, {0x60, 0, 0, 0, 0, 24, 27, 64});
    append(frame, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
    append(frame, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});
    frame.resize(frame.size() + 24);
    return frame;
}

} // namespace vrdma::wire
