// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What cannot be taken back is done by a process of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace vrdma::jail::test {

// How the child ended that did this, as waitpid() tells. It exits with what is returned.
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
