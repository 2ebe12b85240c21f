// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The doorbell pages that a poller watches: those with a QP in them, one cache line each as long as
// nobody rings. Slices have one page looked at in turn, so whoever has many waits longer for its
// own.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "mediator/base/memory_cost.h"
#include "mediator/hca/soft/queue_pair.h"

namespace vrdma::hca::soft {

class Scheduler;
class Doorbells;

// An engine's: of all its slices.
class DoorbellWatch {
  public:
    // Room for so many slices.
    void reserve(std::size_t slices) { watched_.reserve(slices); }
    void add(Doorbells& doorbells) noexcept;
    void remove(Doorbells& doorbells) noexcept;
    void page_added() noexcept { ++pages_; }
    void page_removed() noexcept { --pages_; }

    // Looks at some pages, of one slice after the other. Returns whether anybody rang.
    bool scan_some() noexcept;
    // Looks at all pages, some at each call. Returns whether all were since begin_pass().
    void begin_pass() noexcept;
    bool pass_some() noexcept;

  private:
    std::vector<Doorbells*> watched_;
    std::size_t next_ = 0;
    std::size_t pages_ = 0;
};

// A slice's.
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

    // A turn looks at no more of a page's lines, and wakes no more QPs: a guest can have all of its
    // QPs share one slot.
    static constexpr std::size_t lines_a_turn = 4;
    static constexpr std::size_t queue_pairs_a_turn = 256;

    // Wakes QPs whose doorbells were rung, on the page whose turn it is. Of one with many only some
    // are, and the others when it is the page's turn again. Returns whether any was.
    bool scan_next() noexcept;
    // From now on each page is to be looked at, until none is left.
    void begin_pass() noexcept { left_ = pages_.size(); }
    bool passed() const noexcept { return left_ == 0; }

    // What a page takes of memory at most: lines stay while it has any QP.
    static constexpr std::uint64_t page_cost() {
        return heap_cost<Page>() + lines_per_page * heap_cost<Line>() + vector_cost<void*>();
    }

  private:
    static constexpr std::size_t lines_per_page = sizeof(vrdma_doorbell_page::line);
    static constexpr std::size_t slots_per_line = 1u << VRDMA_DOORBELL_LINE_SHIFT;

    // The QP of each of a line's slots that was woken last; the slot's others follow in its ring.
    using Line = std::array<QueuePair*, slots_per_line>;

    // A slot whose QPs are being woken, until the last one was. Others of the page wait for that.
    struct Round {
        std::size_t slot = 0; // 0: none
        const QueuePair* end = nullptr;
    };

    struct Page {
        vrdma_doorbell_page* shared = nullptr;
        std::array<std::unique_ptr<Line>, lines_per_page> lines;
        std::uint32_t attached = 0; // ever
        std::uint8_t next_line = 0; // of those that are rung, to look at first
        std::size_t queue_pairs = 0;
        Round round;
    };

    using Pages = std::vector<std::unique_ptr<Page>>;
    Pages::iterator find(const vrdma_doorbell_page& shared) noexcept;
    void add(std::unique_ptr<Page> page);
    enum class Found : std::uint8_t { nothing, all, some };

    // What was rung, as much as a turn allows.
    Found scan(Page& page) noexcept;
    // Wake `left` QPs at most. False: not all of its slots were looked at.
    bool scan_line(Page& page, std::size_t line, std::size_t& left) noexcept;
    void go_on(Page& page, std::size_t& left) noexcept;
    static QueuePair*& ring_of(Page& page, std::size_t slot) noexcept {
        return (*page.lines[slot / slots_per_line])[slot % slots_per_line];
    }

    Scheduler& scheduler_;
    DoorbellWatch& watch_;
    Pages pages_;
    std::size_t next_ = 0; // to scan
    std::size_t left_ = 0; // of a pass
};

} // namespace vrdma::hca::soft
