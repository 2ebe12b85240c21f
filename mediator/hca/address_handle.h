// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// AHs: what an AH is made of, and the calls for AHs. The slice changes nothing of them.
#pragma once

#include "mediator/base/result.h"
#include "mediator/base/types.h"
#include "vrdma/device.h"

namespace vrdma::hca {

struct AhSpec {
    AhId id;
    PdId pd;
    vrdma_av av{};
};

class AddressHandles {
  public:
    virtual Result<> create_ah(const AhSpec& spec) = 0;
    virtual void destroy_ah(AhId id) = 0;

  protected:
    ~AddressHandles() = default;
};

} // namespace vrdma::hca
