// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdmad: the mediator's daemon. See vrdmad(8).
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "mediator/base/event_loop.h"
#include "mediator/control/config.h"
#include "mediator/control/served_fabric.h"
#include "mediator/control/served_uplink.h"
#include "mediator/device/version.h"
#include "mediator/frontend/mdev/mdev_frontend.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/verbs/gid.h"

namespace vrdma::control {
namespace {

constexpr char default_path[] = "/etc/vrdma/vrdmad.conf";

struct Options {
    std::string config_path;
    std::string log_level;
    bool check_config = false;
};

// Without a file the defaults hold; a file that was named must be there.
tl::expected<Config, std::string> configure(const Options& options) {
    const std::string path = options.config_path.empty() ? default_path : options.config_path;
    Config config;
    if (!options.config_path.empty() || std::filesystem::exists(path)) {
        auto loaded = load_config(path);
        if (!loaded) {
            return tl::unexpected{path + ": " + loaded.error()};
        }
        config = std::move(*loaded);
    }
    if (!options.log_level.empty()) {
        const auto level = parse_log_level(options.log_level);
        if (!level) {
            return tl::unexpected{"--log-level: " + level.error()};
        }
        config.log_level = *level;
    }
    return config;
}

void start_log(spdlog::level::level_enum level) {
    auto logger = spdlog::stderr_color_mt("vrdmad");
    logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
    logger->set_level(level);
    spdlog::set_default_logger(std::move(logger));
}

// Before any thread starts: all inherit the mask, and the loop alone hears of the signals.
Result<UniqueFd> take_signals() {
    (void)std::signal(SIGPIPE, SIG_IGN);
    (void)std::signal(SIGHUP, SIG_IGN);
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGTERM);
    ::sigaddset(&signals, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    UniqueFd fd{::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)};
    if (!fd) {
        return fail_errno();
    }
    return fd;
}

int complain(const char* what, std::errc error) {
    spdlog::critical("{}: {}", what, describe(error));
    return EXIT_FAILURE;
}

struct Uplinks {
    std::vector<std::unique_ptr<ServedUplink>> ethernets;
    std::vector<std::unique_ptr<ServedFabric>> fabrics;

    // Says why not, and for which.
    tl::expected<void, std::string> open(const Config& config, hca::soft::SoftHca& hca,
                                         EventLoop& loop) {
        for (const Uplink& uplink : config.uplinks) {
            auto served = ServedUplink::open(uplink, hca, loop);
            if (!served) {
                return tl::unexpected{fmt::format("uplink {}: {}", uplink.name, served.error())};
            }
            ethernets.push_back(std::move(*served));
        }
        for (const Fabric& fabric : config.fabrics) {
            auto served = ServedFabric::open(fabric, hca, loop);
            if (!served) {
                return tl::unexpected{fmt::format("fabric {}: {}", fabric.name, served.error())};
            }
            fabrics.push_back(std::move(*served));
        }
        return {};
    }

