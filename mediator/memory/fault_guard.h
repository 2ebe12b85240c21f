// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Turns a touch of memory that is not there into a touch of a scratch page.
//
// A client shares files with us and may cut them short, punch them or let their file system run
// full at any time: an access then raises SIGBUS, and one where nothing is mapped SIGSEGV. Within a
// guarded range the handler puts a private zeroed page there and counts; the access goes on and
// harms nobody. Any other fault is the program's own, and goes to whoever handled it before.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "mediator/base/result.h"

namespace vrdma {

class FaultGuard {
  public:
    // Guards [base, base + size), in whole pages, which stay mapped for as long as the guard lives.
    static Result<FaultGuard> create(std::byte* base, std::uint64_t size);
    FaultGuard(FaultGuard&& other) noexcept;
    FaultGuard& operator=(FaultGuard&& other) = delete;
    FaultGuard(const FaultGuard&) = delete;
    FaultGuard& operator=(const FaultGuard&) = delete;
    ~FaultGuard();

    // Touches that met nothing, so far: a word that the handler adds to.
    const std::uint64_t& faults() const noexcept;

  private:
    explicit FaultGuard(std::size_t slot) : slot_{slot} {}

    std::size_t slot_;
};

} // namespace vrdma
