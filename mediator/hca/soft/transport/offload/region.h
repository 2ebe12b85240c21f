// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A guest's memory region at the host's HCA, which reads and writes the guest's pages themselves.
#pragma once

#include <unordered_set>

#include "mediator/hca/memory_region.h"
#include "mediator/hca/soft/memory/guest_buffer.h"
#include "mediator/hca/soft/memory/network_region.h"
#include "mediator/hca/soft/transport/offload/host_qp.h"

namespace vrdma::hca::soft::offload {

class Region;
using Regions = std::unordered_set<Region*>;

class Region final : public NetworkRegion {
  public:
    // Pins the pages until the region ends. EOPNOTSUPP for a region whose addresses do not lie in
    // pages as its memory does, and for memory that cannot be pinned.
    static Result<std::unique_ptr<Region>> create(SharedPd pd, GuestMemory& memory,
                                                  const GuestBuffer& pages, const MrSpec& spec,
                                                  unsigned access, Regions& among);
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;
    ~Region() override { among_.erase(this); }

    // By which peers name it.
    Key key() const noexcept { return key_; }

    // Whether a page of it may be in that range.
    bool is_in(Iova first, std::uint64_t length) const;
    // Afterwards the HCA does not touch its pages, and refuses its keys.
    void revoke() { mr_.reset(); }
    void end() override;
    // A VM that moves is asked which pages its device has written, and page tables answer. They do
    // not know what the HCA has written. So this writes to all pages that it could write to, what
    // is there already.
    void note_writes() const noexcept;

  private:
    Region(Regions& among, SharedPd pd, host::OwnedMr mr, GuestBuffer pages, bool writable)
        : NetworkRegion{mr->lkey},
          among_{among},
          key_{mr->rkey},
          pages_{std::move(pages)},
          writable_{writable},
          pd_{std::move(pd)},
          mr_{std::move(mr)} {
        among_.insert(this);
    }

    Regions& among_; // those of its slice
    const Key key_;
    const GuestBuffer pages_;
    const bool writable_;
    const SharedPd pd_;
    host::OwnedMr mr_;
};

} // namespace vrdma::hca::soft::offload
