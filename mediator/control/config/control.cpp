// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <string>

#include "mediator/base/runtime_directory.h"
#include "mediator/control/config/names.h"
#include "mediator/control/config/readers.h"
#include "mediator/control/config/users.h"

namespace vrdma::control {
namespace {

constexpr unsigned max_spare_clients = 65536;

} // namespace

std::string default_control_path() {
    const auto directory = given_runtime_directory();
    return directory ? *directory + "/control.sock" : std::string{};
}

void read_control(Section section, ControlSocketOptions& control) {
    constexpr mode_t for_group = 0660;
    section.text("socket", control.socket.path);
    if (!control.socket.path.empty() && !valid_socket_path(control.socket.path)) {
        section.refuse("socket", valid_socket_path_is);
    }
    read_group(section, "group", control.socket.group);
    control.socket.mode = section.has("group") ? for_group : control.socket.mode;
    section.boolean("group_changes", control.group_changes);
    if (section.has("sniffer")) {
        section.boolean("sniffer", control.sniffer.emplace());
    }
    if (control.group_changes && !section.has("group")) {
        section.refuse("group", "the group that group_changes is about");
    }
    section.integer("spare_clients", control.spare_clients, 0, max_spare_clients);
    section.boolean("add_uplinks", control.add_uplinks);
    section.finish();
}

void read_metrics(Section section, ControlSocketOptions& control) {
    if (section.has("listen")) {
        std::string text;
        section.text("listen", text);
        control.metrics = wire::fabric::parse_address(text);
        if (!control.metrics) {
            section.refuse("listen",
                           "an address and a port such as 127.0.0.1:9469 or [fd00::1]:9469");
        }
        if (control.socket.path.empty()) {
            section.refuse("listen", "left out where there is no control socket (control.socket)");
        }
    }
    section.finish();
}

} // namespace vrdma::control
