// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// By what a mediator proves its name to others, and what proves theirs: paths of files in PEM.
#pragma once

#include <string>

namespace vrdma::wire::fabric {

struct CredentialFiles {
    std::string certificate; // and behind it those between it and the CA's
    std::string private_key; // which nobody but its owner may use
    std::string ca;
};

} // namespace vrdma::wire::fabric
