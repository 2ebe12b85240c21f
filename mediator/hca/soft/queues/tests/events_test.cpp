// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/queues/events.h"

#include <gtest/gtest.h>

#include "mediator/memory/arena_memory.h"

namespace vrdma::hca::soft {
namespace {

class NoHost final : public SliceHost {
  public:
    void raise(unsigned) noexcept override {}
    void fatal(std::string_view) noexcept override {}
};

// Events wait for many queues without room, whose guests do not look. Then one comes for a queue
// with room; expect it to be delivered before the poller may conclude that there is nothing to do.
TEST(Events, WhoHasRoomIsFoundBehindManyWhoHaveNone) {
    constexpr std::uint32_t full = 100;
    constexpr std::uint32_t depth = 16;
    const auto memory = std::move(*ArenaMemory::create((full + 1ull) * VRDMA_PAGE_SIZE));
    NoHost host;
    Events events;
    std::vector<std::unique_ptr<EventQueue>> queues;
    std::vector<std::unique_ptr<EventSource>> sources;
    for (std::uint32_t i = 0; i <= full; ++i) {
        const Iova page{std::uint64_t{i} * VRDMA_PAGE_SIZE};
        auto* const control =
            reinterpret_cast<vrdma_eq_control*>(memory->at(page, VRDMA_PAGE_SIZE));
        control->consumer = i < full ? depth : 0; // which looks as if there were no room
        const EqSpec spec{EqId{i + 1}, {{page}, VRDMA_PAGE_SHIFT, 0, VRDMA_PAGE_SIZE}, depth, 0};
        queues.push_back(std::move(*EventQueue::create(*memory, QueueFormat::vrdma, host, spec)));
        sources.push_back(std::make_unique<EventSource>(i));
        events.announce(queues.back().get(), *sources.back(), 0);
    }
    unsigned looks = 0;
    while (events.deliver() && looks < 2 * full) {
        ++looks;
    }
    EXPECT_LT(looks, full);
    EXPECT_TRUE(events.waiting());
    EXPECT_EQ(sources.back()->pending, 0u);
    EXPECT_NE(sources.front()->pending, 0u);
    for (const auto& queue : queues) {
        queue->dismiss();
        events.forget(*queue);
    }
}

} // namespace
} // namespace vrdma::hca::soft
