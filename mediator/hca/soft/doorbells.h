// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The doorbell pages that a poller watches: those with a QP in them, one cache line each as long as
// nobody rings.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "mediator/hca/soft/queue_pair.h"

namespace vrdma::hca::soft {

class Scheduler;

class Doorbells {
  public:
    explicit Doorbells(Scheduler& scheduler) : scheduler_{scheduler} {}

    // Picks a slot in the page for the QP.
    std::uint32_t attach(vrdma_doorbell_page& page, QueuePair& qp);
    // EINVAL if there is no such slot.
    Result<> attach(vrdma_doorbell_page& page, QueuePair& qp, std::uint32_t slot);
    void detach(vrdma_doorbell_page& page, QueuePair& qp) noexcept;

    // Wakes the QPs whose doorbells were rung, on some pages in turn. Returns whether any was.
    bool scan_some() noexcept;
    bool scan_all() noexcept;

  private:
    static constexpr std::size_t lines_per_page = sizeof(vrdma_doorbell_page::line);
    static constexpr std::size_t slots_per_line = 1u << VRDMA_DOORBELL_LINE_SHIFT;

    // The QPs of a line's slots, chained through QueuePair::slot_next.
    using Line = std::array<QueuePair*, slots_per_line>;

    struct Page {
        vrdma_doorbell_page* shared = nullptr;
        std::array<std::unique_ptr<Line>, lines_per_page> lines;
        std::uint32_t attached = 0; // ever
        std::size_t queue_pairs = 0;
    };

    Page& page_of(vrdma_doorbell_page& shared);
    bool scan(Page& page) noexcept;
    void scan_line(Page& page, std::size_t line) noexcept;

    Scheduler& scheduler_;
    std::vector<std::unique_ptr<Page>> pages_;
    std::size_t next_ = 0; // to scan
};

} // namespace vrdma::hca::soft
