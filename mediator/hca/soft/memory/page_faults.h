// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The pages that a device's messages wait for, and those that the guest's driver says do not exist.
// A message that touches an absent page is tried again. So this table does not know messages, one
// fault serves all messages that wait for the same pages, and a forgotten fault is noted again.
#pragma once

#include <array>

#include "mediator/hca/soft/common/event_source.h"
#include "mediator/hca/soft/config.h"
#include "mediator/hca/translation.h"
#include "vrdma/queue.h"

namespace vrdma::hca::soft {

// Pages of a region, by their number.
struct PageRange {
    Key key;
    std::uint64_t first = 0;
    std::uint64_t count = 0;

    bool overlaps(const PageRange& other) const noexcept {
        return key == other.key && first < other.first + other.count && other.first < first + count;
    }
};

class PageFaults {
  public:
    // Further faults are noted only when others have been answered.
    static constexpr std::size_t capacity = 64;

    // The first of the pages is absent. Returns VRDMA_VERR_ABSENT while the driver is asked for it.
    // Returns VRDMA_VERR_REVOKED, once, if the driver answered that it does not exist.
    vrdma_vendor_err touch(PageRange pages, bool write) noexcept;

    // The driver's answers.
    void mapped(const PageRange& pages) noexcept;
    void refused(const PageRange& pages) noexcept;
    // The region is gone.
    void forget(Key key) noexcept;
    void forget_all() noexcept;

    // Calls announce(source) for each fault that the driver has not been told of.
    template <typename Announce>
    void tell(Announce&& announce) noexcept {
        for (Fault& fault : faults_) {
            if (fault.state == State::noted) {
                fault.state = State::told;
                announce(fault.source);
            }
        }
    }

  private:
    enum class State : std::uint8_t { none, noted, told, refused };

    struct Fault {
        PageRange pages;
        bool write = false;
        State state = State::none;
        Clock::time_point since;
        EventSource source{0};

        void drop() noexcept {
            state = State::none;
            source.pending = 0;
        }
    };

    // After this time, a fault without an answer is reported again, and a refusal that no message
    // met expires.
    static constexpr std::chrono::seconds resolve_timeout{1};

    Fault* find(const PageRange& pages, bool write) noexcept;
    Fault* find_free() noexcept;
    void note(Fault& fault, const PageRange& pages, bool write) noexcept;

    std::array<Fault, capacity> faults_;
};

} // namespace vrdma::hca::soft
