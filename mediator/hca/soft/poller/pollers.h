// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// All pollers of an HCA. Used on the control thread.
#pragma once

#include <vector>

#include "mediator/hca/soft/poller/address_keeper.h"
#include "mediator/hca/soft/poller/poller.h"
#include "mediator/hca/soft/transport/offload/port.h"
#include "mediator/hca/soft/transport/roce/port.h"

namespace vrdma::hca::soft {

class Pollers {
  public:
    static Result<std::unique_ptr<Pollers>> create(const Config& config);
    Pollers(const Pollers&) = delete;
    Pollers& operator=(const Pollers&) = delete;
    ~Pollers();

    std::size_t count() const noexcept { return pollers_.size(); }
    Poller::Times times(std::size_t poller) const { return pollers_[poller]->times(); }
    // The poller with the fewest slices.
    Poller& quietest() noexcept;

    // Adds a way to the network for the slices that are bound to it. The quietest poller serves it.
    Result<> add_uplink(std::string name, std::unique_ptr<wire::Uplink> uplink,
                        AddressKeeper* keeper);
    // The same by a device of the host's HCA, which is returned. The error is for people.
    tl::expected<host::SharedDevice, std::string> add_host_uplink(const std::string& name,
                                                                  const host::Libibverbs& library,
                                                                  const std::string& device);
    // Replaces the interface of an uplink. The uplink must exist.
    Result<> renew_uplink(const std::string& name, std::unique_ptr<wire::Uplink> uplink);
    // No slice may be bound to it. The uplink must exist.
    void remove_uplink(const std::string& name);
    // The poller that serves it. nullptr: there is no such uplink.
    Poller* find_uplink(const std::string& name) noexcept;
    // Calls call(port) on the thread that serves the uplink. The uplink must exist, and be one of
    // packets.
    template <typename Call>
    void with_port(const std::string& uplink, Call&& call) {
        find_uplink(uplink)->run(
            [&](Engine& engine) { call(static_cast<roce::Port&>(*engine.find_port(uplink))); });
    }
    // The same for a port to the host's HCA.
    template <typename Call>
    void with_host_port(const std::string& uplink, Call&& call) {
        find_uplink(uplink)->run(
            [&](Engine& engine) { call(static_cast<offload::Port&>(*engine.find_port(uplink))); });
    }
    // The keeper of its slices' addresses, or nullptr.
    AddressKeeper* find_keeper(const std::string& uplink) noexcept;

    // Executes call(engine) on each poller.
    template <typename Call>
    void run_on_all(Call&& call) {
        for (const auto& poller : pollers_) {
            poller->run(call);
        }
    }

    // While no device runs, the control thread does the pollers' work: see Poller.
    void borrow();
    void give_back() noexcept;

    // Waits until no other poller touches anything that this poller's slices had lent out.
    void drain(Poller& poller);
    void drain_all();

    // The thread that made the calls has died. Waits until the one that it may have made last has
    // been executed, and this thread can make calls.
    void await_last_call() noexcept {
        for (const auto& poller : pollers_) {
            poller->await_last_call();
        }
    }

    // Without threads: one round of each.
    bool poll() noexcept;
    bool poll(unsigned poller) noexcept { return pollers_[poller]->poll(); }

  private:
    explicit Pollers(bool threads) : threads_{threads} {}
    void start();

    const bool threads_;
    struct Uplink {
        std::string name;
        Poller* poller;
        Poller::Watch watch;
        AddressKeeper* keeper;
    };
    Uplink* find(const std::string& uplink) noexcept;

    std::vector<std::unique_ptr<Poller>> pollers_;
    std::vector<Uplink> uplinks_; // destroyed before the pollers that they wake
};

} // namespace vrdma::hca::soft
