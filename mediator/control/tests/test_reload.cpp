// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "mediator/control/reload.h"

namespace vrdma::control {
namespace {

using Names = std::vector<std::string>;

constexpr char before[] = R"(
    name = "rack-7"
    log_level = "debug"
    [soft]
    pollers = 2
    [types.small]
    max_qp = 16
    [[vfio_user]]
    name = "a"
    [[vfio_user]]
    name = "b"
    weight = 50
)";

Running running_with(std::string_view text) {
    return {"", std::string{text}, std::nullopt, parse_config(text).value()};
}

TEST(Reload, NothingWaitsWithoutAChange) {
    Running running = running_with(before);
    EXPECT_EQ(take_anew(running, before), Names{});
}

TEST(Reload, SharesAndTheLogLevelChange) {
    Running running = running_with(before);
    const auto wait = take_anew(running, R"(
        name = "rack-7"
        log_level = "warning"
        [soft]
        pollers = 2
        [types.small]
        max_qp = 16
        max_bytes_per_second = 5
        [types.large]
        weight = 200
        [[vfio_user]]
        name = "b"
        [[vfio_user]]
        name = "a"
        max_operations_per_second = 9
    )");
    EXPECT_EQ(wait, Names{});
    const Config& config = running.config;
    EXPECT_EQ(config.log_level, spdlog::level::warn);
    EXPECT_EQ(config.types[0].share, hca::Share{.bytes_per_second = 5});
    EXPECT_EQ(config.types[2].share, hca::Share{.weight = 200});
    const hca::Share a{.bytes_per_second = 5, .operations_per_second = 9};
    EXPECT_EQ(config.vfio_user[0].name, "a");
    EXPECT_EQ(config.vfio_user[0].share, a);
    EXPECT_EQ(config.vfio_user[1].share, hca::Share{.bytes_per_second = 5});
}

TEST(Reload, WhatTakesARestartIsNamedOnceAndStays) {
    Running running = running_with(before);
    constexpr char after[] = R"(
        name = "rack-8"
        mdev = false
        [types.small]
        max_qp = 32
        max_cq = 64
        weight = 7
        [types.tiny]
        weight = 1
        [[vfio_user]]
        name = "a"
        clients = 2
        [[vfio_user]]
        name = "c"
    )";
    const Names all{"mdev",       "name",        "soft",        "types.small",
                    "types.tiny", "vfio_user.a", "vfio_user.b", "vfio_user.c"};
    EXPECT_EQ(take_anew(running, after), all);
    EXPECT_EQ(take_anew(running, after), all);
    const Config& config = running.config;
    EXPECT_EQ(config.name, "rack-7");
    EXPECT_EQ(config.types.size(), 3u);
    EXPECT_EQ(config.types[0].limits.max_qp, 16u);
    EXPECT_EQ(config.types[0].share.weight, 7u);
    ASSERT_EQ(config.vfio_user.size(), 2u);
    EXPECT_EQ(config.vfio_user[0].clients, 1u);
    EXPECT_EQ(config.vfio_user[1].share.weight, 50u);
}

TEST(Reload, TrafficClassesTakeARestart) {
    Running running = running_with(before);
    const auto wait =
        take_anew(running, std::string{before} + "[types.medium]\ntraffic_classes = [\"26\"]");
    EXPECT_EQ(wait, Names{"types.medium"});
    EXPECT_TRUE(running.config.types[1].traffic_classes.none());
}

TEST(Reload, TheLogLevelOfTheCommandLinePrevails) {
    Running running = running_with(before);
    running.log_level = spdlog::level::err;
    ASSERT_TRUE(take_anew(running, before));
    EXPECT_EQ(running.config.log_level, spdlog::level::err);
}

TEST(Reload, AnErrorChangesNothing) {
    Running running = running_with(before);
    const auto wait = take_anew(running, "[types.small]\nweight = 7\nmax_cq = 0");
    ASSERT_FALSE(wait);
    EXPECT_EQ(wait.error().substr(0, 19), "types.small.max_cq:");
    EXPECT_EQ(running.config.types[0].share, hca::Share{});
    EXPECT_EQ(running.config.log_level, spdlog::level::debug);
}

// A file, and the log in the place of that of the process.
class ReloadFile : public testing::Test {
  protected:
    ReloadFile()
        : path_{std::filesystem::temp_directory_path() /
                ("vrdma-reload-" + std::to_string(::getpid()) + ".conf")} {
        write(before);
        running_.path = path_;
        EXPECT_TRUE(start_with_file(running_));
        auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(log_);
        sink->set_pattern("%l %v");
        spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", std::move(sink)));
    }
    ReloadFile(const ReloadFile&) = delete;
    ReloadFile& operator=(const ReloadFile&) = delete;
    ~ReloadFile() override {
        std::filesystem::remove(path_);
        spdlog::set_default_logger(std::move(usual_));
        spdlog::set_level(spdlog::level::info);
    }

    void write(std::string_view text) const { std::ofstream{path_} << text; }
    std::string line(std::string_view text) const {
        return fmt::format("{}\n", fmt::format(fmt::runtime(text), path_.string()));
    }

    std::filesystem::path path_;
    std::shared_ptr<spdlog::logger> usual_ = spdlog::default_logger();
    std::ostringstream log_;
    Running running_;
};

TEST_F(ReloadFile, SaysWhatTakesARestart) {
    write(
        "log_level = \"warning\"\nname = \"x\"\n[soft]\npollers = 2\n[types.small]\nmax_qp = 16\n"
        "[[vfio_user]]\nname = \"a\"\n");
    EXPECT_TRUE(reload(running_));
    EXPECT_EQ(log_.str(), line("warning {}: name has changed, which takes a restart") +
                              line("warning {}: vfio_user.b has changed, which takes a restart"));
    EXPECT_EQ(spdlog::get_level(), spdlog::level::warn);
}

TEST_F(ReloadFile, SaysWhatIsWrong) {
    write("colour = 1");
    EXPECT_FALSE(reload(running_));
    std::filesystem::remove(path_);
    EXPECT_FALSE(reload(running_));
    EXPECT_EQ(log_.str(), line("error {}: colour: unknown; nothing changes") +
                              line("error {}: cannot be read; nothing changes"));
}

} // namespace
} // namespace vrdma::control
