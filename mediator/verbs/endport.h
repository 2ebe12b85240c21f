// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// An endport (IBA): the entity that some addresses name. It is a device, or the functions that
// several clients of one device have. Those share the device's addresses and the services at them.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "mediator/verbs/gid.h"

namespace vrdma::verbs {

class Endport {
  public:
    static constexpr unsigned max_functions = 16;

    // Has `functions` functions, or more: the number is rounded up to a power of two.
    explicit Endport(Identity identity_, unsigned functions = 1);
    Endport(const Endport&) = delete;
    Endport& operator=(const Endport&) = delete;
    ~Endport() = default;

    // There are 1 << function_bits() functions.
    unsigned function_bits() const { return function_bits_; }
    hca::QpnRange qpns(unsigned function) const;

    // A function has a number while it is enabled. EINVAL: there is no such number. EBUSY: another
    // function has it.
    Result<> take_number(unsigned number);
    // Takes the number, or if another function has it, a free one. A restored function may have any
    // number.
    Result<unsigned> take_some_number(unsigned number);
    void give_back_number(unsigned number) { numbers_.reset(number); }

    // Fails with EADDRINUSE if a function listens to it already.
    Result<> listen(std::uint64_t service);
    void unlisten(std::uint64_t service);

    Identity identity;

  private:
    unsigned function_bits_;
    std::bitset<max_functions> numbers_; // that are taken
    std::set<std::uint64_t> services_;   // that are listened to
};

// A function of an endport, or a device that is alone at its endport.
struct FunctionId {
    FunctionId(Identity identity) // NOLINT(google-explicit-constructor): for a device that is alone
        : endport{std::make_shared<Endport>(std::move(identity))} {}
    FunctionId(std::shared_ptr<Endport> endport_, unsigned function_)
        : endport{std::move(endport_)}, function{function_} {}

    const Identity& identity() const { return endport->identity; }

    std::shared_ptr<Endport> endport;
    unsigned function = 0; // its number, if it is free
};

// A number that a function has taken. It gives the number back.
class FunctionNumber {
  public:
    static Result<FunctionNumber> take(const FunctionId& id);
    static Result<FunctionNumber> take_some(const FunctionId& id);
    FunctionNumber(FunctionNumber&& other) noexcept = default;
    FunctionNumber& operator=(FunctionNumber&&) = delete;
    FunctionNumber(const FunctionNumber&) = delete;
    FunctionNumber& operator=(const FunctionNumber&) = delete;
    ~FunctionNumber() {
        if (id_.endport) {
            id_.endport->give_back_number(id_.function);
        }
    }

    const FunctionId& id() const { return id_; }

  private:
    explicit FunctionNumber(FunctionId id) : id_{std::move(id)} {}

    FunctionId id_; // has no endport after a move
};

} // namespace vrdma::verbs
