// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/predecessor.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "mediator/control/tests/mortal.h"

namespace vrdma::control::test {
namespace {

constexpr std::chrono::minutes long_enough{1};

class PredecessorTest : public EngineTest {
  protected:
    void SetUp() override {
        EngineTest::SetUp();
        std::ofstream{file_} << "mdev = false\n";
    }
    void TearDown() override { std::filesystem::remove(file_); }

    const std::string file_ =
        testing::TempDir() + "vrdma-predecessor-" + std::to_string(::getpid()) + ".conf";
};

// Start without a file, and with one that nobody has; expect no wait.
TEST_F(PredecessorTest, ThereMayBeNone) {
    EXPECT_FALSE(await_predecessor(file_ + ".none", long_enough));
    EXPECT_TRUE(await_predecessor(file_, long_enough));
}

// Start while another process lives that has the file; expect no wait.
TEST_F(PredecessorTest, IsAlive) {
    std::promise<void> never;
    Mortal other{[&](auto&, const auto& say) {
        const auto lock = await_predecessor(file_, long_enough);
        say("has it");
        never.get_future().wait_for(long_enough);
    }};
    EXPECT_EQ(other.hear(), "has it");
    EXPECT_TRUE(await_predecessor(file_, long_enough));
    other.kill();
    EXPECT_EQ(other.await_death(), SIGKILL);
}

// Start while the heir of a dead process still has the file; expect a wait until the heir has
// ended.
TEST_F(PredecessorTest, HasAnHeir) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const UniqueFd goes{ends[0]};
    UniqueFd go{ends[1]};
    Mortal dead{[&](EngineProcess& engine, const auto& say) {
        const auto lock = await_predecessor(file_, long_enough);
        engine.bequeath([&] {
            say("begins");
            std::array<char, 1> byte{};
            static_cast<void>(!::read(goes.get(), byte.data(), byte.size()));
        });
        die();
    }};
    EXPECT_EQ(dead.hear(), "begins");
    EXPECT_EQ(dead.await_death(), SIGKILL);
    constexpr std::chrono::milliseconds moment{100};
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(await_predecessor(file_, moment)); // gives up
    EXPECT_GE(std::chrono::steady_clock::now() - begin, moment);
    auto waits = std::async(std::launch::async,
                            [&] { return await_predecessor(file_, long_enough) ? 1 : 0; });
    EXPECT_EQ(waits.wait_for(moment), std::future_status::timeout);
    EXPECT_EQ(::write(go.get(), "", 1), 1);
    EXPECT_EQ(waits.get(), 1);
    EXPECT_EQ(dead.hear(), "");
}

} // namespace
} // namespace vrdma::control::test
