// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The addresses of a message: where it comes from, and where it goes.
#pragma once

#include <cstring>

#include "mediator/base/pkey.h"
#include "mediator/base/same_bytes.h"
#include "mediator/hca/port.h"
#include "mediator/hca/queue_pair.h"

namespace vrdma::hca::soft {

// A GID, its type (VRDMA_GID_ROCE_V*: the format of its RoCE packets), and its VLAN, or 0. Peers of
// different types or in different VLANs do not reach each other.
struct GidKey {
    Gid gid{};
    std::uint8_t type = 0;
    std::uint16_t vlan = 0;

    friend bool operator==(const GidKey& one, const GidKey& other) noexcept {
        return same_bytes(one.gid, other.gid) && one.type == other.type && one.vlan == other.vlan;
    }
};

struct GidHash {
    std::size_t operator()(const Gid& gid) const noexcept {
        std::uint64_t halves[2];
        std::memcpy(halves, gid.data(), sizeof(halves));
        return halves[0] * 31 + halves[1];
    }
    std::size_t operator()(const GidKey& key) const noexcept {
        return ((*this)(key.gid) * 31 + key.type) * 31 + key.vlan;
    }
};

class NetworkTarget;

// Source and destination of a message, as the headers of its packets would say.
struct Route {
    QpType type = QpType::rc; // of the receiving QP
    GidKey source;
    GidKey target;
    Qpn from;
    Qpn to;
    std::uint16_t pkey = default_pkey; // the sender's
    // Only for connected QPs, as both sides have agreed:
    std::uint32_t first_psn = 0;
    std::uint8_t path_mtu = 0; // enum ibv_mtu
    // Only for UD:
    std::uint32_t qkey = 0;
    vrdma_av av{};
    const NetworkTarget* on_network = nullptr; // of an AH
};

} // namespace vrdma::hca::soft
