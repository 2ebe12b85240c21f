// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Where daemons leave each other notes, and nobody else can: what systemd made for the service, or
// /run/vrdma.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace vrdma {

// It is there then, if it can be made. Once vrdmad is confined it can make none, and asks for none
// that is there.
inline std::string runtime_directory() {
    const char* const given = std::getenv("RUNTIME_DIRECTORY");
    std::string path = given != nullptr && *given == '/' ? given : "/run/vrdma";
    constexpr mode_t for_us_to_write = 0755;
    if (::access(path.c_str(), F_OK) != 0) {
        ::mkdir(path.c_str(), for_us_to_write);
    }
    return path;
}

} // namespace vrdma
