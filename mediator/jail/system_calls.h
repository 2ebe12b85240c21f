// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Which system calls a thread, and those that it starts, can make (seccomp(2)): lists of what each
// kind of them needs.
#pragma once

#include "mediator/base/result.h"

namespace vrdma::jail {

// What becomes of any other call. Refused (EPERM), a call that a new libc makes costs what it was
// for, and the kernel's log names it; killed, it would cost all guests. For whoever took the thread
// over both are the same. Tests kill, so that a call that the lists lack is found.
enum class Forbidden : unsigned char { refused, killed, allowed };

// Of the whole process: from before it has other threads.
Result<> allow_calls_of_process(Forbidden forbidden) noexcept;
// Of a poller, of those: nothing is opened, connected, mapped to be executed, or started.
Result<> allow_calls_of_poller(Forbidden forbidden) noexcept;

// Of a process that talks to others by IP, and has nothing else to do: it reads files, resolves
// names, and starts threads.
Result<> allow_calls_of_network_client(Forbidden forbidden) noexcept;

// Of a process that reads a file, and in it names of users and interfaces.
Result<> allow_calls_of_config_reader(Forbidden forbidden) noexcept;

// Of a process that talks by what is open already: besides, it reads files, and loads what is to be
// executed.
Result<> allow_calls_of_file_reader(Forbidden forbidden) noexcept;

} // namespace vrdma::jail
