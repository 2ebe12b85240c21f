// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// MWs: what an MW is made of, what the slice changes of it, and the calls for MWs.
#pragma once

#include <cstdint>

#include "mediator/base/result.h"
#include "mediator/base/types.h"

namespace vrdma::hca {

struct MwSpec {
    Key key;
    PdId pd;
    std::uint32_t type = 0; // enum ibv_mw_type
};

// The binding of a window.
struct MwState {
    std::uint32_t key = 0;    // with its present tag
    std::uint32_t bound = 0;  // 1: bound, and the fields below are set
    std::uint32_t region = 0; // the region's key
    std::uint32_t owner = 0;  // of type 2: the QP
    std::uint32_t access_flags = 0;
    std::uint32_t reserved = 0;
    std::uint64_t address = 0; // in the region
    std::uint64_t length = 0;
};

class MemoryWindows {
  public:
    virtual Result<> allocate_mw(const MwSpec& spec) = 0;
    virtual void deallocate_mw(Key key) = 0;

    virtual MwState save_mw(Key key) const = 0;
    // Called after restore_qp() of its QP.
    virtual Result<> restore_mw(Key key, const MwState& state) = 0;

  protected:
    ~MemoryWindows() = default;
};

} // namespace vrdma::hca
