// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Devices and uplinks that are added to a configuration while vrdmad runs. They have the sections
// that the configuration's file would have for them. In a Config they come after those of the file.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "mediator/control/config/config.h"
#include "mediator/control/config/toml.h"

namespace vrdma::control {

// Adds what a [[vfio_user]] or an [[uplink]] describes. The error is for people. Nothing is added
// then. `path` is the section's name in the error.
tl::expected<void, std::string> add_device(const toml::table& section, Config& config,
                                           const std::string& path = {});
tl::expected<void, std::string> add_uplink(const toml::table& section, Config& config,
                                           const std::string& path = {});

// How many of them are the file's.
template <typename Item>
std::size_t count_of_file(const std::vector<Item>& items) {
    std::size_t count = 0;
    while (count < items.size() && items[count].section.empty()) {
        ++count;
    }
    return count;
}

// The sections of all that was added, as a text for add_all().
std::string additions_of(const Config& config);
// Adds the sections of the text that still fit the configuration. Returns the reasons why others do
// not, for people.
std::vector<std::string> add_all(std::string_view text, Config& config);

} // namespace vrdma::control
