// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/jail/crash.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include <csignal>

#include "mediator/base/sanitized.h"
#include "mediator/jail/tests/child.h"

namespace vrdma::jail::test {
namespace {

constexpr int others_status = 42;

// Crash while a library has handlers that end the process in their own way; expect the end by the
// signal.
TEST(CrashTest, EndsByItsSignal) {
    if constexpr (sanitized) {
        GTEST_SKIP() << "sanitizers handle crashes";
    }
    const int status = status_of_child([] {
        for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
            (void)std::signal(signal, [](int) { ::_exit(others_status); });
        }
        take_crashes_back();
        void* const page = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return *static_cast<volatile int*>(page);
    });
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGSEGV);
}

// Hide memory and crash where a core of any size would be dumped; expect no core.
TEST(CrashTest, LeavesNoCore) {
    const int status = status_of_child([] {
        constexpr rlimit any{RLIM_INFINITY, RLIM_INFINITY};
        (void)::setrlimit(RLIMIT_CORE, &any);
        if (!hide_memory()) {
            return 1;
        }
        (void)std::signal(SIGSEGV, SIG_DFL);
        return ::raise(SIGSEGV);
    });
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_FALSE(WCOREDUMP(status));
}

// Another process of the same unprivileged user reads memory that is hidden, and memory that is
// not; expect only the first to be refused.
TEST(CrashTest, HidesMemoryFromItsOwnUser) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "needs another user";
    }
    for (const bool hidden : {false, true}) {
        const int status = exit_status_of_child([&] {
            constexpr uid_t nobody = 65534;
            if (::setresuid(nobody, nobody, nobody) != 0 ||
                ::prctl(PR_SET_DUMPABLE, hidden ? 0L : 1L, 0L, 0L, 0L) != 0 ||
                (hidden && !hide_memory())) {
                return -1;
            }
            int secret = 7;
            int copy = 0;
            const pid_t parent = ::getpid();
            return exit_status_of_child([&] {
                const iovec here{&copy, sizeof(copy)};
                const iovec there{&secret, sizeof(secret)};
                (void)::prctl(PR_SET_DUMPABLE, 1L, 0L, 0L, 0L);
                return ::process_vm_readv(parent, &here, 1, &there, 1, 0) == sizeof(copy) ? 1 : 0;
            });
        });
        EXPECT_EQ(status, hidden ? 0 : 1);
    }
}

} // namespace
} // namespace vrdma::jail::test
