// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Strong types for the names that a guest uses: addresses, handles and numbers of different kinds
// do not mix, and none of them is a pointer.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace vrdma {

// A bus address of the guest. Only GuestMemory turns it into a pointer.
enum class Iova : std::uint64_t {};

constexpr std::uint64_t raw(Iova iova) {
    return static_cast<std::uint64_t>(iova);
}
constexpr Iova operator+(Iova iova, std::uint64_t bytes) {
    return Iova{raw(iova) + bytes};
}

template <typename Tag>
struct Id {
    std::uint32_t value = 0;

    // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 means the 0 that <=> compares with
    friend constexpr auto operator<=>(Id, Id) = default;
};

using UcontextId = Id<struct UcontextTag>; // 0: the guest kernel's own
using PdId = Id<struct PdTag>;
using EqId = Id<struct EqTag>;
using AhId = Id<struct AhTag>;
using Cqn = Id<struct CqTag>;
using Srqn = Id<struct SrqTag>;                // 0: none
using Qpn = Id<struct QpTag>;                  // 24 bits
using XrcdId = Id<struct XrcdTag>;             // 0: none
using Key = Id<struct KeyTag>;                 // lkey and rkey of a memory region
using CounterSetId = Id<struct CounterSetTag>; // 0: none

} // namespace vrdma

template <typename Tag>
struct std::hash<vrdma::Id<Tag>> {
    std::size_t operator()(vrdma::Id<Tag> id) const noexcept { return id.value; }
};
