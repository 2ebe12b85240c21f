// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Makes the hosts of a fabric's directory its peers, as they come, move and go. For them, it puts
// this host with its devices' addresses into the directory.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "mediator/base/event_loop.h"
#include "mediator/base/log.h"
#include "mediator/control/config/config.h"
#include "mediator/directory/client.h"
#include "mediator/wire/fabric/connector.h"

namespace vrdma::control {

class DirectoryPeers {
  public:
    // Is called with the addresses that a peer claims from now on.
    using Claim = std::function<void(unsigned peer, const directory::Claims& claims)>;

    // `fabric` has a directory, and `process` is the socket to the process that talks to it. The
    // peers of the configuration are in `connector` already, and have the first numbers.
    static Result<std::unique_ptr<DirectoryPeers>> open(const FabricOptions& fabric,
                                                        UniqueFd process,
                                                        wire::fabric::Connector& connector,
                                                        EventLoop& loop, Claim claim);

    // An address of devices of this host. It may be added several times.
    void add(const Gid& gid);
    void remove(const Gid& gid);
    bool has(const Gid& gid) const { return here_.contains(gid); }

  private:
    struct Known {
        unsigned number;
        std::shared_ptr<const directory::Entry> entry;
    };

    DirectoryPeers(const FabricOptions& fabric, wire::fabric::Connector& connector, Claim claim);

    void announce();
    void follow(const directory::Hosts& hosts);
    void look_at_own(const directory::Hosts& hosts);
    void change(const std::string& name, const std::shared_ptr<const directory::Entry>& entry);
    void forget(const Known& known);

    const std::string host_;
    const wire::fabric::Address address_;
    wire::fabric::Connector& connector_;
    const Claim claim_;
    DeviceLog log_;
    std::set<std::string> fixed_; // names of peers that the configuration has
    std::set<unsigned> free_;     // numbers of peers
    std::map<std::string, Known> known_;
    std::shared_ptr<const directory::Entry> own_;
    std::map<Gid, unsigned> here_; // how often each was added
    std::unique_ptr<directory::Client> directory_;
};

} // namespace vrdma::control
