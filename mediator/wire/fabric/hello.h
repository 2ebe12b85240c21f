// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Names of mediators, and the message that carries them: see vrdma/fabric.h.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "vrdma/fabric.h"

namespace vrdma::wire::fabric {

// Whether a mediator can have the name: it can be logged, and fits.
bool valid_host(std::string_view name);

struct Hello {
    std::string from;
    std::string to;
};

vrdma_fabric_hello pack(const Hello& hello);
// None if a name is not valid.
std::optional<Hello> unpack(const vrdma_fabric_hello& hello);

} // namespace vrdma::wire::fabric
