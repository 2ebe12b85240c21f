// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Memory that is shared with another process as a file, which that process cannot truncate.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "mediator/base/errno.h"
#include "mediator/base/unique_fd.h"

namespace vrdma {

inline Result<UniqueFd> sealed_file(const char* name, std::uint64_t size) {
    UniqueFd file{::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    if (!file || ::ftruncate(file.get(), static_cast<off_t>(size)) != 0 ||
        ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        return fail_errno();
    }
    return file;
}

} // namespace vrdma
