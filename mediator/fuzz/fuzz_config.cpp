// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// An unfinished configuration: any bytes as vrdmad.conf, when vrdmad starts and when it reloads on
// SIGHUP. If vrdmad accepts a configuration, it can serve it.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "mediator/control/reload.h"
#include "mediator/frontend/mdev/registration.h"
#include "mediator/fuzz/require.h"

namespace vrdma::control {
namespace {

using fuzz::require;

// Checks that the configuration can be registered with the module, and that its devices make sense.
void serve(const Config& config) {
    std::vector<std::string> uplinks;
    for (const UplinkOptions& uplink : config.uplinks) {
        uplinks.push_back(uplink.name);
    }
    for (const FabricOptions& fabric : config.fabrics) {
        uplinks.push_back(fabric.name);
    }
    require(mdev::registration(config.name, config.types, uplinks).has_value());
    for (const VfioUserDevice& device : config.vfio_user) {
        require(std::ranges::count(config.types, device.type, &DeviceType::name) == 1);
        require(device.share.weight >= 1 && device.share.weight <= hca::Share::max_weight);
    }
}

void take(std::string_view text) {
    static constexpr std::string_view other = "[types.small]\nweight = 7\n";
    const auto config = parse_config(text);
    Running running{"", std::string{other}, spdlog::level::off, parse_config(other).value()};
    const auto changes = compare(running, text);
    require(changes.has_value() == config.has_value());
    if (!config) {
        require(!config.error().empty());
        return;
    }
    apply(*changes, running);
    serve(running.config);
    serve(*config);
    // The same text again changes nothing.
    running = {"", std::string{text}, spdlog::level::off, *config};
    require(compare(running, text).value().wait.empty());
}

} // namespace
} // namespace vrdma::control

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    spdlog::set_level(spdlog::level::off);
    vrdma::control::take({reinterpret_cast<const char*>(data), size});
    return 0;
}
