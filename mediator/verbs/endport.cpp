// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/endport.h"

#include <algorithm>
#include <bit>

namespace vrdma::verbs {
namespace {

constexpr unsigned qpn_bits = 24;
constexpr std::uint32_t last_qpn = VRDMA_MULTICAST_QPN - 1;

} // namespace

Endport::Endport(Identity identity_, unsigned functions)
    : identity{std::move(identity_)},
      function_bits_{static_cast<unsigned>(std::bit_width(functions - 1))} {}

hca::QpnRange Endport::qpns(unsigned function) const {
    const std::uint32_t count = 1u << (qpn_bits - function_bits_);
    const std::uint32_t first = function * count;
    return {first, std::min(first + count - 1, last_qpn)};
}

Result<> Endport::take_number(unsigned number) {
    if (number >= 1u << function_bits_) {
        return fail(std::errc::invalid_argument);
    }
    if (numbers_.test(number)) {
        return fail(std::errc::device_or_resource_busy);
    }
    numbers_.set(number);
    return {};
}

Result<unsigned> Endport::take_some_number(unsigned number) {
    for (unsigned i = 0; i < 1u << function_bits_; ++i) {
        const unsigned next = (number + i) & ((1u << function_bits_) - 1);
        if (take_number(next)) {
            return next;
        }
    }
    return fail(std::errc::device_or_resource_busy);
}

Result<FunctionNumber> FunctionNumber::take(const FunctionId& id) {
    return id.endport->take_number(id.function).map([&] { return FunctionNumber{id}; });
}

Result<FunctionNumber> FunctionNumber::take_some(const FunctionId& id) {
    return id.endport->take_some_number(id.function).map([&](unsigned number) {
        return FunctionNumber{{id.endport, number}};
    });
}

Result<> Endport::listen(std::uint64_t service) {
    return services_.insert(service).second ? Result<>{} : fail(std::errc::address_in_use);
}

void Endport::unlisten(std::uint64_t service) {
    services_.erase(service);
}

} // namespace vrdma::verbs
