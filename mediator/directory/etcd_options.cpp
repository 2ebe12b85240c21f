// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/etcd_options.h"

#include <charconv>

namespace vrdma::directory {

std::optional<Endpoint> parse_endpoint(std::string_view text) {
    Endpoint endpoint;
    constexpr std::string_view plain = "http://";
    constexpr std::string_view secure = "https://";
    endpoint.tls = text.starts_with(secure);
    if (!endpoint.tls && !text.starts_with(plain)) {
        return std::nullopt;
    }
    text.remove_prefix(endpoint.tls ? secure.size() : plain.size());
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view port = text.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
    std::string_view host = text.substr(0, colon);
    const bool v6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
    host = v6 ? host.substr(1, host.size() - 2) : host;
    const std::string_view allowed = v6 ? "0123456789abcdefABCDEF:."
                                        : "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789-._";
    if (error != std::errc{} || end != port.data() + port.size() || endpoint.port == 0 ||
        host.empty() || host.find_first_not_of(allowed) != std::string_view::npos) {
        return std::nullopt;
    }
    endpoint.host = host;
    return endpoint;
}

} // namespace vrdma::directory
