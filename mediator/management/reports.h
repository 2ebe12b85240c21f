// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What can be asked of the mediator is answered by these: plain structs, which are also the records
// of the messages between vrdmad and the process that serves its control socket (messages.h).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "mediator/base/rate.h"
#include "mediator/helper/fields.h"
#include "vrdma/device.h"

namespace vrdma::management {

using Name = helper::Text<96>;
using ShortName = helper::Text<16>; // of a type, an uplink or an interface
using Line = helper::Text<256>;     // for people
using Mac = std::array<std::uint8_t, 6>;

inline constexpr std::uint64_t max_weight = 10'000;

// Versions of RoCE, as bits.
inline constexpr std::uint32_t roce_v1 = 1u << VRDMA_GID_ROCE_V1;
inline constexpr std::uint32_t roce_v2 = 1u << VRDMA_GID_ROCE_V2;

struct Share {
    std::uint64_t weight;
    std::uint64_t bytes_per_second; // this and the next: 0 means no limit
    std::uint64_t operations_per_second;

    bool operator==(const Share&) const = default;
};

struct Usage {
    std::uint64_t used;
    std::uint64_t max;
};

// The resources of which a device has a limited amount.
enum class Resource : std::uint8_t { pd, mr, cq, qp, srq, xrcd, ah, blocks, memory };
inline constexpr std::size_t resources = 9;

// How much of each a device may have, by Resource.
using Quotas = std::array<std::uint64_t, resources>;
inline constexpr std::uint64_t quota_stays = std::numeric_limits<std::uint64_t>::max();

struct Device {
    enum class State : std::uint8_t { unused, active, down, failed, suspended };

    Name name;
    ShortName type;
    ShortName uplink; // or empty
    Mac mac;
    State state;
    std::uint8_t behind_socket; // else a mediated device
    std::uint32_t mtu;          // bytes; 0: unused
    std::uint32_t mbps;
    std::uint32_t protocols; // of RoCE that it may use; 0: its uplink, if any, is no Ethernet
    std::uint32_t reserved;
    Share share;
    std::array<Usage, resources> usages; // by Resource
};

struct Counters {
    Name device;
    std::array<std::uint64_t, VRDMA_NUM_COUNTERS> values; // by enum vrdma_counter
};

struct Uplink {
    enum class Kind : std::uint8_t { ethernet, fabric };

    Name name;
    Name detail; // the interface, or libfabric's provider
    Mac mac;
    Kind kind;
    std::uint8_t up;
    std::uint32_t mbps; // 0: not known
    std::uint32_t peers;
};

// Another mediator that a fabric knows.
struct Peer {
    Name name;
    Name address;
    ShortName uplink;
    std::uint32_t up;
    std::uint32_t addresses; // of its devices
};

struct Poller {
    Name name; // its number
    std::uint64_t busy_ns;
    std::uint64_t cpu_ns;
};

// What the devices have done since vrdmad started.
struct Activity {
    struct Bucket {
        std::uint64_t longest_ns;
        std::uint64_t count;
    };
    // Commands of guests' drivers by the time that they took.
    std::array<Bucket, 16> buckets;
    std::uint64_t longer; // than all of these
    std::uint64_t sum_ns;
    std::uint64_t migrations_in;
    std::uint64_t migrations_out;
};

// A key of a section of vrdmad.conf(5), with its value. The items of an array come one by one.
struct Setting {
    enum class Kind : std::uint32_t { text, number, flag, item };

    helper::Text<32> key;
    Kind kind;
    std::uint32_t reserved;
    std::int64_t number;    // or 0 or 1, for a flag
    helper::Text<512> text; // also of an item
};
using Settings = std::vector<Setting>;
inline constexpr std::size_t max_settings = 64;

// Peers of two fabrics may have the same name.
inline std::string full_name(const Peer& peer) {
    return helper::read(peer.uplink).value_or("") + "/" + helper::read(peer.name).value_or("");
}

} // namespace vrdma::management
