// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Where etcd is, and how it is known.
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
    std::vector<Endpoint> endpoints; // one at least
    // PEM, of endpoints with TLS: who signs for these, or "" for whom the machine trusts; and who
    // we are, or "" for nobody.
    std::string ca_file;
    std::string certificate_file;
    std::string private_key_file;
};

} // namespace vrdma::directory
