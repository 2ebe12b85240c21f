// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The soft HCA: pollers that copy between the buffers of this host's guests.
#pragma once

#include "mediator/hca/soft/config.h"
#include "mediator/hca/soft/pollers.h"

namespace vrdma::hca::soft {

class SoftHca : public Hca {
  public:
    static Result<std::unique_ptr<SoftHca>> create(const Config& config = {});

    Result<std::unique_ptr<Slice>> carve(const SliceSpec& spec, SliceHost& host) override;

    // With Config::threads off: one round. Returns whether there was any work.
    bool poll() noexcept { return pollers_->poll(); }

  private:
    explicit SoftHca(std::unique_ptr<Pollers> pollers) : pollers_{std::move(pollers)} {}

    std::unique_ptr<Pollers> pollers_;
};

} // namespace vrdma::hca::soft
