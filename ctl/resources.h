// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a device may have a limited amount of, by the names of docs/control-api.yaml.
#pragma once

#include <array>

namespace vrdma::ctl {

struct Resource {
    const char* name;
    const char* about;
};

inline constexpr std::array resources{
    Resource{"pd", "Protection domains, at most"},
    Resource{"mr", "Memory regions"},
    Resource{"cq", "Completion queues"},
    Resource{"qp", "Queue pairs"},
    Resource{"srq", "Shared receive queues"},
    Resource{"xrcd", "XRC domains"},
    Resource{"ah", "Address handles"},
    Resource{"blocks", "Pages and blocks of all memory regions and queues"},
    Resource{"memory",
             "Bytes of vrdmad's memory for all of these; 0 means no limit but the type's"}};

} // namespace vrdma::ctl
