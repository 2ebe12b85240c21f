// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "bench/relay.h"

#include "bench/cores.h"

namespace vrdma::bench {

Relay::Relay() {
    thread_ = std::thread{[this] {
        pin_to_core(poller_core);
        std::uint64_t last = 0;
        while (!stop_.load(std::memory_order_relaxed)) {
            const std::uint64_t value = in_.get();
            if (value != last) {
                out_.put(value);
                last = value;
            }
        }
    }};
}

Relay::~Relay() {
    stop_.store(true);
    thread_.join();
}

} // namespace vrdma::bench
