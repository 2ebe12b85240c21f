// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// All pollers of an HCA. On the control thread.
#pragma once

#include <vector>

#include "mediator/hca/soft/poller.h"

namespace vrdma::hca::soft {

class Pollers {
  public:
    static Result<std::unique_ptr<Pollers>> create(const Config& config);
    Pollers(const Pollers&) = delete;
    Pollers& operator=(const Pollers&) = delete;
    ~Pollers();

    // The one with the fewest slices.
    Poller& quietest() noexcept;

    // Executes call(engine) on each.
    template <typename Call>
    void run_on_all(Call&& call) {
        for (const auto& poller : pollers_) {
            poller->run(call);
        }
    }

    // Waits until no other poller touches what this one's slices had lent out.
    void drain(Poller& poller);
    void drain_all();

    // Without threads: one round of each.
    bool poll() noexcept;

  private:
    explicit Pollers(bool threads) : threads_{threads} {}

    const bool threads_;
    std::vector<std::unique_ptr<Poller>> pollers_;
};

} // namespace vrdma::hca::soft
