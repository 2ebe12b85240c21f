// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// `vrdmactl sniffer`: writes what a sniffer records to a file, with the rights of its caller.
#pragma once

#include <cstdint>
#include <string>

#include "ctl/client.h"
#include "ctl/show.h"

namespace vrdma::ctl {

struct Sniffing {
    std::string device;
    std::string file; // a new one; "-": the standard output
    std::uint32_t payload = 128;
};

// Goes on until SIGINT, SIGTERM or SIGHUP, or until the sniffer ends. Call it before the process
// has other threads. {"file": ..., "frames": 12, "dropped": 0, "interrupted": true}
Answer sniff(const Client& client, const Sniffing& sniffing);

Answer stop_sniffer(const Client& client, const std::string& device);

std::string show_sniffed(const nlohmann::json& answer, Width width);

} // namespace vrdma::ctl
