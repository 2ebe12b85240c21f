// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Runs in a child process what cannot be undone.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace vrdma::jail::test {

// Returns how the child that ran `work` ended, as waitpid() reports it. The child exits with the
// value that `work` returns.
template <typename Work>
int status_of_child(Work&& work) {
    const pid_t child = ::fork();
    EXPECT_GE(child, 0);
    if (child == 0) {
        ::_exit(work());
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
}

template <typename Work>
int exit_status_of_child(Work&& work) {
    const int status = status_of_child(std::forward<Work>(work));
    EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
    return WEXITSTATUS(status);
}

} // namespace vrdma::jail::test
