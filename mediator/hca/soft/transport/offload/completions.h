// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The CQs of a port at the host's HCA. Each QP there has taken as many entries as it may have work
// posted, so no CQ overruns. The control thread adds CQs and takes entries, the poller polls.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "mediator/hca/host/device.h"

namespace vrdma::hca::soft::offload {

class Completions {
    struct Queue {
        host::OwnedCq cq;
        unsigned left; // of its entries; of the control thread
    };

  public:
    Completions(host::SharedDevice device, host::Channel channel)
        : device_{std::move(device)}, channel_{std::move(channel)} {}

    // The entries of a QP in its CQ. The port must outlive it.
    class Share {
      public:
        Share() = default;
        Share(Share&& other) noexcept
            : queue_{std::exchange(other.queue_, nullptr)}, entries_{other.entries_} {}
        Share& operator=(Share&& other) noexcept {
            std::swap(queue_, other.queue_);
            std::swap(entries_, other.entries_);
            return *this;
        }
        Share(const Share&) = delete;
        Share& operator=(const Share&) = delete;
        ~Share() {
            if (queue_ != nullptr) {
                queue_->left += entries_;
            }
        }
        ibv_cq* cq() const noexcept { return queue_->cq.get(); }

      private:
        friend class Completions;
        Share(Queue& queue, unsigned entries) : queue_{&queue}, entries_{entries} {}

        Queue* queue_ = nullptr;
        unsigned entries_ = 0;
    };

    // Control thread. ENOMEM: there are too many already.
    Result<Share> take(unsigned entries);

    int fd() const noexcept { return channel_->fd; }

    // Poller: hands up to `limit` completions of each CQ to take(wc). Returns how many there were.
    // A CQ that cannot be polled is left alone; broken() tells.
    template <typename Take>
    unsigned poll(unsigned limit, Take&& take) noexcept {
        const std::size_t count = count_.load(std::memory_order_acquire);
        unsigned taken = 0;
        for (std::size_t i = 0; i < count; ++i) {
            taken += poll(queues_[i]->cq.get(), limit, take);
        }
        return taken;
    }
    // The same for one CQ.
    template <typename Take>
    unsigned poll(ibv_cq* cq, unsigned limit, Take&& take) noexcept {
        unsigned taken = 0;
        ibv_wc wc;
        for (; taken < limit; ++taken) { // one by one, because take() may poll the rest
            const int found = ibv_poll_cq(cq, 1, &wc);
            broken_ |= found < 0;
            if (found <= 0) {
                break;
            }
            make_valid(wc);
            take(wc);
        }
        return taken;
    }
    bool broken() const noexcept { return broken_; }
    // How many completions a CQ has at most.
    unsigned depth() const noexcept;

    // Poller: the next completion of each CQ wakes it.
    void arm() noexcept;
    // It has been woken.
    void take_events() noexcept;

  private:
    static constexpr std::size_t most = 256;

    // An HCA may have written values that the enumerations do not have.
    static void make_valid(ibv_wc& wc) noexcept;

    Result<Queue*> add();

    const host::SharedDevice device_;
    const host::Channel channel_;
    std::array<std::unique_ptr<Queue>, most> queues_;
    std::atomic<std::size_t> count_{0};
    std::size_t armed_ = 0; // of the first CQs
    bool broken_ = false;
};

} // namespace vrdma::hca::soft::offload
