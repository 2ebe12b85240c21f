// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// setsockopt(2) with a value of any type.
#pragma once

#include <sys/socket.h>

namespace vrdma::wire {

// On failure, returns false and sets errno.
template <typename T>
bool set_option(int socket, int level, int option, const T& value) noexcept {
    return ::setsockopt(socket, level, option, &value, sizeof(value)) == 0;
}

} // namespace vrdma::wire
