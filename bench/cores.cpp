// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "bench/cores.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <thread>

namespace vrdma::bench {
namespace {

void pin(const cpu_set_t& cores) {
    ::pthread_setaffinity_np(::pthread_self(), sizeof(cores), &cores);
}

} // namespace

void pin_to_core(unsigned core) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core % std::max(1u, std::thread::hardware_concurrency()), &cores);
    pin(cores);
}

void pin_to_any_core() {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    for (unsigned core = 0; core < std::thread::hardware_concurrency(); ++core) {
        CPU_SET(core, &cores);
    }
    pin(cores);
}

} // namespace vrdma::bench
