// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// RoCE packets in Ethernet frames: the content of their headers, in host order, and the two
// functions that read and write them. The formats are in vrdma/roce.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "mediator/base/gid.h"
#include "mediator/base/same_bytes.h"

namespace vrdma::wire {

using vrdma::Gid;
using Mac = std::array<std::uint8_t, 6>;

// The encapsulation that a GID's type gives to its packets (VRDMA_GID_ROCE_V*).
enum class Encapsulation : std::uint8_t { roce_v1 = 0, roce_v2 = 1 };

// Everything below the transport: Ethernet, and the GRH, or IPv4 or IPv6 and UDP. RoCE v2 uses IPv4
// if both GIDs are IPv4-mapped.
struct Path {
    Encapsulation type = Encapsulation::roce_v2;
    Mac source_mac{};
    Mac target_mac{};
    std::optional<std::uint16_t> vlan; // the tag's VLAN id
    std::uint8_t priority = 0;         // of the tag, and of the interface's queue
    Gid source{};
    Gid target{};
    std::uint8_t traffic_class = 0; // with the ECN bits of IP
    std::uint8_t hop_limit = 0;
    std::uint32_t flow_label = 0;
    std::uint16_t source_port = 0; // of UDP; routers tell flows apart by it

    friend bool operator==(const Path& one, const Path& other) noexcept {
        return one.type == other.type && one.vlan == other.vlan && one.priority == other.priority &&
               one.traffic_class == other.traffic_class && one.hop_limit == other.hop_limit &&
               one.flow_label == other.flow_label && one.source_port == other.source_port &&
               same_bytes(one.source_mac, other.source_mac) &&
               same_bytes(one.target_mac, other.target_mac) &&
               same_bytes(one.source, other.source) && same_bytes(one.target, other.target);
    }
};

// The BTH, and the extended headers that its opcode has. Fields of the others are ignored when
// written, and are as here when read.
struct Headers {
    std::uint8_t opcode = 0; // enum vrdma_roce_opcode
    bool solicited = false;
    bool migrated = true; // to this path: always (IBA 17.2.8). Else some HCAs take a slow path
    bool fecn = false;
    bool becn = false;
    bool ack_request = false;
    std::uint16_t pkey = 0xffff;
    std::uint32_t target_qpn = 0;
    std::uint32_t psn = 0;

    // RETH and AtomicETH
    std::uint64_t address = 0;
    std::uint32_t rkey = 0; // IETH's, too
    std::uint32_t length = 0;
    std::uint64_t swap_add = 0;
    std::uint64_t compare = 0;

    // AETH and AtomicAckETH
    std::uint8_t syndrome = 0;
    std::uint32_t msn = 0;
    std::uint64_t original = 0;

    std::uint32_t imm = 0; // in network order

    // DETH
    std::uint32_t qkey = 0;
    std::uint32_t source_qpn = 0;

    std::uint32_t srqn = 0; // XRCETH

    friend bool operator==(const Headers&, const Headers&) = default;
};

struct Packet {
    Path path;
    Headers headers;
    std::span<const std::byte> payload; // in the frame, without its padding
};

// Why a frame is not a packet for a device here; each reason has a counter.
enum class Drop : std::uint8_t {
    none,
    other,     // not RoCE at all
    truncated, // shorter than its headers say
    malformed, // a field has a wrong value: version, lengths, fragments, padding, opcode
    icrc,
};

// Parses a frame as it came from the network; `packet` is valid only with Drop::none.
Drop parse(std::span<const std::byte> frame, Packet& packet) noexcept;

// The number of bytes before the payload, and of padding and ICRC after it.
std::size_t header_size(const Path& path, std::uint8_t opcode) noexcept;
std::size_t trailer_size(std::size_t payload_bytes) noexcept;

// Writes everything but the payload, which is at header_size() in the frame already. The frame has
// room for header_size() + payload_bytes + trailer_size(). Returns the frame's length.
std::size_t finish(std::span<std::byte> frame, const Path& path, const Headers& headers,
                   std::size_t payload_bytes) noexcept;

// At least the size of the largest frame that a path MTU of 4096 needs.
inline constexpr std::size_t max_frame_size = 4096 + 128;

} // namespace vrdma::wire
