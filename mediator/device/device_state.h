// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The first record of a saved device, and of what it announces before it moves.
#pragma once

#include <cstdint>

#include "vrdma/device.h"

namespace vrdma {

struct DeviceState {
    static constexpr std::uint32_t version = 4;

    std::uint32_t status;
    std::uint32_t aq_depth;
    std::uint32_t aq_vector;
    std::uint32_t admin_taken;
    std::uint32_t admin_given;
    // The device that is restored must have the same values, so that the guest finds the same
    // function.
    std::uint32_t doorbell_pages;
    std::uint32_t vectors;
    std::uint32_t function_bits;
    std::uint32_t function; // the number of an enabled device; its QPNs contain it
    std::uint32_t admin_pending;
    std::uint8_t mac[6];
    std::uint16_t num_pkeys;
    std::uint16_t pkeys[VRDMA_MAX_PKEYS];
    std::uint64_t submissions;
    std::uint64_t completions;
    std::uint64_t status_page;
    std::uint64_t clock; // of an enabled device
};

} // namespace vrdma
