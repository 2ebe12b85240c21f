// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#pragma once

namespace vrdma {

// The version that vrdmad and vrdmactl print.
extern const char* const release;

} // namespace vrdma
