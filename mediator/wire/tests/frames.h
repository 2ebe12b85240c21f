// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Helpers for tests of packets: paths of all kinds, every opcode, and frames made of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "mediator/wire/headers.h"
#include "mediator/wire/packet.h"
#include "vrdma/roce.h"

namespace vrdma::wire {

using Bytes = std::vector<std::byte>;

inline Gid ipv4(std::uint8_t host) {
    return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, host};
}

inline Gid ipv6(std::uint8_t host) {
    return {0xfd, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, host};
}

inline Path path_of(Encapsulation type, Gid source, Gid target) {
    Path path;
    path.type = type;
    path.source_mac = {0x52, 0x54, 0, 1, 2, 3};
    path.target_mac = {0x52, 0x54, 0, 4, 5, 6};
    path.source = source;
    path.target = target;
    path.traffic_class = 0x62; // with ECT(0)
    path.hop_limit = 63;
    return path;
}

inline Path roce_v1_path() {
    Path path = path_of(Encapsulation::roce_v1, ipv4(1), ipv4(2));
    path.flow_label = 0x12345;
    return path;
}

inline Path ipv4_path() {
    Path path = path_of(Encapsulation::roce_v2, ipv4(1), ipv4(2));
    path.source_port = 0xc123;
    return path;
}

inline Path ipv6_path() {
    Path path = path_of(Encapsulation::roce_v2, ipv6(1), ipv6(2));
    path.source_port = 0xc123;
    path.flow_label = 0xabcde;
    return path;
}

inline Path tagged(Path path) {
    path.vlan = 0xabc;
    path.priority = 5;
    return path;
}

inline std::vector<Path> all_paths() {
    return {roce_v1_path(),         ipv4_path(),         ipv6_path(),
            tagged(roce_v1_path()), tagged(ipv4_path()), tagged(ipv6_path())};
}

inline std::vector<std::uint8_t> all_opcodes() {
    std::vector<std::uint8_t> opcodes;
    for (int opcode = 0; opcode < 256; ++opcode) {
        if (shape_of(static_cast<std::uint8_t>(opcode)).known) {
            opcodes.push_back(static_cast<std::uint8_t>(opcode));
        }
    }
    return opcodes;
}

// Each field has a value that no other field has, and that fills it.
inline Headers headers_of(std::uint8_t opcode) {
    Headers headers;
    headers.opcode = opcode;
    headers.ack_request = true;
    headers.pkey = 0x8001;
    headers.target_qpn = 0xc0ffee;
    headers.psn = 0xfedcba;
    headers.address = 0xf102030405060708;
    headers.rkey = 0x91a2b3c4;
    headers.length = 0x81726354;
    headers.swap_add = 0xf1e2d3c4b5a69788;
    headers.compare = 0x8899aabbccddeeff;
    headers.syndrome = 0x61;
    headers.msn = 0xabcdef;
    headers.original = 0xa1b2c3d4e5f60718;
    headers.imm = 0xdeadbeef;
    headers.qkey = 0x80010000;
    headers.source_qpn = 0xfffffe;
    headers.srqn = 0x765432;
    return headers;
}

inline Bytes payload_of(std::size_t size) {
    Bytes payload(size);
    for (std::size_t i = 0; i < size; ++i) {
        payload[i] = static_cast<std::byte>(i * 7 + 1);
    }
    return payload;
}

// The buffer is exactly as long as the frame, so that the sanitizer sees reads beyond it.
inline Bytes frame_of(const Path& path, const Headers& headers,
                      std::span<const std::byte> payload) {
    const std::size_t before = header_size(path, headers.opcode);
    Bytes frame(before + payload.size() + trailer_size(payload.size()), std::byte{0xa5});
    std::copy(payload.begin(), payload.end(), frame.begin() + static_cast<std::ptrdiff_t>(before));
    if (finish(frame, path, headers, payload.size()) != frame.size()) {
        throw std::logic_error{"a frame of another size"};
    }
    return frame;
}

// Hexadecimal digits; spaces are ignored.
inline Bytes from_hex(std::string_view text) {
    Bytes bytes;
    int high = -1;
    for (const char c : text) {
        if (c == ' ') {
            continue;
        }
        const std::string_view digits = "0123456789abcdef";
        const auto digit = static_cast<int>(digits.find(c));
        if (high < 0) {
            high = digit;
        } else {
            bytes.push_back(static_cast<std::byte>(high << 4 | digit));
            high = -1;
        }
    }
    return bytes;
}

} // namespace vrdma::wire
