// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/transport.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <span>

#include "mediator/base/errno.h"
#include "mediator/wire/uplink/packet_uplink.h"
#include "mediator/wire/uplink/xdp_uplink.h"

namespace vrdma::wire {
namespace {

using Opened = tl::expected<std::unique_ptr<Uplink>, std::string>;
using Mode = XdpUplink::Mode;

constexpr Mode every_mode[] = {Mode::zero_copy, Mode::native, Mode::generic};

// Uses the first mode that works. The error says why none does.
Opened open_xdp(const std::string& interface, std::span<const Mode> modes,
                const Steering* steering) {
    if (steering == nullptr) {
        return tl::unexpected{std::string{"steering is not available"}};
    }
    std::string reasons;
    for (const Mode mode : modes) {
        auto uplink = XdpUplink::create(interface, mode, *steering);
        if (uplink) {
            spdlog::info("uplink {}: AF_XDP, {}, queues: {}", interface, XdpUplink::name_of(mode),
                         (*uplink)->queues());
            return std::move(*uplink);
        }
        reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", XdpUplink::name_of(mode),
                               uplink.error());
    }
    return tl::unexpected{reasons};
}

Opened open_packets(const std::string& interface) {
    auto uplink = PacketUplink::create(interface);
    if (!uplink) {
        return tl::unexpected{describe(uplink.error())};
    }
    return std::move(*uplink);
}

} // namespace

Opened open_uplink(const std::string& interface, Transport transport, const Steering* steering) {
    if (transport == Transport::af_packet) {
        return open_packets(interface);
    }
    if (transport == Transport::af_xdp) {
        return open_xdp(interface, every_mode, steering).map_error([](const std::string& reasons) {
            return "no AF_XDP: " + reasons;
        });
    }
    auto uplink = open_xdp(interface, std::span{every_mode}.first(1), steering);
    if (uplink) {
        return uplink;
    }
    spdlog::info("uplink {}: AF_PACKET: no AF_XDP, {}", interface, uplink.error());
    return open_packets(interface);
}

} // namespace vrdma::wire
