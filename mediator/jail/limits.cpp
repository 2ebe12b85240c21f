// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/jail/limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string_view>

#include "mediator/base/errno.h"
#include "mediator/base/sanitized.h"
#include "mediator/base/unique_fd.h"

namespace vrdma::jail {
namespace {

Result<> limit(__rlimit_resource resource, rlim_t value) noexcept {
    const rlimit both{value, value};
    return ::setrlimit(resource, &both) == 0 ? Result<>{} : fail_errno();
}

Result<> be_killed_first() noexcept {
    constexpr std::string_view most = "1000";
    const UniqueFd score{::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC)};
    const bool written = score && ::write(score.get(), most.data(), most.size()) ==
                                      static_cast<ssize_t>(most.size());
    return written ? Result<>{} : fail_errno();
}

} // namespace

Result<> take_little(std::size_t memory) noexcept {
    Result<> done = be_killed_first();
    for (const auto resource : {RLIMIT_RTPRIO, RLIMIT_NICE, RLIMIT_MEMLOCK}) {
        done = done ? limit(resource, 0) : done;
    }
    // Sanitizers need more memory of their own.
    return !done || sanitized ? done : limit(RLIMIT_DATA, memory);
}

} // namespace vrdma::jail
