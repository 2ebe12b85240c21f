// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The producer's side of the waking protocol in vrdma/queue.h.
#pragma once

#include <functional>

#include "mediator/memory/shared_words.h"
#include "vrdma/queue.h"

namespace vrdma::test {

struct Doorbell {
    vrdma_doorbell_page* page = nullptr;
    std::uint32_t slot = 0;
    const vrdma_status_page* status = nullptr;
    std::function<void()> kick; // the trapped store

    void ring() const {
        store_release(page->slot[slot], std::uint8_t{1});
        store_release(page->line[slot >> VRDMA_DOORBELL_LINE_SHIFT], std::uint8_t{1});
        full_fence();
        if (load_acquire(status->need_kick) != 0) {
            kick();
        }
    }

    void announce_sends(const vrdma_qp_control& control) const {
        full_fence();
        if (load_acquire(control.sq_polled) == 0) {
            ring();
        }
    }

    void announce_receives(const vrdma_qp_control& control) const {
        full_fence();
        if (load_acquire(control.rq_wanted) != 0) {
            ring();
        }
    }
};

} // namespace vrdma::test
