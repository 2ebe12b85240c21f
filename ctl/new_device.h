// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The commands that make and remove devices and uplinks while vrdmad runs. vrdmad makes devices
// behind sockets and uplinks. The kernel makes mediated devices (mdev.h).
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ctl/cdi.h"
#include "ctl/client.h"
#include "ctl/mdev.h"
#include "ctl/show.h"

namespace vrdma::ctl {

// The arguments of `device create`.
class NewDevice {
  public:
    void add_options(CLI::App* command);

    // vrdmad's answer has "socket", and that of the kernel only "name". A device for containers has
    // "cdi", too.
    Answer create(const Client& client) const;

  private:
    std::vector<CLI::Option*> add_socket_options(CLI::App* command);
    std::vector<CLI::Option*> add_cdi_options(CLI::App* command);
    Answer create_for_containers(const Client& client, nlohmann::json body) const;

    NewMdev mdev_{"vrdma", "", ""};
    CdiOptions cdi_{.driver = installed_driver()};
    nlohmann::json body_ = nlohmann::json::object(); // the keys of [[vfio_user]]
};

// The arguments of `uplink add`.
class NewUplink {
  public:
    void add_options(CLI::App* command);
    Answer add(const Client& client) const;

  private:
    nlohmann::json body_ = nlohmann::json::object(); // the keys of [[uplink]]
};

// The arguments of `device destroy`.
struct OldDevice {
    void add_options(CLI::App* command);
    // Removes the files by which containers got the device, too.
    Answer destroy(const Client& client) const;

    std::string name;
    bool force = false; // also if it is in use
    CdiOptions cdi;
};

std::string show_created(const nlohmann::json& answer, Width width);

} // namespace vrdma::ctl
