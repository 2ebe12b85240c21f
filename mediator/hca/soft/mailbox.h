// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// How the control thread changes what a poller owns: it hands over a call, the poller executes it
// between two rounds, the control thread waits. One call at a time. One that finds no memory throws
// on the control thread, where it can be answered (device/out_of_memory.h), and not on the poller,
// which others need.
#pragma once

#include <atomic>
#include <cassert>
#include <new>
#include <utility>

namespace vrdma::hca::soft {

class Mailbox {
  public:
    // Control thread. `wake` is called once the call can be seen.
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
        // The poller answers within a round, mostly: sleeping and being woken would take longer.
        constexpr int spins = 4000;
        for (int i = 0; i < spins && done_.load(std::memory_order_acquire) == ticket; ++i) {
            __builtin_ia32_pause();
        }
        done_.wait(ticket, std::memory_order_acquire);
        if (no_memory) {
            throw std::bad_alloc{};
        }
    }

    // Poller. Whether a call waits; together with the fence of whoever goes to sleep, it misses
    // none.
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
