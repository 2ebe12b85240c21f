// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/served_hca.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "mediator/base/errno.h"
#include "mediator/verbs/port_speed.h"
#include "mediator/wire/uplink/link.h"

namespace vrdma::control {

std::vector<std::string> host_devices(const Config& config) {
    std::vector<std::string> devices;
    for (const UplinkOptions& uplink : config.uplinks) {
        if (!uplink.device.empty()) {
            devices.push_back(uplink.device);
        }
    }
    return devices;
}

tl::expected<void, std::string> load_libibverbs_for(const Config& config) {
    if (!host_devices(config).empty() && !hca::host::libibverbs()) {
        return tl::unexpected{"an uplink by the host's HCA needs libibverbs: " +
                              hca::host::libibverbs().error()};
    }
    return {};
}

ServedHca::ServedHca(const UplinkOptions& uplink, hca::host::SharedDevice device,
                     const wire::Mac& mac, hca::soft::SoftHca& hca)
    : uplink_{uplink},
      device_{std::move(device)},
      mac_{mac},
      hca_{hca},
      log_{"uplink " + uplink.name} {}

tl::expected<std::unique_ptr<ServedHca>, std::string> ServedHca::open(const UplinkOptions& uplink,
                                                                      hca::soft::SoftHca& hca,
                                                                      EventLoop& loop) {
    if (!hca::host::libibverbs()) {
        return tl::unexpected{hca::host::libibverbs().error()};
    }
    const auto link = wire::read_link(uplink.interface);
    if (!link) {
        return tl::unexpected{uplink.interface + ": " + describe(link.error())};
    }
    auto device = hca.add_host_uplink(uplink.name, **hca::host::libibverbs(), uplink.device);
    if (!device) {
        return tl::unexpected{device.error()};
    }
    std::unique_ptr<ServedHca> served{new ServedHca{uplink, std::move(*device), link->mac, hca}};
    ServedHca& self = *served;
    auto watch =
        loop.watch(self.device_->event_fd(), [&self](std::uint32_t) { self.take_events(); });
    if (!watch) {
        return tl::unexpected{describe(watch.error())};
    }
    self.events_ = std::move(*watch);
    self.look_at_port();
    spdlog::info("uplink {}: messages go by {}", uplink.name, uplink.device);
    return served;
}

// An HCA that reports without end does not keep the loop from other work.
void ServedHca::take_events() {
    constexpr int at_a_time = 64;
    for (int left = at_a_time; left != 0; --left) {
        const auto event = device_->next_event();
        if (!event) {
            return;
        }
        take(*event);
    }
}

void ServedHca::take(const hca::host::Device::Event& event) {
    switch (event.type) {
        case IBV_EVENT_DEVICE_FATAL:
        case IBV_EVENT_CQ_ERR:
            log_.warn("{} reports a fatal error", uplink_.device);
            hca_.with_host_port(name(), [](auto& port) { port.fail_all(); });
            return;
        case IBV_EVENT_PORT_ACTIVE:
        case IBV_EVENT_PORT_ERR:
            return look_at_port();
        default:
            if (event.qpn != 0) {
                hca_.with_host_port(name(),
                                    [&](auto& port) { port.tell(event.type, Qpn{event.qpn}); });
            }
            return;
    }
}

void ServedHca::look_at_port() {
    const auto port = device_->port();
    const bool up = port && port->state == IBV_PORT_ACTIVE;
    if (up != up_) {
        up_ = up;
        log_.warn("{} is {}", uplink_.device, up ? "up" : "down");
    }
    mbps_ = up ? verbs::nominal_mbps({port->active_speed, port->active_width}) : 0;
    hca_.set_link(name(), up, mbps_);
}

} // namespace vrdma::control
