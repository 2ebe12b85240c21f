// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The doorbell pages that a poller watches: those with a QP in them. While no doorbell is rung, the
// poller reads one cache line of each page. It scans one page per slice in turn, so the pages of a
// slice with many wait longer.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "mediator/base/memory_cost.h"
#include "mediator/hca/soft/slice/queue_pair.h"

namespace vrdma::hca::soft {

class Scheduler;
class Doorbells;

// One per engine, for all of its slices.
class DoorbellWatch {
  public:
    // Room for so many slices.
    void reserve(std::size_t slices) { watched_.reserve(slices); }
    void add(Doorbells& doorbells) noexcept;
    void remove(Doorbells& doorbells) noexcept;
    void page_added() noexcept { ++pages_; }
    void page_removed() noexcept { --pages_; }

    // Scans some pages, one slice after the other. Returns whether any doorbell was rung.
    bool scan_some() noexcept;
    // A pass scans all pages, some per call of pass_some(). It returns true when all were scanned
    // since begin_pass().
    void begin_pass() noexcept;
    bool pass_some() noexcept;

  private:
    std::vector<Doorbells*> watched_;
    std::size_t next_ = 0;
    std::size_t pages_ = 0;
};

// One per slice.
class Doorbells {
  public:
    Doorbells(Scheduler& scheduler, DoorbellWatch& watch) : scheduler_{scheduler}, watch_{watch} {}
    Doorbells(const Doorbells&) = delete;
    Doorbells& operator=(const Doorbells&) = delete;
    ~Doorbells() = default;

    // Picks a slot in the page for the QP.
    std::uint32_t attach(vrdma_doorbell_page& page, QueuePair& qp);
    // EINVAL if there is no such slot.
    Result<> attach(vrdma_doorbell_page& page, QueuePair& qp, std::uint32_t slot);
    void detach(vrdma_doorbell_page& page, QueuePair& qp) noexcept;

    // The most lines of a page that a turn scans, and the most QPs that it wakes: a guest can have
    // all of its QPs share one slot.
    static constexpr std::size_t lines_per_turn = 4;
    static constexpr std::size_t queue_pairs_a_turn = 256;

    // Wakes QPs whose doorbells were rung, on the page whose turn it is. If there are many, it
    // wakes some of them, and the others in the page's next turns. Returns whether any doorbell was
    // rung.
    bool scan_next() noexcept;
    // Begins a pass over all pages.
    void begin_pass() noexcept { left_ = pages_.size(); }
    bool passed() const noexcept { return left_ == 0; }

    // Upper bound of a page's memory. Its lines stay allocated while the page has any QP.
    static constexpr std::uint64_t page_cost() {
        return heap_cost<Page>() + lines_per_page * heap_cost<Line>() + vector_cost<void*>();
    }

  private:
    static constexpr std::size_t lines_per_page = sizeof(vrdma_doorbell_page::line);
    static constexpr std::size_t slots_per_line = 1u << VRDMA_DOORBELL_LINE_SHIFT;

    // For each slot of a line, the QP that was woken last. The slot's other QPs follow in its ring.
    using Line = std::array<QueuePair*, slots_per_line>;

    // A slot whose QPs are being woken. Other slots of the page wait until its last QP was woken.
    struct Round {
        std::size_t slot = 0; // 0: none
        const QueuePair* end = nullptr;
    };

    struct Page {
        vrdma_doorbell_page* shared = nullptr;
        std::array<std::unique_ptr<Line>, lines_per_page> lines;
        std::uint32_t attached = 0; // QPs so far, of which some may be gone
        std::uint8_t next_line = 0; // first line to scan among the rung ones
        std::size_t queue_pairs = 0;
        Round round;
    };

    using Pages = std::vector<std::unique_ptr<Page>>;
    Pages::iterator find(const vrdma_doorbell_page& shared) noexcept;
    void add(std::unique_ptr<Page> page);
    enum class Found : std::uint8_t { nothing, all, some };

    // Wakes QPs that were rung, as many as a turn allows.
    Found scan(Page& page) noexcept;
    // Both wake at most `left` QPs. scan_line() returns false if it did not look at all slots.
    bool scan_line(Page& page, std::size_t line, std::size_t& left) noexcept;
    void go_on(Page& page, std::size_t& left) noexcept;
    static QueuePair*& ring_of(Page& page, std::size_t slot) noexcept {
        return (*page.lines[slot / slots_per_line])[slot % slots_per_line];
    }

    Scheduler& scheduler_;
    DoorbellWatch& watch_;
    Pages pages_;
    std::size_t next_ = 0; // the page to scan next
    std::size_t left_ = 0; // pages left of a pass
};

} // namespace vrdma::hca::soft
