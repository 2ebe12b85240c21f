// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// All objects of a device together.
#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

class LargeDeviceTest : public VerbsTest {
  protected:
    static constexpr std::uint32_t qps = 65536;
    static constexpr std::uint32_t mrs = 262144;

    static Limits large_limits() {
        Limits limits;
        limits.max_qp = qps;
        limits.max_mr = mrs;
        limits.max_blocks = 1 << 24;
        return limits;
    }

    const Limits large = large_limits();
    Side device{large, identity, registry, *memory};
};

// All objects use the same memory. The test checks that each has its own number, and that the state
// fits.
TEST_F(LargeDeviceTest, HoldsAllThatItsTypePromises) {
    const PdId pd = device.objects.pds.alloc(kernel).value();
    const EqId eq = device.objects.eqs.create(eq_command()).value();
    const Cqn cq = device.objects.cqs.create(cq_command(eq)).value();
    const auto qp = qp_command(pd, cq);
    for (std::uint32_t i = 0; i < qps; ++i) {
        ASSERT_TRUE(device.objects.qps.create(qp));
    }
    EXPECT_EQ(error_of(device.objects.qps.create(qp)), std::errc::not_enough_memory);
    const auto mr = mr_command(pd, 1);
    for (std::uint32_t i = 0; i < mrs; ++i) {
        ASSERT_TRUE(device.objects.mrs.reg(mr));
    }
    EXPECT_EQ(error_of(device.objects.mrs.reg(mr)), std::errc::not_enough_memory);
    EXPECT_EQ(device.slice.qps.size(), qps);
    EXPECT_EQ(device.slice.mrs.size(), mrs);

    device.slice.freeze();
    StateWriter writer;
    device.objects.save(writer);
    EXPECT_LT(writer.take().size(), 1024ull * qps + 128ull * mrs);
}

} // namespace
} // namespace vrdma::verbs
