// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#pragma once

#include "mediator/verbs/page_list.h"

namespace vrdma::test {

// Runs a verb until it has ended. Any step may be cut short by its time.
template <typename Verb>
auto in_steps(Verb&& verb) {
    auto result = verb();
    while (!result && result.error() == verbs::comes_again) {
        result = verb();
    }
    return result;
}

} // namespace vrdma::test
