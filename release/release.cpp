// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "release/release.h"

namespace vrdma {

const char* const release = VRDMA_RELEASE;

} // namespace vrdma
