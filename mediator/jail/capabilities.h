// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// capabilities(7) of the calling thread, which those that it starts inherit.
#pragma once

#include <initializer_list>

#include "mediator/base/result.h"

namespace vrdma::jail {

// Whether it has all of these.
Result<bool> has_capabilities(std::initializer_list<int> asked) noexcept;

// Of those that it has, these stay. They cannot be had again.
Result<> keep_capabilities(std::initializer_list<int> kept) noexcept;

} // namespace vrdma::jail
