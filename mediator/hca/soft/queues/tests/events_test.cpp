// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/queues/events.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "mediator/memory/arena_memory.h"
#include "vrdma/event_queue.h"

namespace vrdma::hca::soft {
namespace {

struct CountingHost final : SliceHost {
    void raise(unsigned) noexcept override { ++raised; }
    void fatal(std::string_view) noexcept override {}

    unsigned raised = 0;
};

// Events wait for many queues without room, whose guests do not look. Then one comes for a queue
// with room; expect it to be delivered before the poller may conclude that there is nothing to do.
TEST(Events, WhoHasRoomIsFoundBehindManyWhoHaveNone) {
    constexpr std::uint32_t full = 100;
    constexpr std::uint32_t depth = 16;
    const auto memory = std::move(*ArenaMemory::create((full + 1ull) * VRDMA_PAGE_SIZE));
    CountingHost host;
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

// Two CQs get events, which one interrupt announces, and then one of them another. A consumer that
// has seen an interrupt takes the first two, and no event of an interrupt that it has not seen.
TEST(Events, AreTakenWithTheirInterruptOnly) {
    constexpr unsigned shift = 16;
    static_assert(VRDMA_EQ_SIZE <= 1u << shift);
    const auto memory = std::move(*ArenaMemory::create(std::uint64_t{1} << shift));
    CountingHost host;
    const EqSpec spec{EqId{1}, {{Iova{0}}, shift, 0, VRDMA_EQ_SIZE}, VRDMA_EQ_DEPTH, 0};
    const auto queue = std::move(*EventQueue::create(*memory, QueueFormat::vrdma, host, spec));
    std::array<EventSource, 2> sources{EventSource{1}, EventSource{2}};
    std::uint32_t consumer = 0;
    std::uint32_t interrupts = 0;
    const auto take = [&] {
        std::vector<std::uint32_t> ids;
        vrdma_take_events(
            memory->at(Iova{0}, VRDMA_EQ_SIZE), &consumer, &interrupts,
            [](void* to, __u32, __u32 id, __u64) {
                static_cast<std::vector<std::uint32_t>*>(to)->push_back(id);
                return true;
            },
            &ids);
        return ids;
    };
    for (EventSource& source : sources) {
        source.pending = 1;
        queue->join(source);
    }
    queue->deliver();
    EXPECT_EQ(host.raised, 1u);
    sources[0].pending = 1;
    queue->join(sources[0]);
    queue->deliver();
    EXPECT_EQ(host.raised, 2u);

    EXPECT_TRUE(take().empty());
    interrupts = 1;
    EXPECT_EQ(take(), (std::vector<std::uint32_t>{1, 2}));
    EXPECT_TRUE(take().empty());
    interrupts = 1;
    EXPECT_EQ(take(), std::vector<std::uint32_t>{1});
    interrupts = 1; // without an event, as after a restart
    EXPECT_TRUE(take().empty());
    EXPECT_EQ(interrupts, 0u);
    queue->dismiss();
}

} // namespace
} // namespace vrdma::hca::soft
