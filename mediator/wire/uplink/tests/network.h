// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Networks that end with the test: namespaces without a name, joined by a virtual cable.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "mediator/base/unique_fd.h"
#include "mediator/wire/uplink/link.h"

namespace vrdma::wire {

// A network namespace; the thread that makes it is in it from then on.
class Namespace {
  public:
    Namespace() {
        EXPECT_EQ(::unshare(CLONE_NEWNET), 0) << "tests of the network run as root";
        fd_ = UniqueFd{::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)};
        EXPECT_TRUE(fd_);
    }

    void enter() const { ASSERT_EQ(::setns(fd_.get(), CLONE_NEWNET), 0); }
    // The path by which `ip link … netns` finds it.
    std::string path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), fd_.get()); }

  private:
    UniqueFd fd_;
};

// Runs a command, which has to succeed.
inline void run(const std::string& command) {
    // NOLINTNEXTLINE(cert-env33-c): the test's own words
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

inline void ip(const std::string& arguments) {
    run("ip " + arguments);
}

// Returns what a command prints.
inline std::string output_of(const std::string& command) {
    // NOLINTNEXTLINE(cert-env33-c): the test's own words
    std::FILE* pipe = ::popen(command.c_str(), "re");
    std::string output;
    for (int byte = std::getc(pipe); byte != EOF; byte = std::getc(pipe)) {
        output.push_back(static_cast<char>(byte));
    }
    ::pclose(pipe);
    return output;
}

// Two hosts with one cable, `near` here and `far` there. Both ends are up and quiet, and have no
// IPv6 address except those that a test gives them. The test begins in this host.
class TwoHosts : public testing::Test {
  protected:
    TwoHosts() {
        here.enter();
        // The kernel reports a carrier at once if the indices differ, and otherwise within a
        // second.
        ip("link add near index 10 address 02:00:00:00:00:01 mtu 9000 type veth"
           " peer name far index 11 address 02:00:00:00:00:02 mtu 9000 netns " +
           there.path());
        set_up("near");
        there.enter();
        set_up("far");
        wait_until_up("far");
        here.enter();
        wait_until_up("near");
    }

    static void set_up(const std::string& interface) {
        ip("link set lo up");
        ip("link set " + interface + " addrgenmode none");
        ip("link set " + interface + " up");
    }

    // An interface that has just got a carrier loses frames until the kernel has reported it, up to
    // a second later.
    static void wait_until_up(const std::string& interface) {
        for (int i = 0; i < 500 && !read_link(interface).value().up; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds{10});
        }
        EXPECT_TRUE(read_link(interface).value().up) << interface;
    }

    Namespace there;
    Namespace here;
};

} // namespace vrdma::wire
