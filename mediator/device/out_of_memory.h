// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The one exception that is caught: the standard library has no other way to say that it finds no
// memory, and a guest must not be able to end the process by asking for more than there is. Pollers
// hand theirs over to the control thread (hca/soft/mailbox.h); nobody else catches any.
#pragma once

#include <new>

#include "mediator/base/result.h"

namespace vrdma {

// What call() returns; ENOMEM if it finds no memory. What it has half done is the device's own,
// until it is reset.
template <typename Call>
Result<> with_what_memory_there_is(Call&& call) {
    try {
        return call();
    } catch (const std::bad_alloc&) {
        return fail(std::errc::not_enough_memory);
    }
}

} // namespace vrdma
