// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/multicast.h"

#include <algorithm>

#include "mediator/base/memory_cost.h"

namespace vrdma::verbs {
namespace {

template <typename Source>
Gid gid_of(const Source& source) {
    Gid gid;
    std::copy(std::begin(source.gid), std::end(source.gid), gid.begin());
    return gid;
}

} // namespace

MulticastTable::MulticastTable(Resources& resources, QpTable& qps)
    : resources_{resources},
      qps_{qps},
      cost_{map_cost<decltype(groups_)::value_type>() + map_cost<Group::value_type>() +
            resources.costs.multicast} {
    resources.budget.widen(resources.limits.max_total_mcast_qp_attach, cost_);
}

Result<> MulticastTable::add(Qpn qpn, const Gid& gid) {
    const Limits& limits = resources_.limits;
    Qp* const qp = qps_.find(qpn);
    if (qp == nullptr || qp->spec.type != hca::QpType::ud || !is_multicast(gid)) {
        return fail(std::errc::invalid_argument);
    }
    const auto group = groups_.find(gid);
    if (group != groups_.end() && group->second.contains(qpn)) {
        return {};
    }
    const bool full = group == groups_.end() ? groups_.size() >= limits.max_mcast_grp
                                             : group->second.size() >= limits.max_mcast_qp_attach;
    if (full || attached_ >= limits.max_total_mcast_qp_attach) {
        return fail(std::errc::not_enough_memory);
    }
    auto lease = resources_.budget.take(cost_);
    if (!lease) {
        return fail(lease.error());
    }
    Rollback undo{[&] { forget(qpn, gid); }};
    groups_[gid].emplace(qpn, Member{qp->users.hold(), std::move(*lease)});
    const auto attached = resources_.slice.attach_multicast(qpn, gid);
    if (attached) {
        undo.keep();
        ++attached_;
    }
    return attached;
}

void MulticastTable::forget(Qpn qpn, const Gid& gid) {
    const auto group = groups_.find(gid);
    if (group == groups_.end()) {
        return;
    }
    group->second.erase(qpn);
    if (group->second.empty()) {
        groups_.erase(group);
    }
}

Result<> MulticastTable::attach(const vrdma_cmd_multicast& cmd) {
    return cmd.reserved == 0 ? add(Qpn{cmd.qpn}, gid_of(cmd)) : fail(std::errc::invalid_argument);
}

Result<> MulticastTable::detach(const vrdma_cmd_multicast& cmd) {
    const Qpn qpn{cmd.qpn};
    const Gid gid = gid_of(cmd);
    const auto group = groups_.find(gid);
    if (cmd.reserved != 0 || group == groups_.end() || !group->second.contains(qpn)) {
        return fail(std::errc::invalid_argument);
    }
    resources_.slice.detach_multicast(qpn, gid);
    forget(qpn, gid);
    --attached_;
    return {};
}

void MulticastTable::save(StateWriter& writer) const {
    writer.begin(Section::multicast, MulticastState::version, attached_);
    for (const auto& [gid, group] : groups_) {
        for (const auto& [qpn, member] : group) {
            MulticastState state{.qpn = qpn.value, .gid = {}};
            std::copy(gid.begin(), gid.end(), state.gid);
            writer.put(state);
        }
    }
}

Result<> MulticastTable::restore_one(StateReader& reader) {
    const auto state = reader.take<MulticastState>();
    return state ? add(Qpn{state->qpn}, gid_of(*state)) : fail(state.error());
}

Result<> MulticastTable::restore(StateReader& reader) {
    return restore_records(reader, Section::multicast, MulticastState::version,
                           [this](StateReader& from) { return restore_one(from); });
}

} // namespace vrdma::verbs