    verbs::Mac mac_of(const std::string& name) const {
        const auto ethernet = std::ranges::find(ethernets, name, &ServedUplink::name);
        if (ethernet != ethernets.end()) {
            return (*ethernet)->mac();
        }
        const auto fabric = std::ranges::find(fabrics, name, &ServedFabric::name);
        return fabric != fabrics.end() ? (*fabric)->mac() : verbs::Mac{};
    }
};

std::vector<std::string> uplink_names(const Config& config) {
    std::vector<std::string> names;
    names.reserve(config.uplinks.size() + config.fabrics.size());
    std::ranges::transform(config.uplinks, std::back_inserter(names), &Uplink::name);
    std::ranges::transform(config.fabrics, std::back_inserter(names), &Fabric::name);
    return names;
}

// Without a MAC of its own, a device on an uplink is the host to its network.
verbs::Identity identity_of(const VfioUserDevice& device, const Uplinks& uplinks) {
    verbs::Identity identity = device.identity;
    if (identity.mac == verbs::Mac{}) {
        identity.mac = uplinks.mac_of(identity.uplink);
    }
    return identity;
}

Result<std::unique_ptr<vfio_user::Server>> serve_socket(const VfioUserDevice& device,
                                                        const Uplinks& uplinks, const Host& host) {
    const auto type = std::ranges::find(host.types, device.type, &DeviceType::name);
    const auto endport =
        std::make_shared<verbs::Endport>(identity_of(device, uplinks), device.clients);
    std::vector<std::unique_ptr<vfio_user::Function>> functions;
    for (unsigned i = 0; i < device.clients; ++i) {
        const std::string name =
            device.clients == 1 ? device.name : fmt::format("{}/{}", device.name, i);
        auto function =
            vfio_user::Function::create({name, *type, {endport, i}, device.window}, host);
        if (!function) {
            return fail(function.error());
        }
        functions.push_back(std::move(*function));
    }
    return vfio_user::Server::listen(device.socket, device.name, std::move(functions), host.loop);
}

int serve(const Config& config) {
    const auto signals = take_signals();
    if (!signals) {
        return complain("signalfd", signals.error());
    }
    EventLoop loop;
    const auto on_signal = loop.watch(signals->get(), [&](std::uint32_t) { loop.stop(); });
    if (!on_signal) {
        return complain("epoll", on_signal.error());
    }
    const auto hca = hca::soft::SoftHca::create(config.soft);
    if (!hca) {
        return complain("soft HCA", hca.error());
    }
    Uplinks uplinks;
    if (const auto opened = uplinks.open(config, **hca, loop); !opened) {
        spdlog::critical("{}", opened.error());
        return EXIT_FAILURE;
    }
    verbs::GidRegistry gids;
    const Host host{loop, **hca, gids, config.types};
    std::unique_ptr<mdev::MdevFrontend> module;
    if (config.mdev) {
        auto opened = mdev::MdevFrontend::open(host, config.name, uplink_names(config));
        if (!opened) {
            return complain(VRDMA_MDEV_PATH, opened.error());
        }
        module = std::move(*opened);
    }
    std::vector<std::unique_ptr<vfio_user::Server>> servers;
    for (const VfioUserDevice& device : config.vfio_user) {
        auto server = serve_socket(device, uplinks, host);
        if (!server) {
            return complain(device.socket.path.c_str(), server.error());
        }
        servers.push_back(std::move(*server));
    }
    spdlog::info("vrdmad {} serves {}", version_text, config.name);
    (void)::sd_notify(0, "READY=1"); // nothing where systemd has not started us
    if (const auto ran = loop.run(); !ran) {
        return complain("epoll", ran.error());
    }
    spdlog::info("vrdmad ends");
    return EXIT_SUCCESS;
}

int run(int argc, char** argv) {
    CLI::App app{"The mediator of vrdma: serves RDMA devices to virtual machines", "vrdmad"};
    Options options;
    app.add_option("--config", options.config_path,
                   fmt::format("Configuration file (default: {}, if there)", default_path));
    app.add_option("--log-level", options.log_level, "trace, debug, info, warning, error, off");
    app.add_flag("--check-config", options.check_config,
                 "Only say whether the configuration is valid");
    app.set_version_flag("--version", std::string{"vrdmad "} + version_text);
    CLI11_PARSE(app, argc, argv);

    const auto config = configure(options);
    if (!config) {
        std::cerr << "vrdmad: " << config.error() << '\n';
        return EXIT_FAILURE;
    }
    if (options.check_config) {
        return EXIT_SUCCESS;
    }
    start_log(config->log_level);
    return serve(*config);
}

} // namespace
} // namespace vrdma::control

int main(int argc, char** argv) {
    try {
        return vrdma::control::run(argc, argv);
    } catch (const std::exception& error) {
        std::cerr << "vrdmad: " << error.what() << '\n';
        return EXIT_FAILURE;
    }
}
