// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The counters of a slice, of its QPs, and of the sets that QPs are bound to.
#pragma once

#include "mediator/base/result.h"
#include "mediator/base/types.h"
#include "vrdma/device.h"

namespace vrdma::hca {

class Counters {
  public:
    // The slice's counters since it was carved.
    virtual vrdma_counters counters() const = 0;
    // The counters of one of its QPs since the QP was created.
    virtual Result<vrdma_counters> qp_counters(Qpn id) const = 0;

    // A counter set counts, in addition, the events of the QPs that are bound to it. No QP is bound
    // to a set when the set is destroyed.
    virtual Result<> create_counter_set(CounterSetId id) = 0;
    virtual void destroy_counter_set(CounterSetId id) = 0;
    // Applies from now on. If `set` is none, the QP is bound to no set.
    virtual void bind_counter_set(Qpn qp, CounterSetId set) = 0;
    virtual Result<vrdma_counters> set_counters(CounterSetId id) const = 0;
    // The sums over all sets that ever existed.
    virtual vrdma_counters counters_of_sets() const = 0;

  protected:
    ~Counters() = default;
};

} // namespace vrdma::hca
