// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/helper/supervisor.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string_view>

#include "mediator/helper/launch.h"
#include "mediator/helper/process.h"
#include "mediator/jail/crash.h"
#include "mediator/jail/system_calls.h"

namespace vrdma::helper {
namespace {

constexpr std::chrono::milliseconds pause{1000}; // until a worker is started again
constexpr std::size_t memory = std::size_t{1} << 30;

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
        static_cast<void>(wait_for(worker));
    } while (!socket_ends(pause));
    return EXIT_SUCCESS;
}

bool has_socket() {
    int type = 0;
    socklen_t size = sizeof(type);
    return ::getsockopt(socket_of_process, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
           type == SOCK_SEQPACKET;
}

int start(int argc, char** argv, const Duty& duty) {
    const auto forbidden = jail::parse_forbidden(argc == 2 ? argv[1] : "");
    if (!forbidden || !has_socket()) {
        std::cerr << duty.program << " is started by vrdmad: see vrdmad(8)\n";
        return EXIT_FAILURE;
    }
    return become_helper(memory) ? supervise(*forbidden, duty) : EXIT_FAILURE;
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
