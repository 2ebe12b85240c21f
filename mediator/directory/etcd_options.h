// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The address of etcd, and the files that authenticate both ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vrdma::directory {

// "http://10.0.0.9:2379", "https://etcd.example.net:2379" or "http://[fd00::9]:2379"
struct Endpoint {
    bool tls = false;
    std::string host;
    std::uint16_t port = 0;
};
std::optional<Endpoint> parse_endpoint(std::string_view text);

struct EtcdOptions {
    std::vector<Endpoint> endpoints; // at least one
    // PEM files for endpoints with TLS. The CA signs for the endpoints; "": the CAs that the
    // machine trusts. The certificate and key are ours; "": none.
    std::string ca_file;
    std::string certificate_file;
    std::string private_key_file;
};

} // namespace vrdma::directory
