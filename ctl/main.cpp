// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdmactl: see vrdmactl(8).
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <optional>
#include <string>

#include "ctl/client.h"
#include "ctl/misuse.h"
#include "ctl/new_device.h"
#include "ctl/resources.h"
#include "ctl/show.h"
#include "ctl/sniffer.h"
#include "ctl/table.h"
#include "ctl/top.h"
#include "release/release.h"

namespace vrdma::ctl {
namespace {

enum Exit { done = 0, refused = 1, misused = 2, unreachable = 3 };

using Show = std::string (*)(const nlohmann::json& answer, Width width);

struct Options {
    std::string socket = "/run/vrdma/control.sock";
    bool json = false;
    std::string name;                                 // of the device
    std::string protocol;                             // that it may use
    NewDevice new_device;                             // that is created
    NewUplink new_uplink;                             // that is added
    OldDevice old_device;                             // that is destroyed
    std::string level;                                // of the log, or none
    nlohmann::json limits = nlohmann::json::object(); // that are set
    Sniffing sniffing;
    double interval = 1;
    bool once = false;
};

// CLI::Range takes "nan", which is neither below the range nor above it.
std::string refuse_nan(const std::string& text) {
    return std::isnan(std::strtod(text.c_str(), nullptr)) ? "it must be a number" : "";
}

// What the command that was given does.
struct Command {
    std::function<Answer(const Client& client)> ask;
    Show show = nullptr;
    bool repeats = false; // until it is interrupted
};

class Program {
  public:
    Program() {
        app_.require_subcommand(1);
        app_.add_option("--socket", options_.socket, "vrdmad's control socket")
            ->capture_default_str();
        app_.add_flag("--json", options_.json, "Print vrdmad's answer, which is JSON");
        app_.set_version_flag("--version", std::string{"vrdmactl "} + release);
        add_devices();
        add_limits();
        add_network();
        add_vrdmad();
        add_sniffer();
        add_top();
    }

    int run(int argc, char** argv) {
        try {
            app_.parse(argc, argv);
        } catch (const CLI::ParseError& error) {
            if (error.get_exit_code() == 0) { // --help, --version
                return app_.exit(error);
            }
            std::cerr << explain(app_, error);
            return misused;
        }
        const bool repeats = command_.repeats && !options_.once;
        int result = done;
        do {
            const auto answer = command_.ask(Client{options_.socket});
            result = answer ? print(*answer, repeats) : complain(answer.error());
        } while (repeats && result == done);
        return result;
    }

  private:
    static int complain(const Problem& problem) {
        std::cerr << "vrdmactl: " << printable(problem.text) << '\n';
        return problem.unreachable ? unreachable : refused;
    }

    // If the standard output has frames, the answer goes beside it. A command that repeats prints
    // each answer as one line of JSON, or redraws the terminal.
    int print(const nlohmann::json& answer, bool repeats) const {
        constexpr int indent = 2;
        std::ostream& out = options_.sniffing.file == "-" ? std::cerr : std::cout;
        if (options_.json) {
            out << answer.dump(repeats ? -1 : indent, ' ', true) << '\n';
        } else {
            const std::string text = command_.show(answer, terminal_width());
            out << (repeats ? redrawn(text) : text);
        }
        out << std::flush;
        return out ? done : refused;
    }

    CLI::App* group(const char* name, const char* about) { return group(&app_, name, about); }

    static CLI::App* group(CLI::App* parent, const char* name, const char* about) {
        CLI::App* const added = parent->add_subcommand(name, about);
        added->require_subcommand(1);
        added->fallthrough();
        return added;
    }

    CLI::App* add(CLI::App* parent, const char* name, const char* about, Command command) {
        CLI::App* const added = parent->add_subcommand(name, about);
        added->fallthrough(); // --json and --socket may come last
        added->callback([this, command = std::move(command)] { command_ = command; });
        return added;
    }

    void add_list(CLI::App* parent, const char* about, const char* path, Show show) {
        add(parent, "list", about,
            {[path](const Client& client) { return client.get(path); }, show});
    }

    void add_name(CLI::App* command) {
        command->add_option("NAME", options_.name, "Name of the device, as `device list` has it")
            ->required();
    }

    void add_of_device(CLI::App* parent, const char* name, const char* about, const char* suffix,
                       Show show) {
        const auto ask = [this, suffix](const Client& client) {
            return client.get("/v1/devices/" + encode(options_.name) + suffix);
        };
        add_name(add(parent, name, about, {ask, show}));
    }

    void add_devices() {
        CLI::App* const device = group("device", "The RDMA devices that vrdmad serves");
        add_list(device, "List the devices", "/v1/devices", &show_devices);
        add_of_device(device, "show", "Show a device", "", &show_device);
        add_list(group(device, "netdev", "Their network interfaces"),
                 "List the host's network interface of each device", "/v1/netdevs", &show_netdevs);
        add_creation(device);
        add_protocols(group(device, "protocol", "The versions of RoCE that they may use"));
        add_of_device(device, "stats", "Show a device's counters", "/counters", &show_counters);
    }

    void add_creation(CLI::App* device) {
        const auto create = [this](const Client& client) {
            return options_.new_device.create(client);
        };
        options_.new_device.add_options(add(device, "create",
                                            "Create a mediated device, or one behind a socket",
                                            {create, &show_created}));
        const auto destroy = [this](const Client& client) {
            return options_.old_device.destroy(client);
        };
        options_.old_device.add_options(
            add(device, "destroy", "Destroy such a device", {destroy, &show_nothing}));
    }

