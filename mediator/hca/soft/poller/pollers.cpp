// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/poller/pollers.h"

#include <algorithm>

#include "mediator/base/errno.h"
#include "mediator/hca/host/opened.h"

namespace vrdma::hca::soft {

Result<std::unique_ptr<Pollers>> Pollers::create(const Config& config) {
    std::unique_ptr<Pollers> pollers{new Pollers{config.threads}};
    for (unsigned i = 0; i < std::max(1u, config.pollers); ++i) {
        auto poller = Poller::create(config);
        if (!poller) {
            return fail(poller.error());
        }
        pollers->pollers_.push_back(std::move(*poller));
    }
    std::vector<CrossQueue*> queues;
    pollers->run_on_all([&](Engine& engine) { queues.push_back(&engine.cross_queue()); });
    CrossQueue::connect(queues);
    if (config.threads) {
        const std::function<void()> start = [&] { pollers->start(); };
        config.in_process ? config.in_process(start) : start();
    }
    return pollers;
}

void Pollers::start() {
    for (unsigned i = 0; i < pollers_.size(); ++i) {
        pollers_[i]->start(i);
    }
}

// A poller that has just answered may still be waking the one that asked. So all stop before any is
// destroyed.
Pollers::~Pollers() {
    for (const auto& poller : pollers_) {
        poller->stop();
    }
}

Poller& Pollers::quietest() noexcept {
    const auto slices = [](const auto& poller) {
        std::size_t count = 0;
        poller->run([&](Engine& engine) { count = engine.slices().size(); });
        return count;
    };
    return **std::min_element(pollers_.begin(), pollers_.end(),
                              [&](const auto& a, const auto& b) { return slices(a) < slices(b); });
}

Result<> Pollers::add_uplink(std::string name, std::unique_ptr<wire::Uplink> uplink,
                             AddressKeeper* keeper) {
    if (find_uplink(name) != nullptr) {
        return fail(std::errc::file_exists);
    }
    Poller& poller = quietest();
    auto watch = poller.watch(uplink->fd());
    if (!watch) {
        return fail(watch.error());
    }
    auto signal = EventFd::create();
    if (!signal) {
        return fail(signal.error());
    }
    poller.run([&](Engine& engine) {
        engine.add_port(name, std::make_unique<roce::Port>(engine, name, std::move(uplink),
                                                           std::move(*signal)));
    });
    uplinks_.push_back({std::move(name), &poller, std::move(*watch), keeper});
    return {};
}

tl::expected<host::SharedDevice, std::string> Pollers::add_host_uplink(
    const std::string& name, const host::Libibverbs& library, const std::string& device_name) {
    give_back(); // a poller's own thread opens the device
    Poller& poller = quietest();
    tl::expected<std::shared_ptr<host::Device>, std::string> device;
    poller.run([&](Engine&) { device = host::open_here(library, device_name); });
    if (!device) {
        return tl::unexpected{device.error()};
    }
    const host::SharedDevice shared = *device;
    const auto attr = shared->port();
    auto channel = host::create_channel(shared);
    auto watch = channel ? poller.watch((*channel)->fd) : fail(channel.error());
    if (!attr || !watch) {
        return tl::unexpected{describe(attr ? watch.error() : attr.error())};
    }
    poller.run([&](Engine& engine) {
        engine.add_port(name, std::make_unique<offload::Port>(
                                  engine, name, shared, std::move(*channel),
                                  mtu_bytes(static_cast<std::uint8_t>(attr->active_mtu))));
    });
    uplinks_.push_back({name, &poller, std::move(*watch), nullptr});
    return shared;
}

Result<> Pollers::renew_uplink(const std::string& name, std::unique_ptr<wire::Uplink> uplink) {
    Uplink& served = *find(name);
    auto watch = served.poller->watch(uplink->fd());
    if (!watch) {
        return fail(watch.error());
    }
    with_port(name, [&](roce::Port& port) { port.renew(uplink); });
    served.watch = std::move(*watch);
    return {};
}

// The poller is not woken by the uplink when its port goes. What the port has open is closed on
// this thread.
void Pollers::remove_uplink(const std::string& name) {
    const auto served = std::ranges::find(uplinks_, name, &Uplink::name);
    served->watch = {};
    std::unique_ptr<NetworkPort> port;
    served->poller->run([&](Engine& engine) { port = engine.remove_port(name); });
    uplinks_.erase(served);
}

Pollers::Uplink* Pollers::find(const std::string& uplink) noexcept {
    const auto found = std::ranges::find(uplinks_, uplink, &Uplink::name);
    return found != uplinks_.end() ? &*found : nullptr;
}

Poller* Pollers::find_uplink(const std::string& name) noexcept {
    const Uplink* const found = find(name);
    return found != nullptr ? found->poller : nullptr;
}

AddressKeeper* Pollers::find_keeper(const std::string& uplink) noexcept {
    const Uplink* const found = find(uplink);
    return found != nullptr ? found->keeper : nullptr;
}

void Pollers::borrow() {
    for (const auto& poller : pollers_) {
        poller->borrow();
    }
}

void Pollers::give_back() noexcept {
    for (const auto& poller : pollers_) {
        poller->give_back();
    }
}

// Pollers that stand still have nothing of each other, because no device runs: either none has
// begun, or all are frozen, which has drained their pollers.
void Pollers::drain(Poller& poller) {
    if (pollers_.size() == 1 || poller.lent()) {
        return;
    }
    unsigned generation = 0;
    poller.run([&](Engine& engine) { generation = engine.cross_queue().begin_drain(); });
    // The wait is bounded by the turns of the pollers that have the cross-poller requests.
    for (bool drained = false; !drained;) {
        if (!threads_) {
            poll();
        }
        poller.run([&](Engine& engine) { drained = engine.cross_queue().drained(generation); });
    }
}

void Pollers::drain_all() {
    for (const auto& poller : pollers_) {
        drain(*poller);
    }
}

bool Pollers::poll() noexcept {
    bool worked = false;
    for (const auto& poller : pollers_) {
        worked |= poller->poll();
    }
    return worked;
}

} // namespace vrdma::hca::soft
