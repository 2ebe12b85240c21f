// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/metrics.h"

#include "fake_mediator.h"
#include "mediator/management/exposition.h"
#include "mediator/management/routes.h"

namespace vrdma::management {
namespace {

TEST(Exposition, WritesFamiliesAndSamples) {
    Exposition out;
    out.family("a_total", Exposition::Type::counter, "Things");
    out.sample("", std::uint64_t{3});
    out.sample(Exposition::labels({{"x", "1"}, {"y", "2"}}), 0.5);
    out.family("b", Exposition::Type::histogram, "Others");
    out.sample("_sum", "", 1e-9);
    EXPECT_EQ(
        std::move(out).take(),
        "# HELP a_total Things\n# TYPE a_total counter\na_total 3\na_total{x=\"1\",y=\"2\"} 0.5\n"
        "# HELP b Others\n# TYPE b histogram\nb_sum 1e-09\n");
}

TEST(Exposition, KeepsCountersExact) {
    Exposition out;
    out.family("a_total", Exposition::Type::counter, "Things");
    out.sample("", std::uint64_t{18446744073709551615u});
    EXPECT_TRUE(std::move(out).take().ends_with("a_total 18446744073709551615\n"));
}

TEST(Exposition, QuotesLabels) {
    EXPECT_EQ(Exposition::labels({{"x", "a\"b\\c\n3"}}), R"(x="a\"b\\c\n3")");
}

class MetricsTest : public testing::Test {
  protected:
    std::string read() {
        const auto text = read_metrics(asker);
        EXPECT_TRUE(text);
        return text.value_or("");
    }

    FakeMediator mediator{3};
    helper::SocketPair ends = std::move(*helper::open_socket_pair());
    ControlThread thread{std::move(ends.ours), {ends.its.get()}, Task{}, mediator};
    Asker asker{ends.its.get()};
};

TEST_F(MetricsTest, HasTheCountersOfDevicesInUse) {
    const std::string text = read();
    EXPECT_NE(text.find("vrdma_device_tx_bytes_total{device=\"disk-0001/0\",uplink=\"blue\"} 7\n"),
              std::string::npos);
    EXPECT_EQ(text.find("vrdma_device_tx_bytes_total{device=\"disk-0000/0\""), std::string::npos)
        << "it is not in use";
}

TEST_F(MetricsTest, HasOneStateOfADevice) {
    const std::string text = read();
    const std::string device = "vrdma_device_state{device=\"disk-0000/0\",uplink=\"\",state=";
    EXPECT_NE(text.find(device + "\"unused\"} 1\n"), std::string::npos);
    EXPECT_NE(text.find(device + "\"active\"} 0\n"), std::string::npos);
}

TEST_F(MetricsTest, BucketsOfAHistogramAccumulate) {
    mediator.activity_of.buckets[0] = {1000, 2};
    mediator.activity_of.buckets[1] = {2000, 3};
    mediator.activity_of.longer = 1;
    mediator.activity_of.sum_ns = 5'000'000'000;
    const std::string text = read();
    for (const char* line : {"_bucket{le=\"1e-06\"} 2\n", "_bucket{le=\"2e-06\"} 5\n",
                             "_bucket{le=\"+Inf\"} 6\n", "_sum 5\n", "_count 6\n"}) {
        EXPECT_NE(text.find(std::string{"vrdma_control_verb_duration_seconds"} + line),
                  std::string::npos)
            << line << text;
    }
}

TEST_F(MetricsTest, TheNetworkGetsNothingElse) {
    const Response metrics =
        answer({.method = "GET", .path = "/metrics", .body = {}, .by_network = true}, asker);
    EXPECT_EQ(metrics.status, 200u);
    EXPECT_STREQ(metrics.content_type, Exposition::content_type);
    for (const char* path : {"/v1/devices", "/v1/log-level", "/", "", "/metrics/"}) {
        EXPECT_EQ(
            answer({.method = "GET", .path = path, .body = {}, .by_network = true}, asker).status,
            403u)
            << path;
    }
}

} // namespace
} // namespace vrdma::management
