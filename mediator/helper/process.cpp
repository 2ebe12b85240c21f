// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/helper/process.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>

#include "mediator/base/sanitized.h"
#include "mediator/jail/capabilities.h"
#include "mediator/jail/crash.h"
#include "mediator/jail/limits.h"
#include "mediator/jail/writable.h"

namespace vrdma::helper {
namespace {

// A service manager tells all processes of a unit to end. A helper ignores that, because vrdmad
// tells it when to end.
void leave_signals_to_vrdmad() {
    for (const int signal : {SIGPIPE, SIGTERM, SIGINT, SIGHUP}) {
        (void)std::signal(signal, SIG_IGN);
    }
}

// Input is bounded, but the memory that its parser takes is not. take_little() must run before
// hide_memory(): see jail/limits.h.
bool confine(std::size_t memory) {
    return jail::take_little(memory) && jail::hide_memory() && jail::keep_capabilities({}) &&
           (sanitized || jail::write_only_to({})); // sanitizers' reports are files
}

} // namespace

bool become_helper(std::size_t memory) {
    leave_signals_to_vrdmad();
    return ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && confine(memory);
}

int wait_for(pid_t child) {
    int status = -1;
    while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

} // namespace vrdma::helper
