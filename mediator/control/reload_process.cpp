// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/reload_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <exception>

#include "mediator/base/errno.h"
#include "mediator/control/reload_message.h"
#include "mediator/helper/process.h"
#include "mediator/helper/socket.h"

namespace vrdma::control {
namespace {

using Kind = ReloadMessage::Kind;

void send(int socket, const ReloadMessage& message) {
    helper::send(socket, std::as_bytes(std::span{&message, 1}));
}

void tell(int socket, const Changes& changes) {
    ReloadMessage level{};
    level.kind = Kind::log_level;
    level.number = static_cast<std::uint32_t>(changes.log_level);
    send(socket, level);
    for (const auto& [number, share] : changes.types) {
        send(socket, share_message(Kind::type, number, share));
    }
    for (const auto& [number, share] : changes.devices) {
        send(socket, share_message(Kind::device, number, share));
    }
    for (const std::string& name : changes.wait) {
        send(socket, text_message(Kind::wait, name));
    }
    ReloadMessage complete{};
    complete.kind = Kind::complete;
    send(socket, complete);
}

void read_again(int socket, const Running& running) {
    const auto changes = read_config(running.path).and_then([&](const std::string& text) {
        return compare(running, text);
    });
    if (changes) {
        tell(socket, *changes);
    } else {
        send(socket, text_message(Kind::wrong, changes.error()));
    }
}

// SIGALRM ends the reader, because reading may never end (a device) or never begin (a FIFO).
[[noreturn]] void be_reader(int socket, const Running& running,
                            const ReloadProcessOptions& options) {
    (void)std::signal(SIGALRM, SIG_DFL);
    ::alarm(static_cast<unsigned>(options.limit.count()));
    if (!jail::allow_calls_of_config_reader(options.forbidden)) {
        ::_exit(EXIT_FAILURE);
    }
    try {
        read_again(socket, running);
    } catch (const std::exception&) {
        ::_exit(EXIT_FAILURE);
    }
    ::_exit(EXIT_SUCCESS);
}

// Forks a reader for each request, and reads nothing itself. So it survives whatever happens to a
// reader.
void serve(int socket, const Running& running, const ReloadProcessOptions& options) {
    std::array<std::byte, 1> request{};
    while (::recv(socket, request.data(), request.size(), 0) > 0) {
        const pid_t reader = ::fork();
        if (reader == 0) {
            be_reader(socket, running, options);
        }
        if (helper::wait_for(reader) != EXIT_SUCCESS) {
            send(socket, text_message(Kind::wrong, "its reader failed, or took too long"));
        }
    }
}

// Closes all of vrdmad's descriptors but the socket, and stderr, to which a sanitizer or libc would
// report. Returns the socket's descriptor, or -1.
int keep_only(int socket) {
    constexpr int kept = STDERR_FILENO + 1;
    const bool moved = socket == kept || ::dup2(socket, kept) == kept;
    return moved && ::close_range(kept + 1, UINT_MAX, 0) == 0 ? kept : -1;
}

[[noreturn]] void be_process(pid_t vrdmad, int socket, const Running& running,
                             const ReloadProcessOptions& options) {
    constexpr std::size_t memory = std::size_t{256} << 20;
    (void)::prctl(PR_SET_NAME, "vrdmad-reload");
    const bool confined = helper::become_helper(memory) && ::getppid() == vrdmad;
    const int kept = keep_only(socket);
    if (!confined || kept < 0) {
        ::_exit(EXIT_FAILURE);
    }
    serve(kept, running, options);
    ::_exit(EXIT_SUCCESS);
}

} // namespace

Result<UniqueFd> start_reload_process(const Running& running, const ReloadProcessOptions& options) {
    auto ends = helper::open_socket_pair();
    if (!ends) {
        return fail(ends.error());
    }
    const pid_t vrdmad = ::getpid();
    const pid_t process = ::fork();
    if (process < 0) {
        return fail_errno();
    }
    if (process == 0) {
        be_process(vrdmad, ends->its.get(), running, options);
    }
    return std::move(ends->ours);
}

} // namespace vrdma::control
