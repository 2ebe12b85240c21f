// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/jail/system_calls.h"

#include <fcntl.h>
#include <net/if.h>
#include <pwd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <csignal>
#include <thread>

#include "mediator/base/event_fd.h"
#include "mediator/base/sanitized.h"
#include "mediator/jail/tests/child.h"

namespace vrdma::jail::test {
namespace {

class SystemCallsTest : public testing::Test {
  protected:
    void SetUp() override {
        if constexpr (sanitized) {
            GTEST_SKIP() << "sanitizers make calls of their own";
        }
    }
};

constexpr std::size_t page = 4096;

void* map(int protection) {
    return ::mmap(nullptr, page, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

bool refused(long result) {
    return result == -1 && errno == EPERM;
}

// Calls that would end, stop or hinder the parent, which runs as the same user.
bool leaves_its_parent_alone(int socket) {
    const pid_t parent = ::getppid();
    const sched_param none{};
    rlimit limit{};
    return refused(::kill(parent, 0)) && refused(::tgkill(parent, parent, 0)) &&
           refused(::sched_setscheduler(parent, SCHED_OTHER, &none)) &&
           refused(::prlimit(parent, RLIMIT_NOFILE, nullptr, &limit)) &&
           refused(::prlimit(0, RLIMIT_NOFILE, &limit, nullptr)) &&
           refused(::fcntl(socket, F_SETOWN, parent)) && refused(::fcntl(socket, F_SETSIG, 0)) &&
           refused(::ioctl(socket, SIOCSPGRP, &parent)) &&
           refused(::ioctl(socket, FIOSETOWN, &parent));
}

bool minds_itself() {
    rlimit limit{};
    return ::tgkill(::getpid(), ::gettid(), 0) == 0 &&
           ::prlimit(0, RLIMIT_NOFILE, nullptr, &limit) == 0;
}

// Do what an attacker does to take over a process: execute, fork, trace, write what is executed,
// use a kind of socket that nobody needs. Expect refusals.
TEST_F(SystemCallsTest, TheProcessBecomesNothingElse) {
    EXPECT_EQ(exit_status_of_child([] {
                  if (!allow_calls_of_process(Forbidden::refused)) {
                      return 1;
                  }
                  void* const code = map(PROT_READ);
                  const bool all =
                      refused(::execl("/bin/true", "true", nullptr)) && refused(::fork()) &&
                      refused(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)) &&
                      map(PROT_WRITE | PROT_EXEC) == MAP_FAILED && code != MAP_FAILED &&
                      refused(::mprotect(code, page, PROT_WRITE | PROT_EXEC)) &&
                      refused(::mprotect(code, page, PROT_READ | PROT_EXEC)) &&
                      refused(::socket(AF_ALG, SOCK_SEQPACKET, 0));
                  return all ? 0 : 2;
              }),
              0);
}

// Start a thread, open a file, an eventfd and a socket, and map memory; expect all to work.
TEST_F(SystemCallsTest, TheProcessDoesItsWork) {
    EXPECT_EQ(exit_status_of_child([] {
                  if (!allow_calls_of_process(Forbidden::killed)) {
                      return 1;
                  }
                  bool ran = false;
                  std::thread{[&] { ran = true; }}.join();
                  const UniqueFd file{::open("/proc/self/status", O_RDONLY | O_CLOEXEC)};
                  const UniqueFd socket{::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)};
                  const bool works = ran && file && EventFd::create() &&
                                     (socket || errno == EAFNOSUPPORT) &&
                                     map(PROT_READ | PROT_WRITE) != MAP_FAILED;
                  return works ? 0 : 2;
              }),
              0);
}

// A poller among other threads opens, connects, executes memory; expect refusals for it alone, and
// that it can do its own work.
TEST_F(SystemCallsTest, APollerOpensNothing) {
    EXPECT_EQ(exit_status_of_child([] {
                  const auto signal = EventFd::create();
                  if (!signal || !allow_calls_of_process(Forbidden::refused)) {
                      return 1;
                  }
                  bool confined = false;
                  std::thread{[&] {
                      confined = allow_calls_of_poller(Forbidden::refused) &&
                                 refused(::open("/dev/null", O_RDONLY | O_CLOEXEC)) &&
                                 refused(::socket(AF_UNIX, SOCK_STREAM, 0)) &&
                                 map(PROT_READ | PROT_EXEC) == MAP_FAILED &&
                                 map(PROT_READ | PROT_WRITE) != MAP_FAILED;
                      signal->signal();
                  }}.join();
                  const UniqueFd file{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
                  return confined && file ? 0 : 2;
              }),
              0);
}

// A network client writes, forks, and calls a daemon of this host; expect refusals. It reads files,
// starts threads, has sockets of IP, and connects two threads; expect all to work.
TEST_F(SystemCallsTest, ANetworkClientOnlyReads) {
    EXPECT_EQ(exit_status_of_child([] {
                  if (!allow_calls_of_network_client(Forbidden::refused)) {
                      return 1;
                  }
                  bool ran = false;
                  std::thread{[&] { ran = true; }}.join();
                  const UniqueFd file{::open("/proc/self/status", O_RDONLY | O_CLOEXEC)};
                  const UniqueFd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
                  std::array<int, 2> ends{};
                  const bool paired =
                      ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0;
                  const bool works = ran && file && socket && paired && minds_itself();
                  const bool confined =
                      refused(::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends.data())) &&
                      leaves_its_parent_alone(socket.get()) &&
                      refused(::open("/dev/null", O_WRONLY | O_CLOEXEC)) &&
                      refused(::open("/tmp/file", O_RDONLY | O_CREAT | O_CLOEXEC, 0600)) &&
                      refused(::unlink("/tmp/file")) && refused(::chmod("/tmp/file", 0600)) &&
                      refused(::fork()) && refused(::execl("/bin/true", "true", nullptr)) &&
                      refused(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)) &&
                      ::socket(AF_UNIX, SOCK_STREAM, 0) == -1 && errno == EAFNOSUPPORT &&
                      refused(::socket(AF_PACKET, SOCK_RAW, 0));
                  return works && confined ? 0 : 2;
              }),
              0);
}

// Read a file, and look up a user and an interface; expect nothing else to be possible.
TEST_F(SystemCallsTest, AReaderOfTheConfigurationOnlyReads) {
    EXPECT_EQ(exit_status_of_child([] {
                  if (!allow_calls_of_config_reader(Forbidden::refused)) {
                      return 1;
                  }
                  const UniqueFd file{::open("/etc/passwd", O_RDONLY | O_CLOEXEC)};
                  const bool works = file && ::getpwnam("root") != nullptr &&
                                     ::if_nametoindex("lo") != 0 && minds_itself();
                  const bool confined = leaves_its_parent_alone(file.get()) &&
                                        refused(::open("/dev/null", O_WRONLY | O_CLOEXEC)) &&
                                        refused(::unlink("/tmp/file")) && refused(::fork()) &&
                                        refused(::execl("/bin/true", "true", nullptr)) &&
                                        refused(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)) &&
                                        refused(::socket(AF_PACKET, SOCK_RAW, 0));
                  return works && confined ? 0 : 2;
              }),
              0);
}

