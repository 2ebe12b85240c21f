// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdmad: the mediator's daemon. See vrdmad(8).
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mediator/base/event_loop.h"
#include "mediator/control/config/config.h"
#include "mediator/control/confinement.h"
#include "mediator/control/control_socket.h"
#include "mediator/control/managed.h"
#include "mediator/control/reload_process.h"
#include "mediator/control/reloader.h"
#include "mediator/control/served_fabric.h"
#include "mediator/control/served_uplink.h"
#include "mediator/frontend/mdev/loaded_module.h"
#include "mediator/frontend/mdev/mdev_frontend.h"
#include "mediator/frontend/vfio_user/map_share.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/jail/crash.h"
#include "mediator/memory/fault_times.h"
#include "mediator/verbs/gid.h"
#include "release/release.h"
#include "vrdma/vfio_user.h"

namespace vrdma::control {
namespace {

constexpr char default_path[] = "/etc/vrdma/vrdmad.conf";

struct Options {
    std::string config_path;
    std::string log_level;
    bool check_config = false;
    bool check_module = false;
    bool core_dumps = false;
    jail::Forbidden forbidden = jail::Forbidden::refused;
};

// A file that was named must exist. Without the default file, the defaults hold.
tl::expected<Running, std::string> configure(const Options& options) {
    Running running;
    running.path = options.config_path.empty() ? default_path : options.config_path;
    if (!options.log_level.empty()) {
        const auto level = parse_log_level(options.log_level);
        if (!level) {
            return tl::unexpected{"--log-level: " + level.error()};
        }
        running.log_level = *level;
    }
    if (!options.config_path.empty() || std::filesystem::exists(running.path)) {
        if (const auto started = start_with_file(running); !started) {
            return tl::unexpected{running.path + ": " + started.error()};
        }
    }
    running.config.log_level = running.log_level.value_or(running.config.log_level);
    return running;
}

// Finds what a start would fail at. The configuration alone can be checked where the module of
// another host is loaded.
tl::expected<Running, std::string> check(const Options& options) {
    auto running = configure(options);
    if (!running || !running->config.mdev || options.check_config) {
        return running;
    }
    return mdev::check_module().map([&] { return std::move(*running); });
}

void start_log(spdlog::level::level_enum level) {
    auto logger = spdlog::stderr_color_mt("vrdmad");
    logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
    logger->set_level(level);
    spdlog::set_default_logger(std::move(logger));
}

// Call it before any thread starts. All threads inherit the mask, so only the loop gets the
// signals.
Result<UniqueFd> take_signals() {
    (void)std::signal(SIGPIPE, SIG_IGN);
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGTERM);
    ::sigaddset(&signals, SIGINT);
    ::sigaddset(&signals, SIGHUP);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    UniqueFd fd{::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)};
    if (!fd) {
        return fail_errno();
    }
    return fd;
}

// Returns the number of the next signal that has arrived, or 0 if there is none.
std::uint32_t next_signal(const UniqueFd& signals) {
    signalfd_siginfo info{};
    return ::read(signals.get(), &info, sizeof(info)) == sizeof(info) ? info.ssi_signo : 0;
}

Result<EventLoop::Watch> watch_signals(EventLoop& loop, const UniqueFd& signals,
                                       std::function<void()> on_hangup) {
    return loop.watch(signals.get(),
                      [&loop, &signals, on_hangup = std::move(on_hangup)](std::uint32_t) {
                          const std::uint32_t signal = next_signal(signals);
                          if (signal == SIGHUP) {
                              on_hangup();
                          } else if (signal != 0) {
                              loop.stop();
                          }
                      });
}

int complain(const char* what, std::errc error) {
    spdlog::critical("{}: {}", what, describe(error));
    return EXIT_FAILURE;
}

int complain_of_module(std::errc error) {
    complain(VRDMA_MDEV_PATH, error);
    if (error == std::errc::no_such_file_or_directory) {
        spdlog::critical(
            "the kernel module vrdma_mdev is not loaded: `modprobe vrdma_mdev` tells why");
        spdlog::critical("to serve sockets without it, set mdev = false");
    }
    return EXIT_FAILURE;
}

struct Uplinks {
    std::vector<std::unique_ptr<ServedUplink>> ethernets;
    std::vector<std::unique_ptr<ServedFabric>> fabrics;