    void add_protocols(CLI::App* protocol) {
        add_list(protocol, "List the protocols of each device", "/v1/protocols", &show_protocols);
        const auto ask = [this](const Client& client) {
            return client.put("/v1/devices/" + encode(options_.name) + "/protocols",
                              {{"protocol", options_.protocol}});
        };
        CLI::App* const set =
            add(protocol, "set", "Change what a device may use", {ask, &show_protocols_of_one});
        add_name(set);
        set->add_option("PROTOCOL", options_.protocol, "roce-v1, roce-v2 or both")
            ->check(is_protocol())
            ->required();
    }

    void add_limits() {
        CLI::App* const limit = group("limit", "What a device may use");
        add_of_device(limit, "show", "Show a device's limits, and what it uses", "/limits",
                      &show_limits);
        add_limit_set(limit);
    }

    void add_limit_set(CLI::App* limit) {
        const auto ask = [this](const Client& client) {
            return client.put("/v1/devices/" + encode(options_.name) + "/limits", options_.limits);
        };
        CLI::App* const set =
            add(limit, "set", "Change a device's limits while it is in use", {ask, &show_limits});
        add_name(set);
        CLI::Option_group* const limits = set->add_option_group("Limits");
        limits->require_option(1, 0);
        const auto add_limit = [this, limits](const std::string& option, const std::string& place,
                                              const char* about) {
            const auto set_limit = [this, place](const std::uint64_t& value) {
                options_.limits[nlohmann::json::json_pointer{place}] = value;
            };
            limits->add_option_function<std::uint64_t>(option, set_limit, about)
                ->check(&refuse_no_number);
        };
        add_limit("--weight", "/weight", "Its part of the poller's time, compared with others'");
        add_limit("--bytes-per-second", "/max_bytes_per_second", "0 means no limit");
        add_limit("--operations-per-second", "/max_operations_per_second", "0 means no limit");
        for (const Resource& resource : resources) {
            const std::string name = resource.name;
            add_limit("--" + name, "/resources/" + name, resource.about);
        }
    }

    void add_network() {
        CLI::App* const uplink = group("uplink", "Ways to other hosts");
        add_list(uplink, "List the uplinks and the fabrics", "/v1/uplinks", &show_uplinks);
        const auto add_uplink = [this](const Client& client) {
            return options_.new_uplink.add(client);
        };
        options_.new_uplink.add_options(
            add(uplink, "add", "Add an uplink by a network interface", {add_uplink, &show_name}));
        const auto remove = [this](const Client& client) {
            return client.remove("/v1/uplinks/" + encode(options_.name));
        };
        add(uplink, "remove", "Remove such an uplink", {remove, &show_nothing})
            ->add_option("NAME", options_.name, "Name of the uplink")
            ->required();
        add_list(group("peer", "Other hosts of fabrics"), "List the peers", "/v1/peers",
                 &show_peers);
    }

    void add_vrdmad() {
        const auto level = [this](const Client& client) {
            return options_.level.empty()
                       ? client.get("/v1/log-level")
                       : client.put("/v1/log-level", {{"level", options_.level}});
        };
        add(&app_, "log-level", "Show or set the level of vrdmad's log", {level, &show_log_level})
            ->add_option("LEVEL", options_.level,
                         "trace, debug, info, warning, error, critical or off");
        add(&app_, "reload", "Have vrdmad read its configuration again",
            {[](const Client& client) { return client.post("/v1/reload"); }, &show_reload});
    }

    void add_sniffer() {
        Sniffing& sniffing = options_.sniffing;
        CLI::App* const sniffer = group("sniffer", "Records a device's messages");
        CLI::App* const start =
            add(sniffer, "start", "Write the messages to a pcapng file, until it is interrupted",
                {[&sniffing, this](const Client& client) {
                     sniffing.device = options_.name;
                     return sniff(client, sniffing);
                 },
                 &show_sniffed});
        add_name(start);
        start->add_option("FILE", sniffing.file, "A new file, or - for the standard output")
            ->required();
        start
            ->add_option("--payload", sniffing.payload,
                         "Bytes of each message between devices of this host, at most")
            ->check(&refuse_no_number)
            ->capture_default_str();
        add_name(add(sniffer, "stop", "Stop a device's sniffer, also that of another user",
                     {[this](const Client& client) { return stop_sniffer(client, options_.name); },
                      &show_nothing}));
    }

    void add_top() {
        const auto next = [this](const Client& client) {
            if (!top_) { // the options are known now
                top_.emplace(std::chrono::duration<double>{options_.interval});
            }
            return top_->next(client);
        };
        CLI::App* const top =
            add(&app_, "top", "Show what each device does per second", {next, &show_rates, true});
        constexpr double shortest = 0.01;
        constexpr double longest = 3600;
        top->add_option("--interval", options_.interval, "Seconds between two readings")
            ->check(CLI::Range(shortest, longest))
            ->check(&refuse_nan)
            ->capture_default_str();
        top->add_flag("--once", options_.once, "End after the first rates");
    }

    CLI::App app_{"Manages the RDMA devices of this host's vrdmad", "vrdmactl"};
    Options options_;
    Command command_;
    std::optional<Top> top_;
};

} // namespace
} // namespace vrdma::ctl

int main(int argc, char** argv) {
    try {
        return vrdma::ctl::Program{}.run(argc, argv);
    } catch (const nlohmann::json::exception& error) {
        std::cerr << "vrdmactl: the answer is not one of vrdmad: " << error.what() << '\n';
        return vrdma::ctl::unreachable;
    } catch (const std::exception& error) {
        std::cerr << "vrdmactl: " << error.what() << '\n';
        return EXIT_FAILURE;
    }
}
