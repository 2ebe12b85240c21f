// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The guest's end of an event queue.
#pragma once

#include <optional>

#include "mediator/memory/shared_words.h"
#include "mediator/tests/guest/buffer.h"
#include "vrdma/device.h"

namespace vrdma::test {

struct Event {
    std::uint32_t type = 0;
    std::uint32_t id = 0;
    std::uint64_t detail = 0;

    friend bool operator==(const Event&, const Event&) = default;
};

class GuestEq {
  public:
    GuestEq(EqId id, Buffer buffer, std::uint32_t depth)
        : id_{id}, buffer_{std::move(buffer)}, depth_{depth} {}

    EqId id() const { return id_; }
    vrdma_eq_control& control() const { return *buffer_.at<vrdma_eq_control>(0); }

    // The next event, if there is one.
    std::optional<Event> poll() {
        const std::uint64_t index = consumer_ & (depth_ - 1);
        const auto& entry =
            *buffer_.at<vrdma_eqe>(sizeof(vrdma_eq_control) + index * sizeof(vrdma_eqe));
        const std::uint32_t header = load_acquire(entry.header);
        const std::uint32_t phase = (consumer_ & depth_) == 0 ? VRDMA_EQE_PHASE : 0;
        if ((header & VRDMA_EQE_PHASE) != phase) {
            return std::nullopt;
        }
        const Event event{VRDMA_GET(VRDMA_EQE_TYPE, header), entry.id, entry.detail};
        store_release(control().consumer, ++consumer_);
        return event;
    }

  private:
    EqId id_;
    Buffer buffer_;
    std::uint32_t depth_;
    std::uint32_t consumer_ = 0;
};

} // namespace vrdma::test
