// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The files by which a mediator proves its name to others, and verifies theirs: paths of files in
// PEM.
#pragma once

#include <string>

namespace vrdma::wire::fabric {

struct CredentialFiles {
    std::string certificate; // followed by those between it and the CA's
    std::string private_key; // only its owner may have access
    std::string ca;
};

} // namespace vrdma::wire::fabric
