// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The secrets of a connection, see vrdma/fabric.h. Each copy is wiped when it is destroyed.
#pragma once

#include <cstring>

#include "vrdma/fabric.h"

namespace vrdma::wire::fabric {

class Secrets {
  public:
    Secrets() = default;
    explicit Secrets(const vrdma_fabric_secrets& values) : values_{values} {}
    Secrets(const Secrets&) = default;
    Secrets& operator=(const Secrets&) = default;
    ~Secrets() { ::explicit_bzero(&values_, sizeof(values_)); }

    const vrdma_fabric_secrets& get() const { return values_; }
    vrdma_fabric_secrets& get() { return values_; }

  private:
    vrdma_fabric_secrets values_{};
};

} // namespace vrdma::wire::fabric
