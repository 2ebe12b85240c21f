// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What people are told about a device's counters.
#pragma once

#include <algorithm>
#include <array>

#include "vrdma/counters.h"

namespace vrdma::management {

struct CounterText {
    const char* name;
    const char* meaning;
};

// By enum vrdma_counter.
inline constexpr auto counter_texts = [] {
    std::array<CounterText, VRDMA_NUM_COUNTERS> texts{};
#define VRDMA_COUNTER_TEXT(counter, text, meaning) texts[counter] = {text, meaning};
    VRDMA_COUNTER_LIST(VRDMA_COUNTER_TEXT)
#undef VRDMA_COUNTER_TEXT
    return texts;
}();
static_assert(std::ranges::count(counter_texts, nullptr, &CounterText::name) == 0,
              "a counter has no name");

} // namespace vrdma::management
