// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <sstream>

#include "mediator/base/log.h"

namespace vrdma {
namespace {

class DeviceLogTest : public testing::Test {
  protected:
    void SetUp() override {
        auto logger = std::make_shared<spdlog::logger>(
            "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
        logger->set_pattern("%l %v");
        previous = spdlog::default_logger();
        spdlog::set_default_logger(logger);
    }
    void TearDown() override { spdlog::set_default_logger(previous); }

    auto lines() const {
        const std::string text = out.str();
        return std::ranges::count(text, '\n');
    }

    std::ostringstream out;
    std::shared_ptr<spdlog::logger> previous;
};

TEST_F(DeviceLogTest, LinesNameTheDevice) {
    DeviceLog log{"vm7"};
    log.warn("QP {} failed", 5);
    EXPECT_EQ(out.str(), "warning vm7: QP 5 failed\n");
}

TEST_F(DeviceLogTest, DebugIsQuietByDefault) {
    DeviceLog{"vm7"}.debug("x");
    EXPECT_EQ(lines(), 0);
}

TEST_F(DeviceLogTest, AFloodIsCutOff) {
    DeviceLog log{"vm7"};
    for (int i = 0; i < 100000; ++i) {
        log.info("again");
    }
    EXPECT_GE(lines(), 50);
    EXPECT_LT(lines(), 1000);
}

} // namespace
} // namespace vrdma
