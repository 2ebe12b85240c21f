// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// capabilities(7) of the calling thread. Threads that it starts inherit them.
#pragma once

#include <initializer_list>

#include "mediator/base/result.h"

namespace vrdma::jail {

// Whether the thread has all of these.
Result<bool> has_capabilities(std::initializer_list<int> asked) noexcept;

// The thread keeps those of these capabilities that it has. It cannot regain the others.
Result<> keep_capabilities(std::initializer_list<int> kept) noexcept;

} // namespace vrdma::jail
