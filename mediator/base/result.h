// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Errors are values: a Result holds the value that was asked for, or the errno that the verb
// returns.
#pragma once

#include <system_error>
#include <tl/expected.hpp>

namespace vrdma {

template <typename T = void>
using Result = tl::expected<T, std::errc>;

constexpr tl::unexpected<std::errc> fail(std::errc error) {
    return tl::unexpected{error};
}

} // namespace vrdma
