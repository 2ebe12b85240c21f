// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/base/log.h"

#include <gtest/gtest.h>

#include "mediator/base/tests/captured_log.h"

namespace vrdma {
namespace {

class DeviceLogTest : public testing::Test {
  protected:
    CapturedLog out;
};

TEST_F(DeviceLogTest, LinesNameTheDevice) {
    DeviceLog log{"vm7"};
    log.warn("QP {} failed", 5);
    EXPECT_EQ(out.str(), "warning vm7: QP 5 failed\n");
}

TEST_F(DeviceLogTest, DebugIsQuietByDefault) {
    DeviceLog{"vm7"}.debug("x");
    EXPECT_EQ(out.lines(), 0);
}

TEST_F(DeviceLogTest, AFloodIsCutOff) {
    DeviceLog log{"vm7"};
    for (int i = 0; i < 100000; ++i) {
        log.info("again");
    }
    EXPECT_GE(out.lines(), 50);
    EXPECT_LT(out.lines(), 1000);
}

} // namespace
} // namespace vrdma
