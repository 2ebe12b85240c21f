// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A slice at its port to the host's HCA. The HCA names QPs and regions as it makes them, so they
// are made before the verbs layer makes the guest's.
#pragma once

#include <unordered_map>

#include "mediator/hca/soft/transport/offload/host_qp.h"
#include "mediator/hca/soft/transport/offload/region.h"

namespace vrdma::hca::soft::offload {

class Port;

class Target final : public NetworkTarget {
  public:
    Target(SharedPd pd, host::Ah ah) : pd_{std::move(pd)}, ah_{std::move(ah)} {}
    ibv_ah* ah() const noexcept { return ah_.get(); }

  private:
    const SharedPd pd_; // that of the QPs that may use it
    const host::Ah ah_;
};

class Member final : public NetworkMember {
  public:
    explicit Member(Port& port) : port_{port} {}

    bool chooses_names() const noexcept override { return true; }
    Result<std::optional<Qpn>> name_qp(const QpSpec& spec) override;
    Result<std::optional<Key>> name_region(const MrSpec& spec, const GuestBuffer& pages,
                                           GuestMemory& memory) override;
    Result<std::unique_ptr<NetworkRegion>> register_region(const MrSpec& spec,
                                                           const GuestBuffer& pages,
                                                           GuestMemory& memory) override;
    Result<std::unique_ptr<NetworkTarget>> find_target(const SliceCore& slice,
                                                       const AhSpec& spec) override;

    void note_writes() override;
    void revoke(Iova first, std::uint64_t length) override;

    // The QP that has got that name; nothing if none has.
    std::optional<HostQp> take(Qpn name);

  private:
    Result<SharedPd> pd_of(PdId id);

    Port& port_;
    // Each guest's PD has one at the HCA, as long as something is in it. So no key of one is good
    // for a QP of another.
    std::unordered_map<PdId, std::weak_ptr<host::Pd>> pds_;
    std::optional<HostQp> named_qp_;
    Regions regions_;
    std::unique_ptr<Region> named_region_;
};

} // namespace vrdma::hca::soft::offload
