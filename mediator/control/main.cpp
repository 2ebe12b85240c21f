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
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "mediator/base/event_loop.h"
#include "mediator/control/additions_file.h"
#include "mediator/control/config/additions.h"
#include "mediator/control/confinement.h"
#include "mediator/control/control_socket.h"
#include "mediator/control/engine_process.h"
#include "mediator/control/managed.h"
#include "mediator/control/predecessor.h"
#include "mediator/control/reload_process.h"
#include "mediator/control/reloader.h"
#include "mediator/control/socket_devices.h"
#include "mediator/control/uplinks.h"
#include "mediator/frontend/mdev/loaded_module.h"
#include "mediator/frontend/mdev/mdev_frontend.h"
#include "mediator/hca/host/opened.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/jail/crash.h"
#include "mediator/memory/fault_handlers.h"
#include "mediator/memory/fault_times.h"
#include "mediator/verbs/gid.h"
#include "release/release.h"
#include "vrdma/vfio_user.h"

namespace vrdma::control {
namespace {

constexpr char default_path[] = "/etc/vrdma/vrdmad.conf";
constexpr int misused = 2; // the exit status for wrong arguments

// How long the heir may take: a second, and the time that clients have.
constexpr std::chrono::milliseconds heir_limit{1000 + VFIO_USER_FETCH_MS};

struct Options {
    std::string config_path;
    std::optional<spdlog::level::level_enum> log_level;
    bool check_config = false;
    bool check_module = false;
    bool core_dumps = false;
    jail::Forbidden forbidden = jail::Forbidden::refused;
};

// A file that was named must exist. Without the default file, the defaults hold.
tl::expected<Running, std::string> configure(const Options& options) {
    Running running;
    running.path = options.config_path.empty() ? default_path : options.config_path;
    running.log_level = options.log_level;
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

// What was added to the configuration of the vrdmad before, as far as it still fits.
void add_what_was_added(Config& config) {
    const AdditionsFile file{config.control.socket.path};
    const auto text = file.read();
    if (!text) {
        spdlog::warn("{}: {}", file.path(), describe(text.error()));
        return;
    }
    for (const std::string& reason : add_all(*text, config)) {
        spdlog::warn("{}: is not served any more: {}", file.path(), reason);
    }
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

// The results of steps that take privileges which vrdmad gives up before it serves.
struct Prepared {
    SocketDevices::Opened sockets;
    std::vector<FabricHelpers> helpers;   // in the order of their fabrics
    std::optional<ControlSocket> control; // if there is one
};

tl::expected<void, std::string> confine_both(const Config& config, EngineProcess* engine,
                                             jail::Forbidden forbidden) {
    tl::expected<void, std::string> confined;
    if (engine != nullptr) {
        engine->run([&] { confined = confine(config, forbidden); });
    }
    return confined ? confine(config, forbidden) : confined;
}

// A poller has died, perhaps in the middle of a message.
[[noreturn]] void end_with_engine() {
    spdlog::critical("the process of the pollers has died");
    ::_exit(EXIT_FAILURE);
}

// The processes are confined when this returns.
std::optional<Prepared> prepare(Config& config, EngineProcess* engine, jail::Forbidden forbidden) {
    // Helpers are other processes, with fewer rights than this one.
    auto helpers = start_helpers(config.fabrics, jail::word_of(forbidden));
    if (!helpers) {
        spdlog::critical("{}", helpers.error());
        return std::nullopt;
    }
    auto control = ControlSocket::open(config.control, jail::word_of(forbidden));
    if (!control) {
        spdlog::critical("{}", control.error());
        return std::nullopt;
    }
    auto sockets = SocketDevices::open(config);
    if (!sockets) {
        return std::nullopt;
    }
    if (const auto confined = confine_both(config, engine, forbidden); !confined) {
        spdlog::critical("{}", confined.error());
        return std::nullopt;
    }
    if (engine != nullptr) {
        engine->watch(end_with_engine);
    }
    return Prepared{std::move(*sockets), std::move(*helpers), std::move(*control)};
}

// Gives their shares to devices that run.
void give_shares(mdev::MdevFrontend* module, SocketDevices& sockets) {
    if (module != nullptr) {
        module->give_shares();
    }
    sockets.give_shares();
}

using Servers = std::vector<std::unique_ptr<vfio_user::Server>>;

// All devices stand still together, and are saved.
void save_all(mdev::MdevFrontend* module, const Servers& servers, hca::soft::SoftHca& hca) {
    if (module != nullptr) {
        module->freeze();
    }
    for (const auto& server : servers) {
        server->freeze();
    }
    hca.borrow_pollers(); // saving is some calls to a poller for each object
    if (module != nullptr) {
        module->hand_over(); // first: no client's state can make these devices wait
    }
    for (const auto& server : servers) {
        server->keep();
    }
    hca.give_pollers_back(); // peers are told to wait meanwhile
}

// At the end: devices of the module are left to the next vrdmad, and those behind sockets to their
// clients, as far as these fetch them in time.
void hand_over(std::unique_ptr<mdev::MdevFrontend> module, const Servers& servers,
               hca::soft::SoftHca& hca, EventLoop& loop) {
    save_all(module.get(), servers, hca);
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

// Without such a process, the pollers are threads of this one.
std::unique_ptr<EngineProcess> start_engine_process() {
    if (!EngineProcess::possible) {
        return nullptr;
    }
    auto process = EngineProcess::start(heir_limit);
    if (!process) {
        spdlog::warn("no process for pollers, so a crash of vrdmad will end all devices: {}",
                     describe(process.error()));
        return nullptr;
    }
    return std::move(*process);
}

Result<std::unique_ptr<hca::soft::SoftHca>> create_hca(const Config& options,
                                                       EngineProcess* process,
                                                       jail::Forbidden forbidden) {
    hca::soft::Config config = options.soft;
    config.on_start = [forbidden, devices = host_devices(options)] {
        confine_poller(forbidden, [&] {
            if (!devices.empty()) {
                hca::host::open_early(**hca::host::libibverbs(), devices);
            }
        });
    };
    if (process != nullptr) {
        config.in_process = [process](const auto& call) { process->run(call); };
    }
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

// Programs look for their sockets from now on, and their devices begin when all are there.
void announce(const Config& config, Gathering& gathering) {
    spdlog::info("vrdmad {} serves {}", release, config.name);
    (void)::sd_notify(0, "READY=1"); // does nothing if systemd did not start vrdmad
    config.vfio_user.empty() ? gathering.end() : gathering.begin();
}

// If vrdmad dies, its devices are handed over all the same. `end` does what it does at its end.
// The next vrdmad may begin then: the end of this process takes tens of milliseconds.
void leave_to_heir(EngineProcess* engine, hca::soft::SoftHca& hca, EventLoop& loop,
                   const SocketDevices& sockets, const std::function<void()>& end, UniqueFd& lock) {
    if (engine == nullptr) {
        return;
    }
    engine->bequeath([&] {
        handle_faults_again();
        hca.await_last_call();
        loop.adopt();
        for (const auto& server : sockets.servers()) {
            server->hang_up_unanswered();
        }
        end();
        spdlog::warn("vrdmad has died, and left its devices");
        lock = {};
    });
}

int run(EventLoop& loop, EngineProcess* engine, const std::function<void()>& end) {
    if (const auto ran = loop.run(); !ran) {
        return complain("epoll", ran.error());
    }
    if (engine != nullptr) {
        engine->disinherit();
    }
    end();
    spdlog::info("vrdmad ends");
    return EXIT_SUCCESS;
}

// The steps before serve() have taken these.
struct Earlier {
    UniqueFd lock;        // await_predecessor()
    UniqueFd reads_again; // start_reload_process()
};

int serve(Running& running, Earlier earlier, jail::Forbidden forbidden) {
    Config& config = running.config;
    const auto signals = take_signals();
    if (!signals) {
        return complain("signalfd", signals.error());
    }
    // Each thread asks for the times of its faults while it may. A poller then confines itself.
    auto fault_times = FaultTimes::of_this_thread().value_or(FaultTimes{});
    const auto engine = start_engine_process();
    const auto hca = create_hca(config, engine.get(), forbidden);
    if (!hca) {
        return complain("soft HCA", hca.error());
    }
    auto prepared = prepare(config, engine.get(), forbidden);
    if (!prepared) {
        return EXIT_FAILURE;
    }
    EventLoop loop;
    const AdditionsFile additions{config.control.socket.path};
    Uplinks uplinks{config, additions, may_serve_uplinks(config), **hca, loop};
    if (!uplinks.open(std::move(prepared->helpers))) {
        return EXIT_FAILURE;
    }
    verbs::GidRegistry gids;
    (*hca)->borrow_pollers(); // until devices run again, so that all begin at once
    Gathering gathering{loop, [&hca = **hca] { hca.give_pollers_back(); }};
    Activity activity;
    const Host host{loop, **hca, gids, config.types, &fault_times, &gathering, &activity};
    std::unique_ptr<mdev::MdevFrontend> module;
    std::optional<ControlSocket> control = std::move(prepared->control);
    SocketDevices sockets{config, additions, uplinks, host};
    if (!sockets.serve(std::move(prepared->sockets))) {
        return EXIT_FAILURE;
    }
    auto reloader = Reloader::create(std::move(earlier.reads_again), running, loop, [&] {
        give_shares(module.get(), sockets);
        spdlog::info("{}: read again", running.path);
    });
    if (!reloader) {
        return complain("epoll", reloader.error());
    }
    auto on_signal =
        watch_signals(loop, *signals, [&] { (*reloader)->reload([](const auto&) {}); });
    if (!on_signal) {
        return complain("epoll", on_signal.error());
    }
    Managed managed{
        {sockets, module, uplinks, **hca, activity, **reloader, config.control.sniffs()}};
    if (control && !control->serve(managed, loop)) {
        return EXIT_FAILURE;
    }
    // Last: what the vrdmad before has left continues here, and would be lost if the start failed.
    if (config.mdev && !open_module(config, host, module)) {
        return EXIT_FAILURE;
    }
    const std::function<void()> end = [&] {
        *on_signal = {};
        reloader->reset();
        control.reset();
        gathering.end();
        hand_over(std::move(module), sockets.servers(), **hca, loop);
    };
    leave_to_heir(engine.get(), **hca, loop, sockets, end, earlier.lock);
    announce(config, gathering);
    return run(loop, engine.get(), end);
}

void add_options(CLI::App& app, Options& options) {
    app.add_option("--config", options.config_path,
                   fmt::format("Configuration file (default: {}, if there)", default_path));
    app.add_option_function<std::string>(
        "--log-level",
        [&options](const std::string& text) {
            const auto level = parse_log_level(text);
            if (!level) {
                throw CLI::ValidationError{"--log-level", level.error()};
            }
            options.log_level = *level;
        },
        std::string{log_levels});
    app.add_flag("--check-config", options.check_config,
                 "Only say whether the configuration is valid");
    app.add_flag("--check-module", options.check_module,
                 "Only say whether the configuration is valid and fits the loaded kernel module");
    app.add_flag("--core-dumps", options.core_dumps,
                 "Allow core dumps and debuggers, which see the guests' memory and keys");
    std::vector<std::string> words;
    std::ranges::transform(jail::forbidden_words, std::back_inserter(words),
                           [](const auto& known) { return known.first; });
    app.add_option_function<std::string>(
           "--forbidden-calls",
           [&options](const std::string& word) {
               options.forbidden = *jail::parse_forbidden(word); // the check knows it
           },
           "The effect of a system call that vrdmad does not need (default: refuse)")
        ->check(CLI::IsMember(words));
    app.set_version_flag("--version", std::string{"vrdmad "} + release);
}

int run(int argc, char** argv) {
    CLI::App app{"The mediator of vrdma: serves RDMA devices to virtual machines", "vrdmad"};
    Options options;
    add_options(app, options);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == EXIT_SUCCESS) { // --help, --version
            return app.exit(error);
        }
        std::cerr << "vrdmad: " << error.what() << "\nRun `vrdmad --help` for more.\n";
        return misused;
    }

    auto running = check(options);
    if (!running) {
        std::cerr << "vrdmad: " << running.error() << '\n';
        return EXIT_FAILURE;
    }
    if (options.check_config || options.check_module) {
        return EXIT_SUCCESS;
    }
    start_log(running->config.log_level);
    UniqueFd lock = await_predecessor(running->path, heir_limit);
    add_what_was_added(running->config);
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
    if (const auto loaded = load_libibverbs_for(running->config); !loaded) {
        spdlog::critical("{}", loaded.error());
        return EXIT_FAILURE;
    }
    return serve(*running, {std::move(lock), std::move(*reads_again)}, options.forbidden);
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
