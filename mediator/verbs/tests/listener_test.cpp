// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

constexpr std::uint64_t service = 0x01061234;

// Two functions of an endport.
class ListenerTest : public VerbsTest {
  protected:
    std::shared_ptr<Endport> endport_ = std::make_shared<Endport>(identity, 2);
    std::unique_ptr<Side> a_ = make(0);
    std::unique_ptr<Side> b_ = make(1);

    std::unique_ptr<Side> make(unsigned function) {
        return std::make_unique<Side>(limits, FunctionId{endport_, function}, registry, *memory);
    }
};

// A device that is alone at its endport listens and stops; expect EOPNOTSUPP, as it need not.
TEST_F(ListenerTest, OneAloneIsAskedAnyway) {
    EXPECT_EQ(objects.listeners.listen(service).error(), std::errc::operation_not_supported);
    EXPECT_EQ(objects.listeners.unlisten(service).error(), std::errc::operation_not_supported);
}

// Both listen to one service; expect the second to be refused until the first has gone.
TEST_F(ListenerTest, OneFunctionListens) {
    EXPECT_TRUE(a_->objects.listeners.listen(service));
    EXPECT_TRUE(a_->slice.services.contains(service));
    EXPECT_EQ(b_->objects.listeners.listen(service).error(), std::errc::address_in_use);
    EXPECT_TRUE(b_->slice.services.empty());
    a_.reset();
    EXPECT_TRUE(b_->objects.listeners.listen(service));
}

// Listen twice and stop twice; expect the function to listen until the second stop, and no longer.
TEST_F(ListenerTest, StopsAsOftenAsItBegan) {
    ListenerTable& listeners = a_->objects.listeners;
    EXPECT_EQ(listeners.unlisten(service).error(), std::errc::invalid_argument);
    EXPECT_TRUE(listeners.listen(service));
    EXPECT_TRUE(listeners.listen(service));
    EXPECT_TRUE(listeners.unlisten(service));
    EXPECT_TRUE(a_->slice.services.contains(service));
    EXPECT_TRUE(listeners.unlisten(service));
    EXPECT_FALSE(a_->slice.services.contains(service));
    EXPECT_TRUE(b_->objects.listeners.listen(service));
    EXPECT_EQ(listeners.unlisten(service).error(), std::errc::invalid_argument);
}

// Listen to no service, and to more than the limit; expect errors, and room again after one stops.
TEST_F(ListenerTest, IsBounded) {
    ListenerTable& listeners = a_->objects.listeners;
    EXPECT_EQ(listeners.listen(0).error(), std::errc::invalid_argument);
    for (std::uint32_t i = 1; i <= limits.max_listener; ++i) {
        ASSERT_TRUE(listeners.listen(i));
    }
    EXPECT_EQ(listeners.listen(service).error(), std::errc::not_enough_memory);
    EXPECT_TRUE(listeners.unlisten(1));
    EXPECT_TRUE(listeners.listen(service));
}

// Save a function that listens to two services, and restore it; expect both services to be its own
// again, and to end after as many stops as before. Restore it while another function has one of the
// services, and with a count of zero; expect errors.
TEST_F(ListenerTest, IsRestored) {
    ASSERT_TRUE(a_->objects.listeners.listen(service));
    ASSERT_TRUE(a_->objects.listeners.listen(service));
    ASSERT_TRUE(a_->objects.listeners.listen(7));
    StateWriter writer;
    a_->objects.listeners.save(writer);
    auto image = writer.take();
    a_ = make(0);
    StateReader reader{image};
    ASSERT_TRUE(a_->objects.listeners.restore(reader));
    EXPECT_TRUE(reader.at_end());
    EXPECT_TRUE(a_->slice.services.contains(7));
    EXPECT_EQ(b_->objects.listeners.listen(service).error(), std::errc::address_in_use);
    EXPECT_TRUE(a_->objects.listeners.unlisten(service));
    EXPECT_TRUE(a_->objects.listeners.unlisten(service));
    ASSERT_TRUE(b_->objects.listeners.listen(service));
    a_ = make(0);
    StateReader again{image};
    EXPECT_EQ(a_->objects.listeners.restore(again).error(), std::errc::address_in_use);
    a_ = make(0);
    b_ = make(1);
    image.at(sizeof(SectionState) + offsetof(ListenerState, count)) = {};
    StateReader none{image};
    EXPECT_EQ(a_->objects.listeners.restore(none).error(), invalid);
}

// Listen when the slice finds no memory; expect the other function to be able to take the service.
TEST_F(ListenerTest, WithoutMemoryNobodyListens) {
    a_->slice.out_of_memory = true;
    EXPECT_THROW(static_cast<void>(a_->objects.listeners.listen(service)), std::bad_alloc);
    EXPECT_EQ(a_->objects.listeners.unlisten(service).error(), std::errc::invalid_argument);
    EXPECT_TRUE(b_->objects.listeners.listen(service));
}

// Make queue pairs on both functions; expect each function to have numbers of its own, and both to
// have the GID.
TEST_F(ListenerTest, FunctionsShareAddressesAndNumbers) {
    for (const auto& side : {a_.get(), b_.get()}) {
        ASSERT_TRUE(side->objects.gids.set(gid_command(0, gid)));
        const auto pd = side->objects.pds.alloc(kernel).value();
        const auto eq = side->objects.eqs.create(eq_command()).value();
        const auto cq = side->objects.cqs.create(cq_command(eq)).value();
        const auto made = side->objects.qps.create(qp_command(pd, cq));
        ASSERT_TRUE(made);
        EXPECT_EQ(made->qpn.value >> 23, side == b_.get() ? 1u : 0u);
    }
}

} // namespace
} // namespace vrdma::verbs
