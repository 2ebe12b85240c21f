// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/host/opened.h"

#include <algorithm>
#include <utility>

namespace vrdma::hca::host {
namespace {

using Opened = tl::expected<std::shared_ptr<Device>, std::string>;

thread_local std::vector<std::pair<std::string, Opened>> opened;

} // namespace

void open_early(const Libibverbs& library, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
        opened.emplace_back(name, Device::open(library, name));
    }
}

// A device is handed out once: a later call is for one that has come back.
Opened open_here(const Libibverbs& library, const std::string& name) {
    const auto early = std::ranges::find(opened, name, &decltype(opened)::value_type::first);
    if (early == opened.end()) {
        return Device::open(library, name);
    }
    Opened device = std::move(early->second);
    opened.erase(early);
    return device;
}

} // namespace vrdma::hca::host