    // On failure, logs the reason and the uplink's name.
    bool open(const Config& config, std::vector<FabricHelpers> helpers, hca::soft::SoftHca& hca,
              EventLoop& loop) {
        for (const UplinkOptions& uplink : config.uplinks) {
            auto served = ServedUplink::open(uplink, hca, loop);
            if (!served) {
                spdlog::critical("uplink {}: {}", uplink.name, served.error());
                return false;
            }
            ethernets.push_back(std::move(*served));
        }
        for (std::size_t i = 0; i < config.fabrics.size(); ++i) {
            const FabricOptions& fabric = config.fabrics[i];
            auto served = ServedFabric::open(fabric, std::move(helpers[i]), hca, loop);
            if (!served) {
                spdlog::critical("fabric {}: {}", fabric.name, served.error());
                return false;
            }
            fabrics.push_back(std::move(*served));
        }
        return true;
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
    std::ranges::transform(config.uplinks, std::back_inserter(names), &UplinkOptions::name);
    std::ranges::transform(config.fabrics, std::back_inserter(names), &FabricOptions::name);
    return names;
}

// A device without a MAC of its own has its uplink's MAC, so to the network it is the host.
verbs::Identity identity_of(const VfioUserDevice& device, const Uplinks& uplinks) {
    verbs::Identity identity = device.identity;
    if (identity.mac == verbs::Mac{}) {
        identity.mac = uplinks.mac_of(identity.uplink);
    }
    return identity;
}

Result<std::unique_ptr<vfio_user::Server>> serve_socket(const VfioUserDevice& device,
                                                        vfio_user::ListeningSocket socket,
                                                        const Uplinks& uplinks, const Host& host,
                                                        std::size_t most_maps) {
    const auto type = std::ranges::find(host.types, device.type, &DeviceType::name);
    const auto endport =
        std::make_shared<verbs::Endport>(identity_of(device, uplinks), device.clients);
    std::vector<std::unique_ptr<vfio_user::Function>> functions;
    for (unsigned i = 0; i < device.clients; ++i) {
        const std::string name =
            device.clients == 1 ? device.name : fmt::format("{}/{}", device.name, i);
        auto function = vfio_user::Function::create(
            {name, *type, {endport, i}, device.window, most_maps}, host);
        if (!function) {
            return fail(function.error());
        }
        functions.push_back(std::move(*function));
    }
    auto server =
        vfio_user::Server::listen(std::move(socket), device.name, std::move(functions), host.loop);
    if (server) {
        (*server)->set_share(device.share);
    }
    return server;
}

// A client that connects already waits until the device is served.
std::optional<std::vector<vfio_user::ListeningSocket>> open_sockets(const Config& config) {
    std::vector<vfio_user::ListeningSocket> sockets;
    for (const VfioUserDevice& device : config.vfio_user) {
        auto socket = vfio_user::ListeningSocket::open(device.socket);
        if (!socket) {
            complain(device.socket.path.c_str(), socket.error());
            return std::nullopt;
        }
        sockets.push_back(std::move(*socket));
    }
    return sockets;
}

// The soft limit that a shell sets is too low for the files of guests' memory.
void raise_descriptor_limit() {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)::setrlimit(RLIMIT_NOFILE, &files);
    }
}

// Returns how many DMA maps each client may have. A share of none is an error, because a client
// without maps has no memory.
std::optional<std::size_t> share_of_maps(const Config& config) {
    std::size_t functions = 0;
    for (const VfioUserDevice& device : config.vfio_user) {
        functions += device.clients;
    }
    if (functions == 0) {
        return 0;
    }
    const auto limits = vfio_user::ProcessLimits::read();
    const std::size_t share = vfio_user::map_share(limits, functions, VRDMA_MAX_VECTORS);
    if (share == 0) {
        spdlog::critical(
            "{} clients are too many for vm.max_map_count ({}) or RLIMIT_NOFILE ({}): there are no "
            "DMA maps for each",
            functions, limits.mappings, limits.descriptors);
        return std::nullopt;
    }
    return share;
}

// The word for --forbidden-calls.
const char* word_of(jail::Forbidden forbidden) {
    switch (forbidden) {
        case jail::Forbidden::killed:
            return "kill";
        case jail::Forbidden::allowed:
            return "allow";
        default:
            return "refuse";
    }
}

