// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/hello.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

namespace vrdma::wire::fabric {
namespace {

using Field = std::span<const std::uint8_t, VRDMA_FABRIC_NAME_SIZE>;

void write_name(std::span<std::uint8_t, VRDMA_FABRIC_NAME_SIZE> field, const std::string& name) {
    std::copy_n(name.begin(), std::min(name.size(), field.size() - 1), field.begin());
}

// Empty if the name is not valid.
std::string read_name(Field field) {
    const auto end = std::ranges::find(field, 0);
    std::string name{field.begin(), end};
    return valid_host(name) && std::all_of(end, field.end(), [](auto byte) { return byte == 0; })
               ? name
               : std::string{};
}

} // namespace

bool valid_host(std::string_view name) {
    return !name.empty() && name.size() < VRDMA_FABRIC_NAME_SIZE &&
           name.find_first_not_of(
               "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
               "0123456789-._") == name.npos;
}

vrdma_fabric_hello pack(const Hello& hello) {
    vrdma_fabric_hello packed{};
    write_name(packed.from, hello.from);
    write_name(packed.to, hello.to);
    return packed;
}

std::optional<Hello> unpack(const vrdma_fabric_hello& hello) {
    Hello unpacked{read_name(hello.from), read_name(hello.to)};
    if (unpacked.from.empty() || unpacked.to.empty()) {
        return std::nullopt;
    }
    return unpacked;
}

} // namespace vrdma::wire::fabric
