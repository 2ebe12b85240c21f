// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The parts of this vrdmad, as its control socket sees them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mediator/base/log.h"
#include "mediator/control/reloader.h"
#include "mediator/control/served_fabric.h"
#include "mediator/control/served_uplink.h"
#include "mediator/device/activity.h"
#include "mediator/frontend/mdev/mdev_frontend.h"
#include "mediator/frontend/vfio_user/server.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/management/mediator.h"

namespace vrdma::control {

class Managed final : public management::Mediator {
  public:
    // All must outlive this.
    struct Parts {
        const std::vector<std::unique_ptr<vfio_user::Server>>& servers;
        const std::unique_ptr<mdev::MdevFrontend>& module; // nullptr: there is none
        const std::vector<std::unique_ptr<ServedUplink>>& ethernets;
        const std::vector<std::unique_ptr<ServedFabric>>& fabrics;
        const hca::soft::SoftHca& hca;
        const vrdma::Activity& activity;
        Reloader& reloader;
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
    std::string log_level() const override;
    bool set_log_level(const std::string& level) override;
    void reload(std::function<void(management::Reloaded)> done) override;

  private:
    const Parts parts_;
    DeviceLog log_{"control socket"};
};

} // namespace vrdma::control
