// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/jail/crash.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <csignal>

#include "mediator/base/errno.h"
#include "mediator/base/sanitized.h"

namespace vrdma::jail {

void take_crashes_back() noexcept {
    if constexpr (!sanitized) {
        for (const int signal :
             {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS, SIGINT, SIGTERM}) {
            (void)std::signal(signal, SIG_DFL);
        }
    }
}

// The limit alone is not enough: the kernel would still pipe a dump to a program.
Result<> hide_memory() noexcept {
    constexpr rlimit none{0, 0};
    if (::prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) != 0 || ::setrlimit(RLIMIT_CORE, &none) != 0) {
        return fail_errno();
    }
    return {};
}

} // namespace vrdma::jail
