// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/jail/capabilities.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "mediator/base/errno.h"

namespace vrdma::jail {

// What is not permitted leaves the ambient set by itself.
Result<> keep_capabilities(std::initializer_list<int> kept) noexcept {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
    if (::syscall(SYS_capget, &header, sets.data()) != 0) {
        return fail_errno();
    }
    std::array<__u32, _LINUX_CAPABILITY_U32S_3> wanted{};
    for (const int capability : kept) {
        wanted.at(CAP_TO_INDEX(static_cast<unsigned>(capability))) |=
            CAP_TO_MASK(static_cast<unsigned>(capability));
    }
    for (std::size_t i = 0; i < sets.size(); ++i) {
        sets[i].permitted &= wanted[i];
        sets[i].effective = sets[i].permitted;
        sets[i].inheritable = 0;
    }
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) != 0 ||
        ::syscall(SYS_capset, &header, sets.data()) != 0) {
        return fail_errno();
    }
    return {};
}

} // namespace vrdma::jail
