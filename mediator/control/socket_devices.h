// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The devices behind sockets: those of the configuration, and those that are created while vrdmad
// runs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mediator/control/additions_file.h"
#include "mediator/control/config/additions.h"
#include "mediator/control/uplinks.h"
#include "mediator/frontend/host.h"
#include "mediator/frontend/vfio_user/server.h"
#include "mediator/management/mediator.h"

namespace vrdma::control {

class SocketDevices {
  public:
    // How many DMA maps a client may have.
    struct MapShares {
        std::size_t configured = 0; // of a device that the configuration has
        std::size_t created = 0;    // of one that was created
    };
    struct Opened {
        std::vector<vfio_user::ListeningSocket> sockets; // in the order of their devices
        MapShares most_maps;
    };
    // Opens the sockets of the configuration's devices while vrdmad has all of its privileges. A
    // client that connects waits until the device is served. On failure, logs the reason. A device
    // that was added to the configuration is left out if it fails.
    static std::optional<Opened> open(Config& config);

    // All must outlive this.
    SocketDevices(Config& config, const AdditionsFile& file, const Uplinks& uplinks,
                  const Host& host)
        : config_{config}, file_{file}, uplinks_{uplinks}, host_{host} {}

    // On failure, logs the reason.
    bool serve(Opened opened);

    // Serves another one, and adds it to the configuration. Returns the path of its socket.
    management::Answered<std::string> create(const toml::table& section);
    // Only one that was created. One that has clients takes force; then their drivers learn that it
    // is gone.
    management::Answered<> destroy(const std::string& name, bool force);

    // Gives them the shares of the configuration.
    void give_shares();

    const std::vector<std::unique_ptr<vfio_user::Server>>& servers() const { return servers_; }

  private:
    Result<std::unique_ptr<vfio_user::Server>> serve_one(const VfioUserDevice& device,
                                                         vfio_user::ListeningSocket socket);
    management::Answered<> admit_last() const;
    management::Answered<> serve_last();
    Result<> keep() const;

    Config& config_;
    const AdditionsFile& file_;
    const Uplinks& uplinks_;
    const Host& host_;
    MapShares most_maps_;
    std::vector<std::unique_ptr<vfio_user::Server>> servers_; // in the order of their devices
};

} // namespace vrdma::control