// The results of steps that take privileges which vrdmad gives up before it serves.
struct Prepared {
    std::vector<vfio_user::ListeningSocket> sockets; // in the order of their devices
    std::vector<FabricHelpers> helpers;              // in the order of their fabrics
    std::optional<ControlSocket> control;            // if there is one
    std::size_t most_maps = 0;                       // per client
};

// The process is confined when this returns.
std::optional<Prepared> prepare(const Config& config, jail::Forbidden forbidden) {
    // Helpers are other processes, with fewer rights than this one.
    auto helpers = start_helpers(config.fabrics, word_of(forbidden));
    if (!helpers) {
        spdlog::critical("{}", helpers.error());
        return std::nullopt;
    }
    auto control = ControlSocket::open(config.control, word_of(forbidden));
    if (!control) {
        spdlog::critical("{}", control.error());
        return std::nullopt;
    }
    raise_descriptor_limit();
    const auto most_maps = share_of_maps(config);
    if (!most_maps) {
        return std::nullopt;
    }
    auto sockets = open_sockets(config);
    if (!sockets) {
        return std::nullopt;
    }
    if (const auto confined = confine(config, forbidden); !confined) {
        spdlog::critical("{}", confined.error());
        return std::nullopt;
    }
    return Prepared{std::move(*sockets), std::move(*helpers), std::move(*control), *most_maps};
}

// In the order of their devices.
using Servers = std::vector<std::unique_ptr<vfio_user::Server>>;

std::optional<Servers> serve_sockets(const Config& config, Prepared prepared,
                                     const Uplinks& uplinks, const Host& host) {
    Servers servers;
    for (std::size_t i = 0; i < config.vfio_user.size(); ++i) {
        const VfioUserDevice& device = config.vfio_user[i];
        auto server =
            serve_socket(device, std::move(prepared.sockets[i]), uplinks, host, prepared.most_maps);
        if (!server) {
            complain(device.socket.path.c_str(), server.error());
            return std::nullopt;
        }
        servers.push_back(std::move(*server));
    }
    return servers;
}

// Gives their shares to devices that run.
void give_shares(const Config& config, mdev::MdevFrontend* module, const Servers& servers) {
    if (module != nullptr) {
        module->give_shares();
    }
    for (std::size_t i = 0; i < servers.size(); ++i) {
        servers[i]->set_share(config.vfio_user[i].share);
    }
}

// At the end: all devices stand still together. Those of the module are left to the next vrdmad,
// and those behind sockets to their clients, as far as these fetch them in time.
void hand_over(std::unique_ptr<mdev::MdevFrontend> module, const Servers& servers,
               EventLoop& loop) {
    if (module) {
        module->freeze();
    }
    for (const auto& server : servers) {
        server->freeze();
    }
    if (module) {
        module->hand_over(); // first: no client's state can make these devices wait
    }
    for (const auto& server : servers) {
        server->keep();
    }
    bool late = false;
    const auto limit = loop.after(std::chrono::milliseconds{VFIO_USER_FETCH_MS}, [&] {
        late = true;
        loop.stop();
    });
    for (const auto& server : servers) {
        server->part([&] { loop.stop(); });
    }
    module.reset();
    const auto awaits = [](const auto& server) { return server->awaits(); };
    while (!late && std::ranges::any_of(servers, awaits) && loop.run()) {
    }
    if (late) {
        spdlog::warn("some clients have not fetched the states of their devices in time");
    }
}

Result<std::unique_ptr<hca::soft::SoftHca>> create_hca(hca::soft::Config config,
                                                       jail::Forbidden forbidden) {
    config.on_start = [forbidden] { confine_poller(forbidden); };
    return hca::soft::SoftHca::create(config);
}

// On failure, logs the reason.
bool open_module(const Config& config, const Host& host,
                 std::unique_ptr<mdev::MdevFrontend>& module) {
    auto opened = mdev::MdevFrontend::open(host, config.name, uplink_names(config));
    if (!opened) {
        complain_of_module(opened.error());
        return false;
    }
    module = std::move(*opened);
    return true;
}

void announce(const Config& config) {
    spdlog::info("vrdmad {} serves {}", release, config.name);
    (void)::sd_notify(0, "READY=1"); // does nothing if systemd did not start vrdmad
}

