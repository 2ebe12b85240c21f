// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// std::bad_alloc is the only exception that is caught. The standard library has no other way to
// report that it finds no memory, and a guest must not be able to end the process by asking for
// more than there is. Pollers hand theirs over to the control thread (hca/soft/poller/mailbox.h).
// No other code catches exceptions.
#pragma once

#include <new>

#include "mediator/base/result.h"

namespace vrdma {

// Returns what call() returns, or ENOMEM if it finds no memory. Anything that call() has done by
// halves stays with the device until its reset.
template <typename Call>
Result<> with_what_memory_there_is(Call&& call) {
    try {
        return call();
    } catch (const std::bad_alloc&) {
        return fail(std::errc::not_enough_memory);
    }
}

} // namespace vrdma
