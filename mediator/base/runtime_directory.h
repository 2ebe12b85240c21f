// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The directory in which daemons leave notes for each other, and nobody else can: the one that
// systemd made for the service, or /run/vrdma.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace vrdma {

// The one of a service manager. None: no such manager has started this process.
inline std::optional<std::string> given_runtime_directory() {
    const char* const given = std::getenv("RUNTIME_DIRECTORY");
    return given != nullptr && *given == '/' ? std::optional<std::string>{given} : std::nullopt;
}

// Creates the directory if it does not exist, if it can. A confined vrdmad can create none, so the
// function calls mkdir() only if the directory does not exist.
inline std::string runtime_directory() {
    std::string path = given_runtime_directory().value_or("/run/vrdma");
    constexpr mode_t for_us_to_write = 0755;
    if (::access(path.c_str(), F_OK) != 0) {
        ::mkdir(path.c_str(), for_us_to_write);
    }
    return path;
}

} // namespace vrdma
