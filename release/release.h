// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#pragma once

namespace vrdma {

// What vrdmad and vrdmactl call their version.
extern const char* const release;

} // namespace vrdma
