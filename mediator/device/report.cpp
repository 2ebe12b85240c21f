// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/device.h"

namespace vrdma {
namespace {

constexpr std::uint32_t bytes_of(std::uint8_t mtu) { // enum ibv_mtu
    return 128u << mtu;
}

void add_limits(const verbs::Limits& limits, DeviceReport& report) {
    report.pds.max = limits.max_pd;
    report.mrs.max = limits.max_mr;
    report.cqs.max = limits.max_cq;
    report.qps.max = limits.max_qp;
    report.srqs.max = limits.max_srq;
    report.xrcds.max = limits.max_xrcd;
    report.ahs.max = limits.max_ah;
    report.blocks.max = limits.max_blocks;
    report.memory.max = limits.max_memory;
}

// Without a limit of the type, the objects' memory has the one that follows from their numbers.
void add_uses(const verbs::Objects& objects, DeviceReport& report) {
    report.pds.used = objects.pds.size();
    report.mrs.used = objects.mrs.size();
    report.cqs.used = objects.cqs.size();
    report.qps.used = objects.qps.size();
    report.srqs.used = objects.srqs.size();
    report.xrcds.used = objects.xrcds.size();
    report.ahs.used = objects.ahs.size();
    const verbs::MemoryBudget& budget = objects.resources.budget;
    report.blocks.used = budget.blocks_taken();
    report.memory = {budget.bytes_taken(), budget.bytes_taken() + budget.bytes_left()};
}

} // namespace

DeviceReport Device::report() const {
    const verbs::Identity& identity = function_id_.identity();
    DeviceReport report;
    report.name = name();
    report.type = type_.name;
    report.uplink = identity.uplink;
    report.mac = identity.mac;
    report.state = reported_state();
    report.mbps = verbs::nominal_mbps(identity.port_speed);
    report.share = share_;
    add_limits(type_.limits, report);
    if (enabled_) {
        const std::uint32_t mbps = enabled_->slice->port_mbps();
        report.mbps = mbps != 0 ? mbps : report.mbps;
        report.mtu = bytes_of(enabled_->slice->max_mtu());
        add_uses(enabled_->objects, report);
    }
    return report;
}

DeviceReport::State Device::reported_state() const {
    if (failed_) {
        return DeviceReport::State::failed;
    }
    if (suspended()) {
        return DeviceReport::State::suspended;
    }
    if (!enabled_) {
        return DeviceReport::State::unused;
    }
    return enabled_->slice->port_up() ? DeviceReport::State::active : DeviceReport::State::down;
}

std::optional<vrdma_counters> Device::counters() const {
    return enabled_ ? std::optional{enabled_->slice->counters()} : std::nullopt;
}

} // namespace vrdma
