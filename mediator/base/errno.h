// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The errno of the system call that just failed, as a Result's error.
#pragma once

#include <cerrno>
#include <string>

#include "mediator/base/result.h"

namespace vrdma {

inline tl::unexpected<std::errc> fail_errno() {
    return fail(static_cast<std::errc>(errno));
}

inline std::string describe(std::errc error) {
    return std::make_error_code(error).message();
}

} // namespace vrdma
