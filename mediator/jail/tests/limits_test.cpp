// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/jail/limits.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <fstream>

#include "mediator/base/sanitized.h"
#include "mediator/jail/capabilities.h"
#include "mediator/jail/tests/child.h"

namespace vrdma::jail::test {
namespace {

constexpr std::size_t little = 4096;
constexpr std::size_t most = std::size_t{256} << 20;

bool has_memory(std::size_t size) {
    return ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
           MAP_FAILED;
}

bool is_killed_first() {
    int score = 0;
    return std::ifstream{"/proc/self/oom_score_adj"} >> score && score == 1000;
}

// Ask for real-time priority, locked memory, and much memory; expect refusals, and that a little
// memory is still available.
TEST(Limits, AProcessTakesLittle) {
    EXPECT_EQ(exit_status_of_child([] {
                  if (!take_little(most) || !keep_capabilities({})) {
                      return 1;
                  }
                  const sched_param real_time{1};
                  const bool refused = ::sched_setscheduler(0, SCHED_FIFO, &real_time) == -1;
                  // Sanitizers' mlock() locks nothing, and reports success.
                  const bool bounded = sanitized || (::mlock(&real_time, little) == -1 &&
                                                     has_memory(little) && !has_memory(most));
                  return refused && bounded && is_killed_first() ? 0 : 2;
              }),
              0);
}

} // namespace
} // namespace vrdma::jail::test
