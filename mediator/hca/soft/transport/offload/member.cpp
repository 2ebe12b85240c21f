// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/offload/member.h"

#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/offload/port.h"

namespace vrdma::hca::soft::offload {
namespace {

constexpr std::uint32_t remote_access =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

bool is_number(Qpn qpn) {
    return qpn.value > gsi_qpn.value && qpn.value < VRDMA_MULTICAST_QPN;
}

} // namespace

Result<SharedPd> Member::pd_of(PdId id) {
    std::erase_if(pds_, [](const auto& known) { return known.second.expired(); });
    if (const auto found = pds_.find(id); found != pds_.end()) {
        return found->second.lock();
    }
    auto pd = host::alloc_pd(port_.device());
    if (pd) {
        pds_[id] = *pd;
    }
    return pd;
}

Result<std::optional<Qpn>> Member::name_qp(const QpSpec& spec) {
    named_qp_.reset();
    auto pd = pd_of(spec.pd);
    if (!pd) {
        return fail(pd.error());
    }
    auto made = HostQp::create(port_.device(), std::move(*pd), port_.completions(), spec);
    if (!made) {
        return fail(made.error());
    }
    if (!is_number(made->number())) {
        return fail(std::errc::io_error);
    }
    named_qp_ = std::move(*made);
    return named_qp_->number();
}

std::optional<HostQp> Member::take(Qpn name) {
    return named_qp_ && named_qp_->number() == name ? std::exchange(named_qp_, std::nullopt)
                                                    : std::nullopt;
}

// Peers name no region that they have no access to. The one before goes last, so that this one gets
// another name.
Result<std::optional<Key>> Member::name_region(const MrSpec& spec, const GuestBuffer& pages,
                                               GuestMemory& memory) {
    if ((spec.access_flags & remote_access) == 0) {
        return std::nullopt;
    }
    auto pd = pd_of(spec.pd);
    if (!pd) {
        return fail(pd.error());
    }
    const std::uint32_t access = spec.access_flags & (remote_access | IBV_ACCESS_LOCAL_WRITE);
    auto made = Region::create(std::move(*pd), memory, pages, spec, access, regions_);
    if (!made) {
        return fail(made.error());
    }
    named_region_ = std::move(*made);
    return named_region_->key();
}

// Peers on the network have no access to a region whose name is not the HCA's.
Result<std::unique_ptr<NetworkRegion>> Member::register_region(const MrSpec& spec,
                                                               const GuestBuffer& pages,
                                                               GuestMemory& memory) {
    if (named_region_ != nullptr && named_region_->key() == spec.key) {
        return std::move(named_region_);
    }
    auto pd = pd_of(spec.pd);
    if (!pd) {
        return fail(pd.error());
    }
    auto made = Region::create(std::move(*pd), memory, pages, spec,
                               spec.access_flags & IBV_ACCESS_LOCAL_WRITE, regions_);
    return made ? Result<std::unique_ptr<NetworkRegion>>{std::move(*made)} : fail(made.error());
}

void Member::note_writes() {
    for (Region* const region : regions_) {
        region->note_writes();
    }
}

// The region stays the guest's. Work that names it fails at the HCA, and with it the QP.
void Member::revoke(Iova first, std::uint64_t length) {
    for (Region* const region : regions_) {
        if (region->is_in(first, length)) {
            region->revoke();
        }
    }
}

// The kernel asks for the Ethernet address of a target that it does not know. So targets on this
// host, and groups, which stay on this host, are not looked for.
Result<std::unique_ptr<NetworkTarget>> Member::find_target(const SliceCore& slice,
                                                           const AhSpec& spec) {
    const vrdma_av& av = spec.av;
    Gid gid;
    std::ranges::copy(av.dgid, gid.begin());
    const GidKey* const source = slice.gid(av.sgid_index);
    if (source == nullptr || is_multicast(gid) ||
        slice.engine().routes().knows({gid, source->type, source->vlan})) {
        return nullptr;
    }
    const auto path = find_source(*port_.device(), slice, av.sgid_index);
    if (!path) {
        port_.log().warn("{}: no GID of it is that of a device", port_.device()->name());
        return fail(path.error());
    }
    auto pd = pd_of(spec.pd);
    if (!pd) {
        return fail(pd.error());
    }
    ibv_ah_attr attr = host_path_of(slice, av, *path);
    auto ah = host::create_ah(**pd, attr);
    return ah ? Result<std::unique_ptr<NetworkTarget>>{std::make_unique<Target>(std::move(*pd),
                                                                                std::move(*ah))}
              : fail(ah.error());
}

} // namespace vrdma::hca::soft::offload