// `reads_again` is what start_reload_process() returned.
int serve(Running& running, UniqueFd reads_again, jail::Forbidden forbidden) {
    const Config& config = running.config;
    const auto signals = take_signals();
    if (!signals) {
        return complain("signalfd", signals.error());
    }
    // Each thread asks for the times of its faults while it may. A poller then confines itself.
    auto fault_times = FaultTimes::of_this_thread().value_or(FaultTimes{});
    const auto hca = create_hca(config.soft, forbidden);
    if (!hca) {
        return complain("soft HCA", hca.error());
    }
    auto prepared = prepare(config, forbidden);
    if (!prepared) {
        return EXIT_FAILURE;
    }
    EventLoop loop;
    Uplinks uplinks;
    if (!uplinks.open(config, std::move(prepared->helpers), **hca, loop)) {
        return EXIT_FAILURE;
    }
    verbs::GidRegistry gids;
    Gathering gathering{loop};
    Activity activity;
    const Host host{loop, **hca, gids, config.types, &fault_times, &gathering, &activity};
    std::unique_ptr<mdev::MdevFrontend> module;
    std::optional<ControlSocket> control = std::move(prepared->control);
    const auto servers = serve_sockets(config, std::move(*prepared), uplinks, host);
    if (!servers) {
        return EXIT_FAILURE;
    }
    const auto reloader = Reloader::create(std::move(reads_again), running, loop, [&] {
        give_shares(config, module.get(), *servers);
        spdlog::info("{}: read again", running.path);
    });
    if (!reloader) {
        return complain("epoll", reloader.error());
    }
    const auto on_signal =
        watch_signals(loop, *signals, [&] { (*reloader)->reload([](const auto&) {}); });
    if (!on_signal) {
        return complain("epoll", on_signal.error());
    }
    Managed managed{
        {*servers, module, uplinks.ethernets, uplinks.fabrics, **hca, activity, **reloader}};
    if (control && !control->serve(managed, loop)) {
        return EXIT_FAILURE;
    }
    // Last: what the vrdmad before has left continues here, and would be lost if the start failed.
    if (config.mdev && !open_module(config, host, module)) {
        return EXIT_FAILURE;
    }
    announce(config);
    config.vfio_user.empty() ? gathering.end() : gathering.begin();
    if (const auto ran = loop.run(); !ran) {
        return complain("epoll", ran.error());
    }
    control.reset();
    gathering.end();
    hand_over(std::move(module), *servers, loop);
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
    app.add_flag("--check-module", options.check_module,
                 "Only say whether the configuration is valid and fits the loaded kernel module");
    app.add_flag("--core-dumps", options.core_dumps,
                 "Allow core dumps and debuggers, which see the guests' memory and keys");
    const std::map<std::string, jail::Forbidden> forbidden{{"refuse", jail::Forbidden::refused},
                                                           {"kill", jail::Forbidden::killed},
                                                           {"allow", jail::Forbidden::allowed}};
    app.add_option("--forbidden-calls", options.forbidden,
                   "What a system call does that vrdmad has no need of: refuse, kill, allow")
        ->transform(CLI::Transformer(forbidden));
    app.set_version_flag("--version", std::string{"vrdmad "} + release);
    CLI11_PARSE(app, argc, argv);

    auto running = check(options);
    if (!running) {
        std::cerr << "vrdmad: " << running.error() << '\n';
        return EXIT_FAILURE;
    }
    if (options.check_config || options.check_module) {
        return EXIT_SUCCESS;
    }
    start_log(running->config.log_level);
    auto reads_again = start_reload_process(*running, {.forbidden = options.forbidden});
    if (!reads_again) {
        return complain("fork", reads_again.error());
    }
    if (const auto hidden = options.core_dumps ? Result<>{} : jail::hide_memory(); !hidden) {
        return complain("memory cannot be hidden", hidden.error());
    }
    if (const auto loaded = load_providers_of(running->config.fabrics); !loaded) {
        spdlog::critical("{}", loaded.error());
        return EXIT_FAILURE;
    }
    return serve(*running, std::move(*reads_again), options.forbidden);
}

} // namespace
} // namespace vrdma::control

int main(int argc, char** argv) {
    vrdma::jail::take_crashes_back();
    try {
        return vrdma::control::run(argc, argv);
    } catch (const std::exception& error) {
        std::cerr << "vrdmad: " << error.what() << '\n';
        return EXIT_FAILURE;
    }
}
