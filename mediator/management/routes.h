// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Answers a request of the control socket: docs/control-api.yaml.
#pragma once

#include <string>

#include "mediator/management/asker.h"

namespace vrdma::management {

struct Request {
    std::string method;
    std::string path; // as it came, with its percent encoding
    std::string body;
    bool may_change = false; // its client
};

struct Response {
    unsigned status;  // of HTTP
    std::string body; // JSON
};

Response answer(const Request& request, Asker& asker);

// A request that is refused before it is complete.
Response refuse(std::errc error, const std::string& reason);

} // namespace vrdma::management
