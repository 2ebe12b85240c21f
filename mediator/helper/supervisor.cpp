// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/helper/supervisor.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string_view>

#include "mediator/base/sanitized.h"
#include "mediator/helper/launch.h"
#include "mediator/jail/capabilities.h"
#include "mediator/jail/crash.h"
#include "mediator/jail/limits.h"
#include "mediator/jail/writable.h"

namespace vrdma::helper {
namespace {

constexpr std::chrono::milliseconds pause{1000}; // until a worker is started again

// A service manager tells all processes of a unit to end. vrdmad does so, too, when it is our turn.
void leave_signals_to_vrdmad() {
    for (const int signal : {SIGPIPE, SIGTERM, SIGINT, SIGHUP}) {
        (void)std::signal(signal, SIG_IGN);
    }
}

// An answer has a bound, but not what its parser makes of it.
bool confine() {
    constexpr std::size_t memory = std::size_t{1} << 30;
    return jail::take_little(memory) && jail::hide_memory() && jail::keep_capabilities({}) &&
           (sanitized || jail::write_only_to({})); // sanitizers' reports are files
}

[[noreturn]] void be_worker(pid_t supervisor, jail::Forbidden forbidden, const Duty& duty) {
    const bool confined = ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == supervisor &&
                          duty.confine(forbidden);
    std::exit(confined && duty.work(socket_of_process) ? EXIT_SUCCESS : EXIT_FAILURE);
}

bool socket_ends(std::chrono::milliseconds within) {
    pollfd socket{socket_of_process, POLLRDHUP, 0};
    return ::poll(&socket, 1, static_cast<int>(within.count())) > 0;
}

int supervise(jail::Forbidden forbidden, const Duty& duty) {
    const pid_t supervisor = ::getpid();
    do {
        const pid_t worker = ::fork();
        if (worker == 0) {
            be_worker(supervisor, forbidden, duty);
        }
        int status = 0;
        while (worker > 0 && ::waitpid(worker, &status, 0) < 0 && errno == EINTR) {
        }
    } while (!socket_ends(pause));
    return EXIT_SUCCESS;
}

std::optional<jail::Forbidden> parse_forbidden(std::string_view what) {
    if (what == "refuse") {
        return jail::Forbidden::refused;
    }
    if (what == "kill") {
        return jail::Forbidden::killed;
    }
    return what == "allow" ? std::optional{jail::Forbidden::allowed} : std::nullopt;
}

bool has_socket() {
    int type = 0;
    socklen_t size = sizeof(type);
    return ::getsockopt(socket_of_process, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
           type == SOCK_SEQPACKET;
}

int start(int argc, char** argv, const Duty& duty) {
    const auto forbidden = parse_forbidden(argc == 2 ? argv[1] : "");
    if (!forbidden || !has_socket()) {
        std::cerr << duty.program << " is started by vrdmad: see vrdmad(8)\n";
        return EXIT_FAILURE;
    }
    leave_signals_to_vrdmad();
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || !confine()) {
        return EXIT_FAILURE;
    }
    return supervise(*forbidden, duty);
}

} // namespace

int run(int argc, char** argv, const Duty& duty) {
    jail::take_crashes_back();
    try {
        return start(argc, argv, duty);
    } catch (const std::exception&) {
        return EXIT_FAILURE;
    }
}

} // namespace vrdma::helper
