// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What vrdma-directory does: it keeps this host in the directory, and tells vrdmad who else is
// there, as messages.h says.
#pragma once

namespace vrdma::directory {

// Until the socket ends, which is what is expected to happen, or something else does.
bool work(int socket);

} // namespace vrdma::directory
