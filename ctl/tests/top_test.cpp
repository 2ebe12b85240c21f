// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/top.h"

#include <gtest/gtest.h>

namespace vrdma::ctl {
namespace {

using nlohmann::json;

json counted(const char* name, std::uint64_t bytes, std::uint64_t errors = 0) {
    return {{"name", name},
            {"counters", {{"tx_bytes", bytes}, {"local_errors", errors}, {"cq_overruns", errors}}}};
}

TEST(Top, TheBusiestDeviceComesFirst) {
    const json before{{"devices", {counted("a", 100), counted("b", 100)}}};
    const json after{{"devices", {counted("a", 300), counted("b", 5100, 2)}}};
    const json found = rates(before, after, 2);
    EXPECT_EQ(found["seconds"], 2.0);
    ASSERT_EQ(found["devices"].size(), 2u);
    EXPECT_EQ(found["devices"][0]["name"], "b");
    EXPECT_EQ(found["devices"][0]["rates"]["tx_bytes"], 2500.0);
    EXPECT_EQ(found["devices"][1]["rates"]["tx_bytes"], 100.0);
    EXPECT_EQ(
        show_rates(found, 0),
        "Name  TX Bytes/s  RX Bytes/s  TX Msg/s  RX Msg/s  Retries/s  NAKs/s  CNPs/s  Errors/s\n"
        "b     2.50k       0           0         0         0          0       0       2\n"
        "a     100         0           0         0         0          0       0       0\n");
}

// A device comes and one goes; expect neither. One is enabled again, so it counts from 0.
TEST(Top, DevicesComeAndGo) {
    const json before{{"devices", {counted("gone", 100), counted("again", 1000)}}};
    const json after{{"devices", {counted("again", 10), counted("new", 500)}}};
    const json found = rates(before, after, 1);
    ASSERT_EQ(found["devices"].size(), 1u);
    EXPECT_EQ(found["devices"][0]["name"], "again");
    EXPECT_EQ(found["devices"][0]["rates"]["tx_bytes"], 10.0);
}

TEST(Top, NumbersAreShort) {
    const auto shown = [](std::uint64_t bytes) {
        const std::string text = show_rates(
            rates({{"devices", {counted("a", 0)}}}, {{"devices", {counted("a", bytes)}}}, 1), 0);
        return text.substr(text.find("\na") + 7, 6);
    };
    EXPECT_EQ(shown(999), "999   ");
    EXPECT_EQ(shown(1'000), "1.00k ");
    EXPECT_EQ(shown(12'345), "12.3k ");
    EXPECT_EQ(shown(999'499), "999k  ");
    EXPECT_EQ(shown(999'500), "1.00M ");
    EXPECT_EQ(shown(12'000'000'000), "12.0G ");
}

TEST(Top, AnswersOfStrangersAreErrors) {
    EXPECT_THROW(rates({{"devices", {{{"name", "a"}}}}}, {{"devices", json::array()}}, 1),
                 json::exception);
    EXPECT_THROW(rates(json::object(), json::object(), 1), json::exception);
    const json text{{"devices", {{{"name", "a"}, {"counters", {{"tx_bytes", "many"}}}}}}};
    EXPECT_THROW(rates(text, text, 1), json::exception);
}

} // namespace
} // namespace vrdma::ctl
