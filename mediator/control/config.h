// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdmad's configuration: see vrdmad.conf(5).
#pragma once

#include <spdlog/common.h>

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "mediator/device/device_type.h"
#include "mediator/hca/soft/config.h"

namespace vrdma::control {

std::vector<DeviceType> default_types();

struct Config {
    std::string name = "vrdma"; // of the HCA, and so of the parent device
    spdlog::level::level_enum log_level = spdlog::level::info;
    hca::soft::Config soft;
    std::vector<DeviceType> types = default_types();
};

// The error is for people and names the key.
tl::expected<Config, std::string> load_config(const std::string& path);
tl::expected<Config, std::string> parse_config(std::string_view text);

tl::expected<spdlog::level::level_enum, std::string> parse_log_level(const std::string& text);

} // namespace vrdma::control
