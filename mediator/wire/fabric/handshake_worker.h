// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What vrdma-handshake does: it has the private key, and makes handshakes for vrdmad, as
// handshake_messages.h says.
#pragma once

namespace vrdma::wire::fabric {

// Until the socket ends, which is what is expected to happen, or something else does.
bool make_handshakes(int socket);

} // namespace vrdma::wire::fabric
