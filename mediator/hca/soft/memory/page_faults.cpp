// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/memory/page_faults.h"

#include <algorithm>

namespace vrdma::hca::soft {

// A fault for reading does not serve a writer.
PageFaults::Fault* PageFaults::find(const PageRange& pages, bool write) noexcept {
    const PageRange first{pages.key, pages.first, 1};
    const auto found = std::ranges::find_if(faults_, [&](const Fault& fault) {
        const bool serves =
            fault.state == State::refused ? write || !fault.write : fault.write || !write;
        return fault.state != State::none && serves && fault.pages.overlaps(first);
    });
    return found == faults_.end() ? nullptr : &*found;
}

PageFaults::Fault* PageFaults::find_free() noexcept {
    const auto old = Clock::now() - resolve_timeout;
    const auto found = std::ranges::find_if(faults_, [&](const Fault& fault) {
        return fault.state == State::none || (fault.state == State::refused && fault.since < old);
    });
    return found == faults_.end() ? nullptr : &*found;
}

void PageFaults::note(Fault& fault, const PageRange& pages, bool write) noexcept {
    fault.pages = pages;
    fault.write = write;
    fault.state = State::noted;
    fault.since = Clock::now();
    fault.source.id = pages.key.value;
    fault.source.type = VRDMA_EQE_PAGE_FAULT;
    fault.source.detail = vrdma_fault(pages.first, pages.count, write);
}

vrdma_vendor_err PageFaults::touch(PageRange pages, bool write) noexcept {
    pages.count = std::min<std::uint64_t>(pages.count, VRDMA_FAULT_MAX_PAGES);
    Fault* fault = find(pages, write);
    if (fault == nullptr) {
        fault = find_free();
        if (fault != nullptr) {
            note(*fault, pages, write);
        }
        return VRDMA_VERR_ABSENT;
    }
    const bool fresh = Clock::now() - fault->since < resolve_timeout;
    if (fault->state == State::refused && fresh) {
        fault->drop();
        return VRDMA_VERR_REVOKED;
    }
    if (!fresh) {
        note(*fault, pages, write);
    }
    return VRDMA_VERR_ABSENT;
}

void PageFaults::mapped(const PageRange& pages) noexcept {
    for (Fault& fault : faults_) {
        if (fault.state != State::none && fault.pages.overlaps(pages)) {
            fault.drop();
        }
    }
}

void PageFaults::refused(const PageRange& pages) noexcept {
    const auto asked = std::ranges::find_if(faults_, [&](const Fault& fault) {
        return fault.state != State::none && fault.pages.overlaps(pages);
    });
    Fault* const fault = asked != faults_.end() ? &*asked : find_free();
    if (fault == nullptr) {
        return;
    }
    fault->write = fault->state != State::none && fault->write; // false: readers are refused, too
    fault->source.pending = 0;
    fault->pages = pages;
    fault->state = State::refused;
    fault->since = Clock::now();
}

void PageFaults::forget(Key key) noexcept {
    for (Fault& fault : faults_) {
        if (fault.pages.key == key) {
            fault.drop();
        }
    }
}

void PageFaults::forget_all() noexcept {
    for (Fault& fault : faults_) {
        fault.drop();
    }
}

} // namespace vrdma::hca::soft
