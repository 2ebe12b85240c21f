// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Random numbers of the kernel's CSPRNG, for names that another guest must not guess.
#pragma once

#include <cstdint>

namespace vrdma {

std::uint32_t random_u32();

} // namespace vrdma
