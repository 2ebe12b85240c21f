// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Long work of the control thread on a poller is done in steps. Between two steps, the poller
// serves others.
#pragma once

#include <array>
#include <cstddef>

#include "mediator/base/step_time.h"

namespace vrdma::hca::soft {

inline constexpr std::size_t objects_per_step = 64;

// One step: calls `call` for values of a map from `next` on, and advances `next`.
template <typename Map, typename Call>
void call_some(const Map& map, typename Map::const_iterator& next, Call&& call) {
    const StepTime time;
    for (std::size_t i = 0; i < objects_per_step && next != map.end(); ++i, ++next) {
        if (i != 0 && time.over()) {
            return;
        }
        call(*next->second);
    }
}

// `run(step)` executes a step on the poller. Calls `call` for each value of a map, which does not
// change meanwhile.
template <typename Map, typename Run, typename Call>
void call_in_steps(const Map& map, Run&& run, Call&& call) {
    for (typename Map::const_iterator next = map.begin(); next != map.end();) {
        run([&] { call_some(map, next, call); });
    }
}

// `take(key)` removes an object from the map and returns it. It is freed here.
template <typename Map, typename Run, typename Take>
void remove_in_steps(const Map& map, Run&& run, Take&& take) {
    while (!map.empty()) {
        std::array<typename Map::mapped_type, objects_per_step> taken;
        run([&] {
            const StepTime time;
            std::size_t count = 0;
            do {
                taken[count++] = take(map.begin()->first);
            } while (count < objects_per_step && !map.empty() && !time.over());
        });
    }
}

} // namespace vrdma::hca::soft
