// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdmactl: see vrdmactl(8).
#include <CLI/CLI.hpp>
#include <exception>
#include <functional>
#include <iostream>
#include <string>

#include "ctl/client.h"
#include "ctl/show.h"
#include "ctl/table.h"

namespace vrdma::ctl {
namespace {

enum Exit { done = 0, refused = 1, misused = 2, unreachable = 3 };

using Show = std::string (*)(const nlohmann::json& answer, Width width);

struct Options {
    std::string socket = "/run/vrdma/control.sock";
    bool json = false;
    std::string name;  // of the device
    std::string level; // of the log, or none
};

// What the command that was given does.
struct Command {
    std::function<Answer(const Client& client)> ask;
    Show show = nullptr;
};

class Program {
  public:
    Program() {
        app_.require_subcommand(1);
        app_.add_option("--socket", options_.socket, "vrdmad's control socket")
            ->capture_default_str();
        app_.add_flag("--json", options_.json, "Print vrdmad's answer, which is JSON");
        app_.set_version_flag("--version", "vrdmactl " VRDMA_RELEASE);
        add_devices();
        add_limits();
        add_network();
        add_vrdmad();
    }

    int run(int argc, char** argv) {
        try {
            app_.parse(argc, argv);
        } catch (const CLI::ParseError& error) {
            return app_.exit(error) == 0 ? done : misused;
        }
        const auto answer = command_.ask(Client{options_.socket});
        if (!answer) {
            std::cerr << "vrdmactl: " << printable(answer.error().text) << '\n';
            return answer.error().unreachable ? unreachable : refused;
        }
        constexpr int indent = 2;
        std::cout << (options_.json ? answer->dump(indent, ' ', true) + "\n"
                                    : command_.show(*answer, terminal_width()))
                  << std::flush;
        return std::cout ? done : refused;
    }

  private:
    CLI::App* group(const char* name, const char* about) {
        CLI::App* const added = app_.add_subcommand(name, about);
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

    void add_of_device(CLI::App* parent, const char* name, const char* about, const char* suffix,
                       Show show) {
        const auto ask = [this, suffix](const Client& client) {
            return client.get("/v1/devices/" + encode(options_.name) + suffix);
        };
        add(parent, name, about, {ask, show})
            ->add_option("NAME", options_.name, "Name of the device, as `device list` has it")
            ->required();
    }

    void add_devices() {
        CLI::App* const device = group("device", "The RDMA devices that vrdmad serves");
        add_list(device, "List the devices", "/v1/devices", &show_devices);
        add_of_device(device, "show", "Show a device", "", &show_device);
        add_of_device(device, "stats", "Show a device's counters", "/counters", &show_counters);
    }

    void add_limits() {
        CLI::App* const limit = group("limit", "What a device may use");
        add_of_device(limit, "show", "Show a device's limits, and what it uses", "/limits",
                      &show_limits);
    }

    void add_network() {
        add_list(group("uplink", "Ways to other hosts"), "List the uplinks and the fabrics",
                 "/v1/uplinks", &show_uplinks);
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

    CLI::App app_{"Manages the RDMA devices of this host's vrdmad", "vrdmactl"};
    Options options_;
    Command command_;
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
