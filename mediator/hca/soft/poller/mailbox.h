// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The control thread changes a poller's objects through a mailbox: it hands over a call and waits,
// and the poller executes the call between two rounds. There is one call at a time. A call that
// runs out of memory throws on the control thread, which can answer that (device/out_of_memory.h),
// and not on the poller, which other devices need.
#pragma once

#include <atomic>
#include <cassert>
#include <new>
#include <utility>

namespace vrdma::hca::soft {

class Mailbox {
  public:
    // Called by the control thread. Calls `wake` once the poller can see the call.
    template <typename Call, typename Wake>
    void run(Call&& call, Wake&& wake) {
        bool no_memory = false;
        auto execute = [&] {
            try {
                call();
            } catch (const std::bad_alloc&) {
                no_memory = true;
            }
        };
        Task task{[](void* context) { (*static_cast<decltype(execute)*>(context))(); }, &execute};
        const unsigned ticket = done_.load(std::memory_order_relaxed);
        const Task* other = task_.exchange(&task, std::memory_order_seq_cst);
        assert(other == nullptr && "calls come from the control thread alone");
        static_cast<void>(other);
        wake();
        // The poller mostly answers within a round: sleeping and being woken would take longer.
        constexpr int spins = 4000;
        for (int i = 0; i < spins && done_.load(std::memory_order_acquire) == ticket; ++i) {
            __builtin_ia32_pause();
        }
        done_.wait(ticket, std::memory_order_acquire);
        if (no_memory) {
            throw std::bad_alloc{};
        }
    }

    // Called by the poller. Whether a call waits. A poller that goes to sleep executes a fence
    // before this call, and so misses no call.
    bool pending() const noexcept { return task_.load(std::memory_order_acquire) != nullptr; }

    void serve() {
        const Task* task = task_.load(std::memory_order_acquire);
        if (task == nullptr) {
            return;
        }
        task->invoke(task->context);
        task_.store(nullptr, std::memory_order_relaxed);
        done_.fetch_add(1, std::memory_order_release);
        done_.notify_one();
    }

  private:
    struct Task {
        void (*invoke)(void* context);
        void* context;
    };

    std::atomic<const Task*> task_{nullptr};
    std::atomic<unsigned> done_{0};
};

} // namespace vrdma::hca::soft
