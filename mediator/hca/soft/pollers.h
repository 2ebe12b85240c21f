// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// All pollers of an HCA. On the control thread.
#pragma once

#include <vector>

#include "mediator/hca/soft/address_keeper.h"
#include "mediator/hca/soft/poller.h"

namespace vrdma::hca::soft {

class Pollers {
  public:
    static Result<std::unique_ptr<Pollers>> create(const Config& config);
    Pollers(const Pollers&) = delete;
    Pollers& operator=(const Pollers&) = delete;
    ~Pollers();

    std::size_t count() const noexcept { return pollers_.size(); }
    // The one with the fewest slices.
    Poller& quietest() noexcept;

    // A way to the network, for the slices that are bound to it; the quietest poller serves it.
    Result<> add_uplink(std::string name, std::unique_ptr<wire::Uplink> uplink,
                        AddressKeeper* keeper);
    // Of one that there is.
    Result<> renew_uplink(const std::string& name, std::unique_ptr<wire::Uplink> uplink);
    // Who serves it; nullptr: there is no such uplink.
    Poller* find_uplink(const std::string& name) noexcept;
    // Who is to know of its slices' addresses, or nullptr.
    AddressKeeper* find_keeper(const std::string& uplink) noexcept;

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
    bool poll(unsigned poller) noexcept { return pollers_[poller]->poll(); }

  private:
    explicit Pollers(bool threads) : threads_{threads} {}

    const bool threads_;
    struct Uplink {
        std::string name;
        Poller* poller;
        Poller::Watch watch;
        AddressKeeper* keeper;
    };
    Uplink* find(const std::string& uplink) noexcept;

    std::vector<std::unique_ptr<Poller>> pollers_;
    std::vector<Uplink> uplinks_; // before the pollers that they wake
};

} // namespace vrdma::hca::soft
