// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The ways to other hosts: those of the configuration, and Ethernet uplinks that are added while
// vrdmad runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mediator/control/additions_file.h"
#include "mediator/control/config/additions.h"
#include "mediator/control/served_fabric.h"
#include "mediator/control/served_hca.h"
#include "mediator/control/served_uplink.h"
#include "mediator/management/mediator.h"

namespace vrdma::control {

class Uplinks {
  public:
    // `may_add`: vrdmad keeps what a new uplink takes. All others must outlive this.
    Uplinks(Config& config, const AdditionsFile& file, bool may_add, hca::soft::SoftHca& hca,
            EventLoop& loop)
        : config_{config}, file_{file}, may_add_{may_add}, hca_{hca}, loop_{loop} {}

    // Serves those of the configuration. On failure, logs the reason and the uplink's name. An
    // uplink that was added to the configuration is left out if it fails.
    bool open(std::vector<FabricHelpers> helpers);

    // Serves another one, and adds it to the configuration. Returns its name.
    management::Answered<std::string> add(const toml::table& section);
    // Only one that was added. No device may be bound to it.
    management::Answered<> remove(const std::string& name);

    const std::vector<std::unique_ptr<ServedUplink>>& ethernets() const { return ethernets_; }
    const std::vector<std::unique_ptr<ServedFabric>>& fabrics() const { return fabrics_; }
    // Those by the host's HCA.
    const std::vector<std::unique_ptr<ServedHca>>& hcas() const { return hcas_; }
    // The MAC of a device that has none of its own.
    verbs::Mac mac_of(const std::string& name) const;

  private:
    bool open_ethernets();
    bool open_hcas();
    tl::expected<void, std::string> open_last();

    Config& config_;
    const AdditionsFile& file_;
    const bool may_add_;
    hca::soft::SoftHca& hca_;
    EventLoop& loop_;
    std::vector<std::unique_ptr<ServedUplink>> ethernets_;
    std::vector<std::unique_ptr<ServedHca>> hcas_;
    std::vector<std::unique_ptr<ServedFabric>> fabrics_;
};

std::vector<std::string> uplink_names(const Config& config);

} // namespace vrdma::control
