// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The soft HCA: pollers that copy between the buffers of this host's guests.
#pragma once

#include "mediator/hca/hca.h"
#include "mediator/hca/soft/config.h"
#include "mediator/hca/soft/poller/pollers.h"

namespace vrdma::hca::soft {

class SoftHca : public Hca {
  public:
    static Result<std::unique_ptr<SoftHca>> create(const Config& config = {});

    Result<std::unique_ptr<Slice>> carve(const SliceSpec& spec, SliceHost& host) override;
    std::uint32_t connection_version() const noexcept override;

    // Adds a way to the network, which one poller serves. Called before any slice is carved that is
    // bound to it. The keeper, if there is one, must outlive those slices.
    Result<> add_uplink(std::string name, std::unique_ptr<wire::Uplink> uplink,
                        AddressKeeper* keeper = nullptr);
    // The same by a device of the host's HCA, which is returned. If pollers have threads of their
    // own, each must have opened it before (hca/host/opened.h). The error is for people.
    tl::expected<host::SharedDevice, std::string> add_host_uplink(const std::string& name,
                                                                  const host::Libibverbs& library,
                                                                  const std::string& device) {
        return pollers_->add_host_uplink(name, library, device);
    }
    // Replaces the interface of an uplink. Packets on the way through the old interface are lost.
    Result<> renew_uplink(const std::string& name, std::unique_ptr<wire::Uplink> uplink);
    // No slice may be bound to it. The uplink must exist.
    void remove_uplink(const std::string& name);
    // Calls call(port) on the thread that serves the uplink. The uplink must exist.
    template <typename Call>
    void with_port(const std::string& uplink, Call&& call) {
        pollers_->with_port(uplink, std::forward<Call>(call));
    }

    // The same for an uplink by the host's HCA.
    template <typename Call>
    void with_host_port(const std::string& uplink, Call&& call) {
        pollers_->with_host_port(uplink, std::forward<Call>(call));
    }

    // The uplink has got or lost its carrier, or has another MTU. Initially it is up.
    void set_link(const std::string& uplink, bool up, std::uint32_t mbps = 0);

    // See Pollers.
    void borrow_pollers() { pollers_->borrow(); }
    void give_pollers_back() noexcept { pollers_->give_back(); }
    void await_last_call() noexcept { pollers_->await_last_call(); }

    std::size_t pollers() const noexcept { return pollers_->count(); }
    Poller::Times poller_times(std::size_t poller) const { return pollers_->times(poller); }

    // With Config::threads off: executes one round of each poller. Returns whether there was any
    // work.
    bool poll() noexcept { return pollers_->poll(); }
    // The same for one poller.
    bool poll(unsigned poller) noexcept { return pollers_->poll(poller); }

  private:
    explicit SoftHca(std::unique_ptr<Pollers> pollers) : pollers_{std::move(pollers)} {}

    std::unique_ptr<Pollers> pollers_;
};

} // namespace vrdma::hca::soft
