// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The parts of this vrdmad, as its control socket sees them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mediator/base/log.h"
#include "mediator/control/reloader.h"
#include "mediator/control/socket_devices.h"
#include "mediator/control/uplinks.h"
#include "mediator/device/activity.h"
#include "mediator/frontend/mdev/mdev_frontend.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/management/mediator.h"

namespace vrdma::control {

class Managed final : public management::Mediator {
  public:
    // All must outlive this.
    struct Parts {
        SocketDevices& sockets;
        const std::unique_ptr<mdev::MdevFrontend>& module; // nullptr: there is none
        Uplinks& uplinks;
        const hca::soft::SoftHca& hca;
        const vrdma::Activity& activity;
        Reloader& reloader;
        bool sniffers; // are allowed
    };
    explicit Managed(const Parts& parts) : parts_{parts} {}

    std::vector<management::Device> devices(const management::Range& range) const override;
    std::vector<management::Counters> counters(const management::Range& range) const override;
    std::vector<management::Uplink> uplinks(const management::Range& range) const override;
    std::vector<management::Peer> peers(const management::Range& range) const override;
    std::vector<management::Poller> pollers(const management::Range& range) const override;
    std::vector<management::Activity> activity(const management::Range& range) const override;
    management::Answered<> set_limits(const std::string& name, const management::Share& share,
                                      const management::Quotas& quotas) override;
    management::Answered<> set_protocols(const std::string& name, std::uint32_t protocols) override;
    management::Answered<std::string> create_device(const management::Settings& settings) override;
    management::Answered<> destroy_device(const std::string& name, bool force) override;
    management::Answered<std::string> add_uplink(const management::Settings& settings) override;
    management::Answered<> remove_uplink(const std::string& name) override;
    management::Answered<UniqueFd> start_sniffer(const std::string& name,
                                                 std::uint32_t payload_limit) override;
    management::Answered<> stop_sniffer(const std::string& name) override;
    void stop_all_sniffers() override;
    std::string log_level() const override;
    bool set_log_level(const std::string& level) override;
    void reload(std::function<void(management::Reloaded)> done) override;

  private:
    const Parts parts_;
    DeviceLog log_{"control socket"};
};

} // namespace vrdma::control
