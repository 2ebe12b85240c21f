// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/jail/capabilities.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/socket.h>

#include "mediator/base/unique_fd.h"
#include "mediator/jail/tests/child.h"

namespace vrdma::jail::test {
namespace {

class CapabilitiesTest : public testing::Test {
  protected:
    void SetUp() override {
        if (::geteuid() != 0) {
            GTEST_SKIP() << "needs capabilities to give up";
        }
    }
};

bool opens_packet_socket() {
    return static_cast<bool>(UniqueFd{::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)});
}

// Keep one; expect that it can be used, and no other.
TEST_F(CapabilitiesTest, OnlyWhatIsKeptStays) {
    EXPECT_EQ(exit_status_of_child([] {
                  const bool kept = keep_capabilities({CAP_NET_RAW}).has_value();
                  return kept && opens_packet_socket() && ::unshare(CLONE_NEWNET) != 0 ? 0 : 1;
              }),
              0);
}

// Keep two; expect these to be reported, together and each, and no other.
TEST_F(CapabilitiesTest, WhatStaysIsToldOf) {
    EXPECT_EQ(exit_status_of_child([] {
                  const bool kept = keep_capabilities({CAP_NET_RAW, CAP_BPF}).has_value();
                  const bool all = has_capabilities({CAP_NET_RAW, CAP_BPF}).value_or(false);
                  const bool more = has_capabilities({CAP_NET_RAW, CAP_CHOWN}).value_or(true);
                  return kept && all && !more ? 0 : 1;
              }),
              0);
}

// Keep none, then one; expect that this does not bring it back.
TEST_F(CapabilitiesTest, WhatIsGoneStaysGone) {
    EXPECT_EQ(exit_status_of_child([] {
                  const bool kept = keep_capabilities({}) && keep_capabilities({CAP_NET_RAW});
                  return kept && !opens_packet_socket() ? 0 : 1;
              }),
              0);
}

// Execute a program as root after that; expect that it has no capabilities either.
TEST_F(CapabilitiesTest, AProgramDoesNotBringThemBack) {
    EXPECT_EQ(exit_status_of_child([] {
                  if (!keep_capabilities({})) {
                      return 1;
                  }
                  ::execl("/bin/sh", "sh", "-c", "grep -q '^CapEff:[^1-9a-f]*$' /proc/self/status",
                          nullptr);
                  return 2;
              }),
              0);
}

} // namespace
} // namespace vrdma::jail::test
