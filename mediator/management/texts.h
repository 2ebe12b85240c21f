// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The words for what reports have as numbers, the same in JSON and in metrics.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>

#include "mediator/management/reports.h"

namespace vrdma::management {

inline constexpr std::array<const char*, 5> state_texts{"unused", "active", "down", "failed",
                                                        "suspended"}; // by Device::State
inline constexpr std::array<const char*, resources> resource_texts{
    "pd", "mr", "cq", "qp", "srq", "xrcd", "ah", "blocks", "memory"}; // by Resource

template <std::size_t size>
std::string text_of(const helper::Text<size>& field) {
    return helper::read(field).value_or("");
}

inline std::string text_of(const Mac& mac) {
    return fmt::format("{:02x}", fmt::join(mac, ":"));
}

inline const char* state_text(const Device& device) {
    return state_texts.at(static_cast<std::size_t>(device.state));
}

inline const char* front_end_text(const Device& device) {
    return device.behind_socket != 0 ? "socket" : "mdev";
}

inline const char* kind_text(const Uplink& uplink) {
    return uplink.kind == Uplink::Kind::ethernet ? "ethernet" : "fabric";
}

} // namespace vrdma::management
