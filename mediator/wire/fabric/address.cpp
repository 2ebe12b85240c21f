// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/address.h"

#include <netdb.h>

#include <charconv>
#include <cstdint>

namespace vrdma::wire::fabric {
namespace {

// getaddrinfo() takes the lower 16 bits of any number.
bool is_port(const std::string& text) {
    std::uint16_t port = 0;
    const char* const end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data(), end, port);
    return error == std::errc{} && last == end && port != 0;
}

} // namespace

std::optional<Address> parse_address(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos) {
        return std::nullopt;
    }
    Address address{text.substr(0, colon), text.substr(colon + 1)};
    if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']') {
        address.host = address.host.substr(1, address.host.size() - 2);
    } else if (address.host.find(':') != std::string::npos) {
        return std::nullopt;
    }
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (address.host.empty() || !is_port(address.service) ||
        ::getaddrinfo(address.host.c_str(), address.service.c_str(), &hints, &found) != 0) {
        return std::nullopt;
    }
    ::freeaddrinfo(found);
    return address;
}

} // namespace vrdma::wire::fabric
