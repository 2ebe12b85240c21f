// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The work of vrdma-management: serves vrdmad's control socket.
#pragma once

namespace vrdma::management {

// Works until the socket to vrdmad ends. Returns false if it cannot begin.
bool work(int socket);

} // namespace vrdma::management
