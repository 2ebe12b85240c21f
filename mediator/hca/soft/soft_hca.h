// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The soft HCA: pollers that copy between the buffers of this host's guests.
#pragma once

#include "mediator/hca/soft/config.h"
#include "mediator/hca/soft/pollers.h"

namespace vrdma::hca::soft {

class SoftHca : public Hca {
  public:
    static Result<std::unique_ptr<SoftHca>> create(const Config& config = {});

    Result<std::unique_ptr<Slice>> carve(const SliceSpec& spec, SliceHost& host) override;

    // Before any slice is carved that is bound to it: a way to the network, served by one poller.
    // Who keeps its addresses, if anybody does, outlives those slices.
    Result<> add_uplink(std::string name, std::unique_ptr<wire::Uplink> uplink,
                        AddressKeeper* keeper = nullptr);
    // The same uplink by another interface. What is under way by the old one is lost.
    Result<> renew_uplink(const std::string& name, std::unique_ptr<wire::Uplink> uplink);
    // The uplink's port, on the thread that serves it; for one that there is.
    template <typename Call>
    void with_port(const std::string& uplink, Call&& call) {
        Poller* const poller = pollers_->find_uplink(uplink);
        poller->run([&](Engine& engine) { call(*engine.find_port(uplink)); });
    }

    // The uplink has got or lost its carrier, or has another MTU; it was up at first.
    void set_link(const std::string& uplink, bool up, std::uint32_t mbps = 0);

    // With Config::threads off: one round. Returns whether there was any work.
    bool poll() noexcept { return pollers_->poll(); }
    // And one round of one poller.
    bool poll(unsigned poller) noexcept { return pollers_->poll(poller); }

  private:
    explicit SoftHca(std::unique_ptr<Pollers> pollers) : pollers_{std::move(pollers)} {}

    std::unique_ptr<Pollers> pollers_;
};

} // namespace vrdma::hca::soft
