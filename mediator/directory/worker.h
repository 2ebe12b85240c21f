// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The work of vrdma-directory: it keeps this host in the directory, and reports the other hosts to
// vrdmad, as messages.h says.
#pragma once

namespace vrdma::directory {

// Works until the socket ends, which is the expected end, or something else happens.
bool work(int socket);

} // namespace vrdma::directory
