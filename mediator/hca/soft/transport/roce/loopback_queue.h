// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Frames that a port sends to itself. When a message began, the QP's peer was on the network. If
// the peer has moved to this host since, the message ends as it began: in packets.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "mediator/wire/packet.h"

namespace vrdma::hca::soft::roce {

class LoopbackQueue {
  public:
    // Stands for a peer's Ethernet address. A guest that uses it reaches only this queue.
    static constexpr wire::Mac address{0, 0, 0, 0, 0, 1};

    bool empty() const noexcept { return count_ == 0; }
    std::size_t size() const noexcept { return count_; }

    // Room for the next frame; empty if the queue is full.
    std::span<std::byte> prepare() const noexcept {
        return count_ < capacity ? std::span{slot(count_).bytes} : std::span<std::byte>{};
    }
    void commit(std::size_t bytes) noexcept { slot(count_++).size = bytes; }

    // The oldest frame; valid until it is released.
    std::span<const std::byte> front() const noexcept {
        return std::span{slot(0).bytes}.first(slot(0).size);
    }
    void release() noexcept {
        first_ = (first_ + 1) % capacity;
        --count_;
    }

  private:
    static constexpr std::size_t capacity = 64;

    struct alignas(64) Slot {
        std::array<std::byte, wire::max_frame_size> bytes;
        std::size_t size;
    };

    Slot& slot(std::size_t n) const noexcept { return (*slots_)[(first_ + n) % capacity]; }

    std::unique_ptr<std::array<Slot, capacity>> slots_ =
        std::make_unique<std::array<Slot, capacity>>();
    std::size_t first_ = 0;
    std::size_t count_ = 0;
};

} // namespace vrdma::hca::soft::roce
