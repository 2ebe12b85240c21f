// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Who is spoken to at some addresses (IBA's endport): a device, or the functions that several
// clients of one device have, who share its addresses and what can be listened to at them.
#pragma once

#include <cstdint>
#include <memory>
#include <set>

#include "mediator/verbs/gid.h"

namespace vrdma::verbs {

class Endport {
  public:
    static constexpr unsigned max_functions = 16;

    // Of at least so many functions.
    explicit Endport(Identity identity_, unsigned functions = 1);
    Endport(const Endport&) = delete;
    Endport& operator=(const Endport&) = delete;
    ~Endport() = default;

    // 1 << n functions.
    unsigned function_bits() const { return function_bits_; }
    hca::QpnRange qpns(unsigned function) const;

    // EADDRINUSE: somebody listens to it.
    Result<> listen(std::uint64_t service);
    void unlisten(std::uint64_t service);

    Identity identity;

  private:
    unsigned function_bits_;
    std::set<std::uint64_t> services_; // that are listened to
};

// A function of an endport, or a device alone at its own.
struct Place {
    Place(Identity identity) // NOLINT(google-explicit-constructor): what most devices are given
        : endport{std::make_shared<Endport>(std::move(identity))} {}
    Place(std::shared_ptr<Endport> endport_, unsigned function_)
        : endport{std::move(endport_)}, function{function_} {}

    const Identity& identity() const { return endport->identity; }

    std::shared_ptr<Endport> endport;
    unsigned function = 0;
};

} // namespace vrdma::verbs
