// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A guest's memory region at the host's HCA, which reads and writes the guest's pages themselves.
#pragma once

#include "mediator/hca/memory_region.h"
#include "mediator/hca/soft/memory/guest_buffer.h"
#include "mediator/hca/soft/memory/network_region.h"
#include "mediator/hca/soft/transport/offload/host_qp.h"

namespace vrdma::hca::soft::offload {

class Region final : public NetworkRegion {
  public:
    // Pins the pages until the region ends. EOPNOTSUPP for a region whose addresses do not lie in
    // pages as its memory does, and for memory that cannot be pinned.
    static Result<std::unique_ptr<Region>> create(SharedPd pd, GuestMemory& memory,
                                                  const GuestBuffer& pages, const MrSpec& spec,
                                                  unsigned access);

    // By which peers name it.
    Key key() const noexcept { return Key{mr_->rkey}; }

  private:
    Region(SharedPd pd, host::OwnedMr mr)
        : NetworkRegion{mr->lkey}, pd_{std::move(pd)}, mr_{std::move(mr)} {}

    const SharedPd pd_;
    const host::OwnedMr mr_;
};

} // namespace vrdma::hca::soft::offload
