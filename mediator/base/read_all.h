// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The contents of a file, from where its descriptor stands to its end.
#pragma once

#include <unistd.h>

#include <array>
#include <string>

#include "mediator/base/errno.h"
#include "mediator/base/result.h"

namespace vrdma {

inline Result<std::string> read_all(int fd) {
    std::string text;
    std::array<char, 4096> piece{};
    ssize_t size = 0;
    while ((size = ::read(fd, piece.data(), piece.size())) > 0) {
        text.append(piece.data(), static_cast<std::size_t>(size));
    }
    return size == 0 ? Result<std::string>{std::move(text)} : fail_errno();
}

} // namespace vrdma
