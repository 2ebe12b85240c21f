// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Names of objects that peers on the network use. Mostly the verbs layer chooses them. An HCA whose
// packets are made by hardware with names of its own gives them here.
#pragma once

#include <optional>

#include "mediator/base/result.h"
#include "mediator/base/types.h"
#include "mediator/hca/memory_region.h"
#include "mediator/hca/queue_pair.h"

namespace vrdma::hca {

class Names {
  public:
    // Whether the slice chooses names. Those of a device that was restored may then be any: a slice
    // that did not choose a name gives peers on the network no access by it.
    virtual bool chooses_names() const { return false; }
    // The name of the object that is created with that spec, but for its name, in the next call of
    // create_qp() or register_mr(). Nothing: the caller chooses. A name that is not used is given
    // back with the next one.
    virtual Result<std::optional<Qpn>> name_qp(const QpSpec& /*spec*/) { return std::nullopt; }
    virtual Result<std::optional<Key>> name_mr(const MrSpec& /*spec*/) { return std::nullopt; }

  protected:
    ~Names() = default;
};

} // namespace vrdma::hca
