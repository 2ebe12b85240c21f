// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/confinement.h"

#include <linux/capability.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "mediator/base/errno.h"
#include "mediator/base/runtime_directory.h"
#include "mediator/base/sanitized.h"
#include "mediator/jail/capabilities.h"
#include "mediator/jail/writable.h"
#include "vrdma/mdev.h"

namespace vrdma::control {
namespace {

std::string directory_of(const std::string& path) {
    const auto directory = std::filesystem::path{path}.parent_path();
    return directory.empty() ? "." : directory.string();
}

// Landlock needs a list of the devices that libfabric's providers open: /dev/infiniband and
// /dev/null.
jail::Writable writable_of(const Config& config) {
    jail::Writable writable{{}, {VRDMA_MDEV_PATH, "/dev/infiniband", "/dev/null"}};
    if (may_serve_uplinks(config)) {
        writable.directories.push_back(runtime_directory());
    }
    if (!config.control.socket.path.empty()) {
        writable.directories.push_back(directory_of(config.control.socket.path));
    }
    for (const VfioUserDevice& device : config.vfio_user) {
        writable.directories.push_back(directory_of(device.socket.path));
    }
    return writable;
}

// Later errors say what the kernel refuses, but not how the administrator can avoid it.
void warn_of_missing_capabilities() {
    if (!jail::has_capabilities({CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF}).value_or(true)) {
        spdlog::warn(
            "an [[uplink]] takes CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF, which vrdmad was "
            "not given: its unit needs a drop-in, see PRIVILEGES in vrdmad(8)");
    }
}

// An uplink needs its capabilities again when its interface reappears, because its sockets and
// programs are opened anew then. Memory of uplinks is locked beyond RLIMIT_MEMLOCK, and so is that
// of a fabric's connections if its provider drives an adapter, and that of guests where the host's
// HCA moves their messages.
Result<> give_up_capabilities(const Config& config) {
    if (may_serve_uplinks(config)) {
        warn_of_missing_capabilities();
        return jail::keep_capabilities(
            {CAP_SYS_NICE, CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, CAP_IPC_LOCK});
    }
    if (!config.fabrics.empty() || !config.uplinks.empty()) {
        return jail::keep_capabilities({CAP_SYS_NICE, CAP_IPC_LOCK});
    }
    return jail::keep_capabilities({CAP_SYS_NICE});
}

} // namespace

bool may_serve_uplinks(const Config& config) {
    const auto sends_frames = [](const UplinkOptions& uplink) { return uplink.device.empty(); };
    return std::ranges::any_of(config.uplinks, sends_frames) || config.control.add_uplinks;
}

tl::expected<void, std::string> confine(const Config& config, jail::Forbidden forbidden) {
    if (const auto kept = give_up_capabilities(config); !kept) {
        return tl::unexpected{"capabilities: " + describe(kept.error())};
    }
    if (!sanitized) { // sanitizers write their reports to files
        const auto confined = jail::write_only_to(writable_of(config));
        if (!confined) {
            return tl::unexpected{"landlock: " + describe(confined.error())};
        }
        spdlog::debug("files are {}", *confined ? "read only" : "as they are: no Landlock");
    }
    if (const auto allowed = jail::allow_calls_of_process(forbidden); !allowed) {
        return tl::unexpected{"seccomp: " + describe(allowed.error())};
    }
    return {};
}

// A poller must not run unconfined, so a failure aborts the process.
void confine_poller(jail::Forbidden forbidden, const std::function<void()>& open) {
    auto confined = jail::keep_capabilities({CAP_SYS_NICE});
    if (confined) {
        open();
        confined = jail::allow_calls_of_poller(forbidden);
    }
    if (!confined) {
        spdlog::critical("a poller cannot be confined: {}", describe(confined.error()));
        std::abort();
    }
}

} // namespace vrdma::control
