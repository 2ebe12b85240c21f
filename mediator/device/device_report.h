// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device as its administrator sees it.
#pragma once

#include <cstdint>
#include <string>

#include "mediator/hca/share.h"
#include "mediator/verbs/identity.h"

namespace vrdma {

struct DeviceReport {
    // How much of a resource the device has, and may have. A quota can be less than the type's
    // limit.
    struct Usage {
        std::uint64_t used = 0;
        std::uint64_t max = 0;
        std::uint64_t limit = 0; // of the type
    };
    // unused: no driver has enabled it. down: its uplink has no carrier. failed: its guest broke a
    // rule, and has to reset it. suspended: others waited for its memory.
    enum class State : std::uint8_t { unused, active, down, failed, suspended };

    std::string name;
    std::string type;
    std::string uplink; // or empty
    verbs::Mac mac{};
    State state = State::unused;
    std::uint32_t mtu = 0;  // bytes, or 0 while it is unused
    std::uint32_t mbps = 0; // of its port
    hca::Share share;
    Usage pds;
    Usage mrs;
    Usage cqs;
    Usage qps;
    Usage srqs;
    Usage xrcds;
    Usage ahs;
    Usage blocks; // of all translations together
    // Bytes of the mediator's memory. At most 0: not known while it is unused. A limit of 0: none.
    Usage memory;
};

} // namespace vrdma
