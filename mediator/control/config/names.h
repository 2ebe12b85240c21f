// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Rules for the names and paths that the configuration file gives.
#pragma once

#include <net/if.h>
#include <sys/un.h>

#include <algorithm>
#include <string_view>

#include "vrdma/mdev.h"

namespace vrdma::control {

// For an HCA, a type or a device. The name becomes part of names in sysfs and of paths.
static_assert(VRDMA_MDEV_NAME_SIZE == 16);
inline constexpr std::string_view valid_name_is = "a name of at most 15 characters a-z, 0-9 and -";

inline bool valid_name(std::string_view name) {
    return !name.empty() && name.size() < VRDMA_MDEV_NAME_SIZE &&
           name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == name.npos;
}

// For a network interface: the kernel's rules.
static_assert(IFNAMSIZ == 16);
inline constexpr std::string_view valid_interface_is =
    "a name such as eth0, of at most 15 printable characters without spaces and slashes";

inline bool valid_interface(std::string_view name) {
    return !name.empty() && name.size() < IFNAMSIZ && name != "." && name != ".." &&
           std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~' && c != '/'; });
}

// For the name of an uplink or a fabric, which is written into the attribute "uplink" of a device.
// There "none" means no uplink.
inline constexpr std::string_view valid_uplink_is =
    "a name such as eth0, of at most 15 printable characters without spaces and slashes, and not "
    "none";

inline bool valid_uplink(std::string_view name) {
    return valid_interface(name) && name != "none";
}

// For the path of a socket.
static_assert(sizeof(sockaddr_un::sun_path) == 108);
inline constexpr std::string_view valid_socket_path_is = "a path of at most 107 characters";

inline bool valid_socket_path(std::string_view path) {
    return !path.empty() && path.size() < sizeof(sockaddr_un::sun_path);
}

} // namespace vrdma::control
