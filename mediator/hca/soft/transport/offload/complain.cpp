// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/offload/port.h"

namespace vrdma::hca::soft::offload {

// NOLINTNEXTLINE(bugprone-exception-escape): the line's format was checked by the compiler
void Port::complain(const char* what) noexcept {
    log_.warn("{}: {}", device_->name(), what);
}

} // namespace vrdma::hca::soft::offload
