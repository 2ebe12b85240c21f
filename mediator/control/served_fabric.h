// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A fabric of the soft HCA, and what the control thread does for it: it knows which peer has an
// address, and keeps the connections.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mediator/base/event_loop.h"
#include "mediator/control/config.h"
#include "mediator/control/directory_peers.h"
#include "mediator/control/owners.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/wire/fabric/fabric_uplink.h"
#include "mediator/wire/fabric/links.h"

namespace vrdma::control {

// Before the first fabric is opened, and before there are threads: libfabric is to start no
// provider that nobody has named.
void load_providers_of(const std::vector<Fabric>& fabrics);

// Sockets of the processes that read for a fabric what strangers write.
struct FabricHelpers {
    UniqueFd handshakes;
    UniqueFd directory; // none where there is no directory
};

// In the order of their fabrics: they are started. While programs can still be executed. The error
// is for people.
tl::expected<std::vector<FabricHelpers>, std::string> start_helpers(
    const std::vector<Fabric>& fabrics, const std::string& forbidden);

class ServedFabric final : public hca::soft::AddressKeeper {
  public:
    // The HCA has it from now on; its slices that are bound to it do not outlive what is returned.
    // Waits until its certificate and key are known to be good. The error is for people.
    static tl::expected<std::unique_ptr<ServedFabric>, std::string> open(const Fabric& fabric,
                                                                         FabricHelpers helpers,
                                                                         hca::soft::SoftHca& hca,
                                                                         EventLoop& loop);

    const std::string& name() const { return name_; }
    const wire::Mac& mac() const { return mac_; } // of devices that have none of their own

    // An address of a device here must not be a peer's.
    Result<> add(const hca::soft::GidKey& gid, const wire::Mac& mac) override;
    void remove(const hca::soft::GidKey& gid, const wire::Mac& mac) override;

  private:
    ServedFabric(const Fabric& fabric, hca::soft::SoftHca& hca);

    Result<> serve(const Fabric& fabric, std::unique_ptr<wire::fabric::Handshakes> handshakes,
                   EventLoop& loop);
    Result<> open_directory(const Fabric& fabric, UniqueFd process, EventLoop& loop);
    void add(unsigned number, const FabricPeer& peer);
    void claim(unsigned peer, const Claims& claims);
    void tell_contested(unsigned peer, const std::vector<wire::Gid>& gids);
    void answer_unknown();

    const std::string name_;
    const wire::Mac mac_;
    hca::soft::SoftHca& hca_;
    Owners owners_;                                // peers, by their numbers
    wire::fabric::FabricUplink* uplink_ = nullptr; // the HCA's: for with_port() only
    DeviceLog log_;
    std::unique_ptr<wire::fabric::Links> links_;
    std::unique_ptr<DirectoryPeers> directory_; // if there is one
    EventLoop::Watch unknown_;
};

} // namespace vrdma::control
