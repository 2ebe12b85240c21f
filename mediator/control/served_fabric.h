// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A fabric of the soft HCA, and the control thread's work for it: to know which peer has an
// address, and to keep the connections.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mediator/base/event_loop.h"
#include "mediator/control/config/config.h"
#include "mediator/control/directory_peers.h"
#include "mediator/control/owners.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/wire/fabric/connector.h"
#include "mediator/wire/fabric/fabric_uplink.h"

namespace vrdma::control {

// Loads libfabric if there are fabrics, and makes it start only the providers that they name. Call
// it before the process is confined, and before there are threads. The error is for people.
tl::expected<void, std::string> load_providers_of(const std::vector<FabricOptions>& fabrics);

// Sockets to the processes that read untrusted input for a fabric.
struct FabricHelpers {
    UniqueFd handshakes;
    UniqueFd directory; // none where there is no directory
};

// Starts the helpers, and returns them in the order of their fabrics. Call it while programs can
// still be executed. The error is for people.
tl::expected<std::vector<FabricHelpers>, std::string> start_helpers(
    const std::vector<FabricOptions>& fabrics, const std::string& forbidden);

class ServedFabric final : public hca::soft::AddressKeeper {
  public:
    // Adds the fabric to the HCA. Slices that are bound to it must not outlive what is returned.
    // Waits until the certificate and the key are known to be good. The error is for people.
    static tl::expected<std::unique_ptr<ServedFabric>, std::string> open(
        const FabricOptions& fabric, FabricHelpers helpers, hca::soft::SoftHca& hca,
        EventLoop& loop);

    const std::string& name() const { return name_; }
    const std::string& provider() const { return provider_; }
    const wire::Mac& mac() const { return mac_; } // for devices that have none of their own

    struct Peer {
        wire::fabric::PeerOptions options;
        bool up;               // connected
        std::size_t addresses; // that it claims
    };
    std::vector<Peer> peers() const;

    // Fails with address_in_use if the configuration gives the address to a peer.
    Result<> add(const hca::soft::GidKey& gid, const wire::Mac& mac) override;
    void remove(const hca::soft::GidKey& gid, const wire::Mac& mac) override;

  private:
    ServedFabric(const FabricOptions& fabric, hca::soft::SoftHca& hca);

    Result<> serve(const FabricOptions& fabric,
                   std::unique_ptr<wire::fabric::Handshakes> handshakes, EventLoop& loop);
    Result<> open_directory(const FabricOptions& fabric, UniqueFd process, EventLoop& loop);
    void add(unsigned number, const FabricPeer& peer);
    void claim(unsigned peer, const Claims& claims);
    void tell_contested(unsigned peer, const std::vector<wire::Gid>& gids);
    void answer_unknown();

    const std::string name_;
    const std::string provider_;
    const wire::Mac mac_;
    hca::soft::SoftHca& hca_;
    Owners owners_;                                // are peers, by their numbers
    wire::fabric::FabricUplink* uplink_ = nullptr; // the HCA owns it: use it in with_port() only
    DeviceLog log_;
    std::unique_ptr<wire::fabric::Connector> connector_;
    std::unique_ptr<DirectoryPeers> directory_; // if there is one
    EventLoop::Watch unknown_;
};

} // namespace vrdma::control
