// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Hosts of a fabric over the loopback interface. The test's thread acts as all control threads and
// pollers.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/ethernet.h>
#include <sys/timerfd.h>

#include <cstring>
#include <functional>

#include "mediator/wire/bytes.h"
#include "mediator/wire/fabric/connector.h"
#include "mediator/wire/fabric/fabric_uplink.h"
#include "mediator/wire/fabric/tests/authority.h"
#include "mediator/wire/fabric/tests/free_address.h"
#include "mediator/wire/fabric/tests/worker_thread.h"
#include "vrdma/roce.h"

namespace vrdma::wire::fabric {

using Frame = std::vector<std::byte>;

// The hosts' own addresses: 10.0.0.n.
inline Gid gid_of(std::uint8_t n) {
    return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, n};
}

// The part of a RoCE v2 packet that a switch looks at.
inline Frame frame_from(std::uint8_t n, std::size_t size = 100, int fill = 0) {
    Frame frame(size, static_cast<std::byte>(fill));
    store(std::span{frame}, 12, htons(ETHERTYPE_IP));
    vrdma_ipv4 header{};
    const std::array<std::uint8_t, 4> source{10, 0, 0, n};
    std::memcpy(header.source, source.data(), source.size());
    store(std::span{frame}, 14, header);
    return frame;
}

// One host: its poller's side and its control thread's.
struct Host {
    Host(const ConnectorOptions& options, const CredentialFiles& files, EventLoop& loop)
        : handover{*Handover::create()},
          uplink{*FabricUplink::create(handover)},
          connector{*Connector::create(
              options, loop, handover,
              *Handshakes::open(options.name, worker.take_socket(), {files, options.host}, loop))} {
    }

    void add(unsigned number, PeerOptions peer, std::vector<Gid> gids) const {
        uplink->swap_gids(number, gids);
        connector->add(number, std::move(peer));
    }

    bool has(unsigned peer) const { return handover->has(peer); }

    // Returns whether there was room.
    bool send(const Mac& to, const Frame& frame) const {
        const auto room = uplink->prepare(to, 0);
        if (room.empty()) {
            return false;
        }
        std::memcpy(room.data(), frame.data(), frame.size());
        uplink->commit(frame.size());
        uplink->flush();
        return true;
    }

    // Acts as the poller, and collects the frames that have come.
    void poll() {
        for (auto frame = uplink->receive(); !frame.empty(); frame = uplink->receive()) {
            got.emplace_back(frame.begin(), frame.end());
            uplink->release();
        }
    }

    WorkerThread worker;
    std::shared_ptr<Handover> handover;
    std::unique_ptr<FabricUplink> uplink;
    std::unique_ptr<Connector> connector;
    std::vector<Frame> got;
};

class FabricTest : public testing::Test {
  protected:
    // Runs until that is so, and polls the hosts that are named.
    void until(const std::function<bool()>& so, const std::vector<Host*>& polled) {
        constexpr std::chrono::seconds most{60};
        const auto end = Connector::Clock::now() + most;
        const UniqueFd timer{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
        const itimerspec often{{0, 1'000'000}, {0, 1'000'000}};
        ::timerfd_settime(timer.get(), 0, &often, nullptr);
        bool reached = false;
        const auto watch = loop.watch(timer.get(), [&](std::uint32_t) {
            std::uint64_t ticks = 0;
            (void)::read(timer.get(), &ticks, sizeof(ticks));
            for (Host* const host : polled) {
                host->poll();
            }
            reached = so();
            if (reached || Connector::Clock::now() > end) {
                loop.stop();
            }
        });
        ASSERT_TRUE(loop.run());
        ASSERT_TRUE(reached);
    }

    void pass(std::chrono::milliseconds time, const std::vector<Host*>& polled) {
        const auto end = Connector::Clock::now() + time;
        until([&] { return Connector::Clock::now() >= end; }, polled);
    }

    EventLoop loop;
};

} // namespace vrdma::wire::fabric