// A file reader opens a socket, writes, forks, and starts a thread; expect refusals. It reads files
// and uses open descriptors; expect both to work.
TEST_F(SystemCallsTest, AFileReaderOnlyReads) {
    EXPECT_EQ(exit_status_of_child([] {
                  std::array<int, 2> ends{};
                  if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()) != 0 ||
                      !allow_calls_of_file_reader(Forbidden::refused)) {
                      return 1;
                  }
                  const UniqueFd file{::open("/proc/self/status", O_RDONLY | O_CLOEXEC)};
                  char byte = 0;
                  const bool works = file && ::send(ends[0], &byte, 1, MSG_NOSIGNAL) == 1 &&
                                     ::recv(ends[1], &byte, 1, 0) == 1 && minds_itself();
                  bool confined = refused(::open("/dev/null", O_WRONLY | O_CLOEXEC)) &&
                                  refused(::unlink("/tmp/file")) && refused(::fork()) &&
                                  refused(::kill(::getppid(), 0)) &&
                                  refused(::execl("/bin/true", "true", nullptr)) &&
                                  refused(::connect(ends[0], nullptr, 0));
                  for (const int family : {AF_INET, AF_INET6, AF_UNIX, AF_NETLINK, AF_PACKET}) {
                      confined = confined && refused(::socket(family, SOCK_STREAM, 0));
                  }
                  return works && confined ? 0 : 2;
              }),
              0);
}

// Make a call that is not on the list, which kills; expect the end by SIGSYS.
TEST_F(SystemCallsTest, WhatIsForbiddenKillsIfItIsTo) {
    const int status = status_of_child([] {
        if (!allow_calls_of_process(Forbidden::killed)) {
            return 1;
        }
        return static_cast<int>(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr));
    });
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGSYS);
}

} // namespace
} // namespace vrdma::jail::test
