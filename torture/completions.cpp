// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/completions.h"

#include <poll.h>
#include <sched.h>

#include <array>
#include <chrono>

#include "torture/extended.h"

namespace vrdma::torture {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds patience{60};
constexpr int look_again_ms = 100; // interval of checks that the peer is still there
constexpr unsigned looks_before_that = 10000;
constexpr int depth = 512;
constexpr std::uint32_t least_depth = 128; // more CQEs than are ever unpolled

} // namespace

Completions::Completions(const Device& device, Random& random)
    : extended_{random.chance(50)},
      channel_{made(::ibv_create_comp_channel(device.context()), "ibv_create_comp_channel")},
      send_{made_cq(device)},
      receive_{random.chance(50) ? made_cq(device) : nullptr} {}

Cq Completions::made_cq(const Device& device) const {
    return Cq{extended_ ? made(create_extended(device.context(), depth, channel_.get()),
                               "ibv_create_cq_ex")
                        : made(::ibv_create_cq(device.context(), depth, nullptr, channel_.get(), 0),
                               "ibv_create_cq")};
}

int Completions::poll(ibv_cq* cq, std::span<ibv_wc> completions) const {
    return extended_ ? poll_extended(reinterpret_cast<ibv_cq_ex*>(cq), completions)
                     : ::ibv_poll_cq(cq, static_cast<int>(completions.size()), completions.data());
}

bool Completions::poll(const Take& take) const {
    bool found = false;
    for (ibv_cq* const cq : {send_cq(), receive_cq()}) {
        std::array<ibv_wc, 8> completions;
        const int count = poll(cq, completions);
        require(count >= 0, "ibv_poll_cq failed");
        for (int i = 0; i < count; ++i) {
            take(completions[static_cast<std::size_t>(i)]);
            found = true;
        }
    }
    return found;
}

void Completions::resize(Random& random) const {
    for (ibv_cq* const cq : {send_cq(), receive_cq()}) {
        const auto wanted = static_cast<int>(random.between(least_depth, 2 * depth));
        check(::ibv_resize_cq(cq, wanted), "ibv_resize_cq");
        require(cq->cqe >= wanted, "a CQ is smaller than it was to become");
    }
}

bool Completions::empty() const {
    bool empty = true;
    poll([&](const ibv_wc&) { empty = false; });
    return empty;
}

// Returns after an event, or after look_again_ms.
void Completions::await_event() const {
    pollfd descriptor{channel_->fd, POLLIN, 0};
    if (::poll(&descriptor, 1, look_again_ms) == 1) {
        ibv_cq* cq = nullptr;
        void* context = nullptr;
        check(::ibv_get_cq_event(channel_.get(), &cq, &context) != 0 ? errno : 0,
              "ibv_get_cq_event");
        ::ibv_ack_cq_events(cq, 1);
    }
}

void Completions::await(const ControlConnection& control, Random& random,
                        const std::function<bool()>& done, const Take& take) const {
    const bool sleeps = random.chance(50);
    const auto end = Clock::now() + patience;
    for (unsigned empty = 0; !done();) {
        if (poll(take)) {
            empty = 0;
            continue;
        }
        ++empty;
        if (sleeps) {
            check(::ibv_req_notify_cq(send_cq(), 0), "ibv_req_notify_cq");
            check(::ibv_req_notify_cq(receive_cq(), 0), "ibv_req_notify_cq");
            if (!poll(take)) {
                await_event();
            }
        } else {
            ::sched_yield();
        }
        if ((sleeps || empty % looks_before_that == 0) &&
            ((peer_may_die && control.closed()) || Clock::now() > end)) {
            lost_peer("a completion does not come");
        }
    }
}

} // namespace vrdma::torture
