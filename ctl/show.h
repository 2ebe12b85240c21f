// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdmad's answers as text for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace vrdma::ctl {

// How wide the terminal is, or 0.
using Width = std::size_t;

std::string show_devices(const nlohmann::json& answer, Width width);
std::string show_device(const nlohmann::json& answer, Width width);
std::string show_netdevs(const nlohmann::json& answer, Width width);
std::string show_protocols(const nlohmann::json& answer, Width width);
std::string show_protocols_of_one(const nlohmann::json& answer, Width width);
std::string show_counters(const nlohmann::json& answer, Width width);
std::string show_limits(const nlohmann::json& answer, Width width);
std::string show_uplinks(const nlohmann::json& answer, Width width);
std::string show_peers(const nlohmann::json& answer, Width width);
std::string show_name(const nlohmann::json& answer, Width width);
std::string show_nothing(const nlohmann::json& answer, Width width);
std::string show_log_level(const nlohmann::json& answer, Width width);
std::string show_reload(const nlohmann::json& answer, Width width);

} // namespace vrdma::ctl
