// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/slice/doorbells.h"

#include <algorithm>
#include <utility>

#include "mediator/hca/soft/slice/scheduler.h"
#include "mediator/memory/shared_words.h"

namespace vrdma::hca::soft {
namespace {

// Calls found(n) for each byte n of a cache line that is not zero.
template <typename Found>
void for_each_set(const std::uint8_t* line, Found&& found) noexcept {
    const auto* words = reinterpret_cast<const std::uint64_t*>(line);
    for (std::size_t word = 0; word < 8; ++word) {
        if (load_acquire(words[word]) == 0) {
            continue;
        }
        for (std::size_t i = word * 8; i < word * 8 + 8; ++i) {
            if (load_acquire(line[i]) != 0) {
                found(i);
            }
        }
    }
}

void join(QueuePair*& last, QueuePair& qp) noexcept {
    if (last == nullptr) {
        qp.slot_ring = {&qp, &qp, true};
    } else {
        QueuePair* const first = last->slot_ring.next;
        qp.slot_ring = {first, last, true};
        first->slot_ring.previous = &qp;
        last->slot_ring.next = &qp;
    }
    last = &qp;
}

void leave(QueuePair*& last, QueuePair& qp) noexcept {
    const ListHook<QueuePair> hook = std::exchange(qp.slot_ring, {});
    hook.previous->slot_ring.next = hook.next;
    hook.next->slot_ring.previous = hook.previous;
    if (last == &qp) {
        last = hook.previous != &qp ? hook.previous : nullptr;
    }
}

} // namespace

void DoorbellWatch::add(Doorbells& doorbells) noexcept {
    watched_.push_back(&doorbells);
}

void DoorbellWatch::remove(Doorbells& doorbells) noexcept {
    std::erase(watched_, &doorbells);
}

bool DoorbellWatch::scan_some() noexcept {
    constexpr std::size_t most = 4;
    bool rung = false;
    for (std::size_t i = 0; i < std::min(most, pages_); ++i) {
        next_ = next_ + 1 < watched_.size() ? next_ + 1 : 0;
        rung |= watched_[next_]->scan_next();
    }
    return rung;
}

void DoorbellWatch::begin_pass() noexcept {
    for (Doorbells* const doorbells : watched_) {
        doorbells->begin_pass();
    }
}

bool DoorbellWatch::pass_some() noexcept {
    constexpr unsigned most = 64;
    unsigned scanned = 0;
    for (Doorbells* const doorbells : watched_) {
        for (; !doorbells->passed(); ++scanned) {
            if (scanned == most) {
                return false;
            }
            doorbells->scan_next();
        }
    }
    return true;
}

Doorbells::Pages::iterator Doorbells::find(const vrdma_doorbell_page& shared) noexcept {
    return std::ranges::find(pages_, &shared, [](const auto& page) { return page->shared; });
}

void Doorbells::add(std::unique_ptr<Page> page) {
    pages_.push_back(std::move(page));
    if (pages_.size() == 1) {
        watch_.add(*this);
    }
    watch_.page_added();
}

std::uint32_t Doorbells::attach(vrdma_doorbell_page& shared, QueuePair& qp) {
    constexpr std::uint32_t slots = VRDMA_DOORBELL_SLOTS - VRDMA_DOORBELL_FIRST_SLOT;
    const auto page = find(shared);
    const std::uint32_t attached = page != pages_.end() ? (*page)->attached : 0;
    const std::uint32_t slot = VRDMA_DOORBELL_FIRST_SLOT + attached % slots;
    static_cast<void>(attach(shared, qp, slot));
    return slot;
}

// Scanning of a new page begins only after all allocations have succeeded.
Result<> Doorbells::attach(vrdma_doorbell_page& shared, QueuePair& qp, std::uint32_t slot) {
    if (slot < VRDMA_DOORBELL_FIRST_SLOT || slot >= VRDMA_DOORBELL_SLOTS) {
        return fail(std::errc::invalid_argument);
    }
    const auto found = find(shared);
    std::unique_ptr<Page> fresh = found == pages_.end() ? std::make_unique<Page>() : nullptr;
    Page& page = fresh ? *fresh : **found;
    auto& line = page.lines[slot / slots_per_line];
    if (!line) {
        line = std::make_unique<Line>();
    }
    if (fresh) {
        page.shared = &shared;
        add(std::move(fresh));
    }
    join((*line)[slot % slots_per_line], qp);
    qp.doorbell_slot = slot;
    ++page.attached;
    ++page.queue_pairs;
    return {};
}

void Doorbells::detach(vrdma_doorbell_page& shared, QueuePair& qp) noexcept {
    const auto found = find(shared);
    if (found == pages_.end() || qp.doorbell_slot == 0) { // it never had one
        return;
    }
    Page& page = **found;
    QueuePair*& ring = ring_of(page, qp.doorbell_slot);
    if (page.round.end == &qp) {
        page.round.end = qp.slot_ring.previous;
    }
    leave(ring, qp);
    if (ring == nullptr && page.round.slot == qp.doorbell_slot) {
        page.round = {};
    }
    qp.doorbell_slot = 0;
    if (--page.queue_pairs == 0) {
        pages_.erase(found);
        watch_.page_removed();
    }
    if (pages_.empty()) {
        watch_.remove(*this);
    }
    begin_pass(); // the pages' indices have changed
}

bool Doorbells::scan_next() noexcept {
    next_ = next_ < pages_.size() ? next_ : 0;
    const Found found = scan(*pages_[next_]);
    ++next_;
    if (found == Found::some) {
        left_ = left_ != 0 ? pages_.size() : 0; // a pass must reach this page once more
    } else {
        left_ -= std::min<std::size_t>(left_, 1);
    }
    return found != Found::nothing;
}

// A producer stores its WQE, then its slot, then the line's byte. So the poller clears the line's
// byte before it reads the slots, and a slot before it reads the WQE.
Doorbells::Found Doorbells::scan(Page& page) noexcept {
    std::size_t left = queue_pairs_a_turn;
    go_on(page, left);
    if (page.round.slot != 0) {
        return Found::some;
    }
    std::array<std::uint8_t, lines_per_page> rung;
    std::size_t count = 0;
    for_each_set(page.shared->line,
                 [&](std::size_t line) { rung[count++] = static_cast<std::uint8_t>(line); });
    if (count == 0) {
        return left < queue_pairs_a_turn ? Found::all : Found::nothing;
    }
    const auto lines = std::span{rung}.first(count);
    std::rotate(lines.begin(), std::ranges::lower_bound(lines, page.next_line), lines.end());
    const auto looked_at = lines.first(std::min(count, lines_per_turn));
    page.next_line = static_cast<std::uint8_t>(looked_at.back() + 1);
    for (const std::uint8_t line : looked_at) {
        store_relaxed(page.shared->line[line], std::uint8_t{0});
    }
    full_fence();
    bool all = count <= lines_per_turn;
    for (const std::uint8_t line : looked_at) {
        if (!scan_line(page, line, left)) {
            store_relaxed(page.shared->line[line], std::uint8_t{1});
            all = false;
        }
    }
    full_fence();
    return all && page.round.slot == 0 ? Found::all : Found::some;
}

bool Doorbells::scan_line(Page& page, std::size_t line, std::size_t& left) noexcept {
    if (!page.lines[line]) {
        return true; // no QP has a slot there, as in line 0
    }
    bool all = true;
    std::uint8_t* slots = page.shared->slot + line * slots_per_line;
    for_each_set(slots, [&](std::size_t slot) {
        if (left == 0) {
            all = false;
            return;
        }
        store_relaxed(slots[slot], std::uint8_t{0});
        const std::size_t number = line * slots_per_line + slot;
        if (const QueuePair* const last = ring_of(page, number); last != nullptr) {
            page.round = {number, last};
            go_on(page, left);
        }
    });
    return all;
}

// If the slot was rung again, all of its QPs are woken once more.
void Doorbells::go_on(Page& page, std::size_t& left) noexcept {
    if (page.round.slot == 0) {
        return;
    }
    std::uint8_t& rung = page.shared->slot[page.round.slot];
    QueuePair*& last = ring_of(page, page.round.slot);
    if (load_acquire(rung) != 0) {
        store_relaxed(rung, std::uint8_t{0});
        full_fence();
        page.round.end = last;
    }
    while (left != 0 && page.round.slot != 0) {
        last = last->slot_ring.next;
        --left;
        scheduler_.wake(*last);
        if (last == page.round.end) {
            page.round = {};
        }
    }
}

} // namespace vrdma::hca::soft
