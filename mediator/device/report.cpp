// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/device.h"

namespace vrdma {
namespace {

constexpr std::uint32_t bytes_of(std::uint8_t mtu) { // enum ibv_mtu
    return 128u << mtu;
}

void add_limits(const verbs::Limits& limits, std::uint64_t DeviceReport::Usage::*to,
                DeviceReport& report) {
    report.pds.*to = limits.max_pd;
    report.mrs.*to = limits.max_mr;
    report.cqs.*to = limits.max_cq;
    report.qps.*to = limits.max_qp;
    report.srqs.*to = limits.max_srq;
    report.xrcds.*to = limits.max_xrcd;
    report.ahs.*to = limits.max_ah;
    report.blocks.*to = limits.max_blocks;
    report.memory.*to = limits.max_memory;
}

// Without a limit or a quota, the objects' memory has the bound that follows from their numbers.
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
    report.memory.used = budget.bytes_taken();
    report.memory.max = budget.bytes_taken() + budget.bytes_left();
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
    add_limits(type_.limits, &DeviceReport::Usage::limit, report);
    add_limits(verbs::within(type_.limits, quotas_), &DeviceReport::Usage::max, report);
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
