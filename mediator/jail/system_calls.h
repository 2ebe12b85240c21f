// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The system calls that a thread, and the threads that it starts, can make (seccomp(2)). There is a
// list for each kind of thread.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "mediator/base/result.h"

namespace vrdma::jail {

// The effect of any other call. If a new libc makes such a call and it is refused (EPERM), only the
// operation that needs it fails, and the kernel's log names the call. If it killed, it would cost
// all guests. For an attacker in the thread, both are the same. Tests kill, so that they find a
// call that the lists lack.
enum class Forbidden : unsigned char { refused, killed, allowed };

// The words for it on command lines.
using ForbiddenWord = std::pair<const char*, Forbidden>;
inline constexpr std::array<ForbiddenWord, 3> forbidden_words{
    {{"refuse", Forbidden::refused}, {"kill", Forbidden::killed}, {"allow", Forbidden::allowed}}};
const char* word_of(Forbidden forbidden) noexcept;
std::optional<Forbidden> parse_forbidden(std::string_view word) noexcept;

// For the whole process. Must be called before it has other threads.
Result<> allow_calls_of_process(Forbidden forbidden) noexcept;
// For a poller, which can make fewer of these calls: it opens, connects and starts nothing, and
// maps nothing to be executed.
Result<> allow_calls_of_poller(Forbidden forbidden) noexcept;

// For a process that only talks to others by IP: it reads files, resolves names, and starts
// threads.
Result<> allow_calls_of_network_client(Forbidden forbidden) noexcept;

// For a process that serves connections of this host's processes, by listening sockets that it was
// given. It opens no socket.
Result<> allow_calls_of_local_server(Forbidden forbidden) noexcept;

// For a process that reads a file with names of users and interfaces.
Result<> allow_calls_of_config_reader(Forbidden forbidden) noexcept;

// For a process that talks by open descriptors only. Besides, it reads files, and loads code.
Result<> allow_calls_of_file_reader(Forbidden forbidden) noexcept;

} // namespace vrdma::jail
