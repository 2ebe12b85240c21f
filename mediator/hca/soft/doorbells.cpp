// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/doorbells.h"

#include <algorithm>

#include "mediator/hca/soft/scheduler.h"
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

} // namespace

Doorbells::Page& Doorbells::page_of(vrdma_doorbell_page& shared) {
    const auto found = std::find_if(pages_.begin(), pages_.end(),
                                    [&](const auto& page) { return page->shared == &shared; });
    if (found != pages_.end()) {
        return **found;
    }
    pages_.push_back(std::make_unique<Page>());
    pages_.back()->shared = &shared;
    return *pages_.back();
}

std::uint32_t Doorbells::attach(vrdma_doorbell_page& shared, QueuePair& qp) {
    constexpr std::uint32_t slots = VRDMA_DOORBELL_SLOTS - VRDMA_DOORBELL_FIRST_SLOT;
    const std::uint32_t slot = VRDMA_DOORBELL_FIRST_SLOT + page_of(shared).attached % slots;
    static_cast<void>(attach(shared, qp, slot));
    return slot;
}

Result<> Doorbells::attach(vrdma_doorbell_page& shared, QueuePair& qp, std::uint32_t slot) {
    if (slot < VRDMA_DOORBELL_FIRST_SLOT || slot >= VRDMA_DOORBELL_SLOTS) {
        return fail(std::errc::invalid_argument);
    }
    Page& page = page_of(shared);
    auto& line = page.lines[slot / slots_per_line];
    if (!line) {
        line = std::make_unique<Line>();
    }
    QueuePair*& first = (*line)[slot % slots_per_line];
    qp.slot_next = first;
    first = &qp;
    qp.doorbell_slot = slot;
    ++page.attached;
    ++page.queue_pairs;
    return {};
}

void Doorbells::detach(vrdma_doorbell_page& shared, QueuePair& qp) noexcept {
    const auto found = std::find_if(pages_.begin(), pages_.end(),
                                    [&](const auto& page) { return page->shared == &shared; });
    if (found == pages_.end()) {
        return;
    }
    Page& page = **found;
    QueuePair** link =
        &(*page.lines[qp.doorbell_slot / slots_per_line])[qp.doorbell_slot % slots_per_line];
    while (*link != &qp) {
        link = &(*link)->slot_next;
    }
    *link = qp.slot_next;
    if (--page.queue_pairs == 0) {
        pages_.erase(found);
    }
}

bool Doorbells::scan_some() noexcept {
    constexpr std::size_t pages_a_round = 4;
    bool rung = false;
    for (std::size_t i = 0; i < std::min(pages_a_round, pages_.size()); ++i) {
        next_ = next_ + 1 < pages_.size() ? next_ + 1 : 0;
        rung |= scan(*pages_[next_]);
    }
    return rung;
}

bool Doorbells::scan_all() noexcept {
    bool rung = false;
    for (const auto& page : pages_) {
        rung |= scan(*page);
    }
    return rung;
}

// A producer stores its WQE, then its slot, then the line's byte; so each is cleared before the one
// it stands for is looked at.
bool Doorbells::scan(Page& page) noexcept {
    std::array<std::uint8_t, lines_per_page> rung;
    std::size_t count = 0;
    for_each_set(page.shared->line, [&](std::size_t line) {
        store_relaxed(page.shared->line[line], std::uint8_t{0});
        rung[count++] = static_cast<std::uint8_t>(line);
    });
    if (count == 0) {
        return false;
    }
    full_fence();
    for (std::size_t i = 0; i < count; ++i) {
        scan_line(page, rung[i]);
    }
    full_fence();
    return true;
}

void Doorbells::scan_line(Page& page, std::size_t line) noexcept {
    if (!page.lines[line]) {
        return; // of no QP; line 0 has none
    }
    std::uint8_t* slots = page.shared->slot + line * slots_per_line;
    for_each_set(slots, [&](std::size_t slot) {
        store_relaxed(slots[slot], std::uint8_t{0});
        for (QueuePair* qp = (*page.lines[line])[slot]; qp != nullptr; qp = qp->slot_next) {
            scheduler_.wake(*qp);
        }
    });
}

} // namespace vrdma::hca::soft
