// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// An uplink by the host's own HCA, and the control thread's work for it: it tells the engine what
// the HCA reports of its port and of QPs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mediator/base/event_loop.h"
#include "mediator/base/log.h"
#include "mediator/control/config/config.h"
#include "mediator/hca/soft/soft_hca.h"

namespace vrdma::control {

// The devices of the host's HCA that the configuration names.
std::vector<std::string> host_devices(const Config& config);

// Loads libibverbs if the configuration needs it. Call it before the process is confined. The error
// is for people.
tl::expected<void, std::string> load_libibverbs_for(const Config& config);

class ServedHca {
  public:
    // Adds the uplink to the HCA. Slices that are bound to it must not outlive what is returned.
    // The error is for people.
    static tl::expected<std::unique_ptr<ServedHca>, std::string> open(const UplinkOptions& uplink,
                                                                      hca::soft::SoftHca& hca,
                                                                      EventLoop& loop);
    ServedHca(const ServedHca&) = delete;
    ServedHca& operator=(const ServedHca&) = delete;
    ~ServedHca() = default;

    const std::string& name() const { return uplink_.name; }
    const std::string& interface() const { return uplink_.interface; }
    const wire::Mac& mac() const { return mac_; } // the interface's
    bool up() const { return up_; }
    std::uint32_t mbps() const { return mbps_; } // 0: not known

  private:
    ServedHca(const UplinkOptions& uplink, hca::host::SharedDevice device, const wire::Mac& mac,
              hca::soft::SoftHca& hca);

    void take_events();
    void take(const hca::host::Device::Event& event);
    void look_at_port();

    const UplinkOptions uplink_;
    const hca::host::SharedDevice device_;
    const wire::Mac mac_;
    hca::soft::SoftHca& hca_;
    DeviceLog log_;
    bool up_ = true;
    std::uint32_t mbps_ = 0;
    EventLoop::Watch events_;
};

} // namespace vrdma::control
