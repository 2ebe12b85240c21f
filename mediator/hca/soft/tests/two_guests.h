// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Two guests on one soft HCA, whose poller is the test's own thread. The HCA executes a test's
// requests when the test waits, so everything happens in a defined order.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <vector>

#include "mediator/hca/soft/soft_hca.h"
#include "mediator/hca/soft/transport/roce/tests/cable.h"
#include "mediator/tests/guest/guest.h"

namespace vrdma::test {

// The whole suite also runs with the guests on different pollers.
inline unsigned pollers() {
    const char* count = std::getenv("VRDMA_TEST_POLLERS"); // NOLINT(concurrency-mt-unsafe)
    return count != nullptr ? static_cast<unsigned>(std::atoi(count)) : 1; // NOLINT(cert-err34-c)
}

// It also runs with each guest on a host of its own.
inline bool across_hosts() {
    return std::getenv("VRDMA_TEST_HOSTS") != nullptr; // NOLINT(concurrency-mt-unsafe)
}

// Two guests, on one host or each on its own.
struct GuestPair {
    static constexpr char cable[] = "cable";

    explicit GuestPair(bool apart, const hca::soft::Config& config = {}, Cable::Weather there = {},
                       Cable::Weather back = {}, const PKeys& pkeys = {default_pkey})
        : apart_{apart},
          hca_{make_hca(config)},
          other_hca_{make_hca(config)},
          uplink_{apart ? connect_hosts(std::move(there), std::move(back)) : ""},
          pkeys_{pkeys} {}

    std::string connect_hosts(Cable::Weather there, Cable::Weather back) {
        auto [end, other_end] = Cable::lay(std::move(there), std::move(back));
        EXPECT_TRUE(hca_->add_uplink(cable, std::move(end)));
        EXPECT_TRUE(other_hca_->add_uplink(cable, std::move(other_end)));
        for (auto* host : {hca_.get(), other_hca_.get()}) {
            host->with_port(cable, [](hca::soft::roce::Port& port) {
                for (const std::uint8_t prefix : {0x00, 0xfd}) {
                    for (const std::uint8_t n : {1, 2}) {
                        hca::Gid gid = ipv4_gid(n);
                        gid[0] = prefix;
                        port.set_neighbour(gid, wire::Mac{2, 0, 0, 0, 0, n});
                    }
                }
            });
        }
        return cable;
    }

    // A round of all pollers.
    bool poll() {
        const bool worked = hca_->poll();
        return (apart_ && other_hca_->poll()) || worked;
    }

    static std::unique_ptr<hca::soft::SoftHca> make_hca(hca::soft::Config config) {
        config.threads = false;
        config.pollers = pollers();
        return std::move(*hca::soft::SoftHca::create(config));
    }

    hca::soft::SoftHca& host_of(const Guest& guest) {
        return apart_ && &guest == &b_ ? *other_hca_ : *hca_;
    }

    void connect_pair(GuestQp& a, GuestQp& b) { connect_both(a_, a, b_, b); }

    // The next completion; the test fails if none comes within some seconds.
    Completion wait(GuestCq& cq) {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds{20};
        while (std::chrono::steady_clock::now() < limit) {
            if (const auto completion = cq.poll()) {
                return *completion;
            }
            poll();
        }
        ADD_FAILURE() << "no completion";
        return {};
    }

    // Polls until the engine finds nothing to do for a while. Timers may still run. If a timer is
    // short, a slow engine (ThreadSanitizer) finds it expired each time.
    void settle() {
        constexpr int quiet_rounds = 40;
        constexpr int most_rounds = 20000;
        for (int quiet = 0, rounds = 0; quiet < quiet_rounds && rounds < most_rounds; ++rounds) {
            quiet = poll() ? 0 : quiet + 1;
        }
    }

    // Polls for so long.
    void pass(std::chrono::nanoseconds time) {
        using Clock = std::chrono::steady_clock;
        for (const auto end = Clock::now() + time; Clock::now() < end;) {
            poll();
        }
    }

    // Returns the guest's events after the engine has come to rest.
    std::vector<Event> events(Guest& guest) {
        settle();
        std::vector<Event> found;
        while (const auto event = guest.eq().poll()) {
            found.push_back(*event);
        }
        return found;
    }

    // Polls until the first piece of a message has arrived in a buffer that held zeros.
    void await_begin(Buffer& to) {
        for (int i = 0; i < 1000 && *to.at(0) == std::byte{}; ++i) {
            poll();
        }
        ASSERT_NE(*to.at(0), std::byte{});
    }

    const bool apart_;
    std::unique_ptr<hca::soft::SoftHca> hca_;
    std::unique_ptr<hca::soft::SoftHca> other_hca_; // b's, if they are on two hosts
    const std::string uplink_;                      // that each host is bound to
    const PKeys pkeys_;                             // of both guests
    Guest a_{*hca_, "a", ipv4_gid(1), Guest::default_memory(), {}, uplink_, {}, {}, pkeys_};
    Guest b_{apart_ ? *other_hca_ : *hca_,
             "b",
             ipv4_gid(2),
             Guest::default_memory(),
             {},
             uplink_,
             {},
             {},
             pkeys_};
    GuestCq a_cq_ = a_.create_cq();
    GuestCq b_cq_ = b_.create_cq();
};

class TwoGuests : public ::testing::Test, protected GuestPair {
  protected:
    explicit TwoGuests(const hca::soft::Config& config = {}, Cable::Weather there = {},
                       Cable::Weather back = {}, const PKeys& pkeys = {default_pkey})
        : GuestPair{across_hosts(), config, std::move(there), std::move(back), pkeys} {}
};

// A connected pair of QPs and a region on each side.
class ConnectedPair : public TwoGuests {
  protected:
    explicit ConnectedPair(hca::QpType type = hca::QpType::rc, const hca::soft::Config& config = {})
        : TwoGuests{config},
          a_qp_{a_.create_qp(a_cq_, a_cq_, {.type = type})},
          b_qp_{b_.create_qp(b_cq_, b_cq_, {.type = type})} {
        connect_pair(a_qp_, b_qp_);
    }

    GuestQp a_qp_;
    GuestQp b_qp_;
    MemoryRegion a_mr_ = a_.register_mr(1 << 16);
    MemoryRegion b_mr_ = b_.register_mr(1 << 16);
};

} // namespace vrdma::test
