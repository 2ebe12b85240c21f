// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Answers a request of the control socket: docs/control-api.yaml.
#pragma once

#include <memory>
#include <string>

#include "mediator/management/asker.h"
#include "mediator/management/stream.h"

namespace vrdma::management {

inline constexpr char metrics_path[] = "/metrics";
inline constexpr unsigned status_ok = 200;

struct Request {
    std::string method;
    std::string path; // as it came, with its percent encoding
    std::string body;
    bool may_change = false; // its client
    bool by_network = false; // gets metrics only
    bool force = false;      // destroys what is in use, too
};

struct Response {
    unsigned status; // of HTTP
    std::string body;
    const char* content_type = "application/json";
    std::shared_ptr<Stream> stream{}; // replaces the body
};

Response answer(const Request& request, Asker& asker);

// A request that is refused before it is complete.
Response refuse(std::errc error, const std::string& reason);

} // namespace vrdma::management
