// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Assignment of threads to cores. Our threads and those of the baseline are placed alike.
#pragma once

namespace vrdma::bench {

inline constexpr unsigned guest_core = 0;
inline constexpr unsigned poller_core = 1;

// The calling thread, and those it starts from now on, run on this core.
void pin_to_core(unsigned core);
void pin_to_any_core();

} // namespace vrdma::bench
