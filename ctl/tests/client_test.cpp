// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/client.h"

#include <gtest/gtest.h>

namespace vrdma::ctl {
namespace {

TEST(Client, ANameIsOneWordOfAPath) {
    EXPECT_EQ(encode("disk-0/3"), "disk-0%2F3");
    EXPECT_EQ(encode("../?#% \n"), "..%2F%3F%23%25%20%0A");
}

TEST(Client, NobodyListens) {
    const auto answer = Client{"/nonexistent/control.sock"}.get("/v1/devices");
    ASSERT_FALSE(answer);
    EXPECT_TRUE(answer.error().unreachable);
    EXPECT_EQ(answer.error().text,
              "/nonexistent/control.sock: vrdmad cannot be reached: No such file "
              "or directory");
}

} // namespace
} // namespace vrdma::ctl
