// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The work of vrdma-handshake: it has the private key, and makes handshakes for vrdmad, as
// handshake_messages.h says.
#pragma once

namespace vrdma::wire::fabric {

// Works until the socket ends, which is the expected end, or something else happens.
bool make_handshakes(int socket);

} // namespace vrdma::wire::fabric
