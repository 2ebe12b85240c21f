// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/jail/capabilities.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "mediator/base/errno.h"

namespace vrdma::jail {
namespace {

using Sets = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

Result<Sets> read_sets(__user_cap_header_struct& header) noexcept {
    Sets sets{};
    if (::syscall(SYS_capget, &header, sets.data()) != 0) {
        return fail_errno();
    }
    return sets;
}

std::array<__u32, _LINUX_CAPABILITY_U32S_3> masks_of(std::initializer_list<int> capabilities) {
    std::array<__u32, _LINUX_CAPABILITY_U32S_3> masks{};
    for (const int capability : capabilities) {
        masks.at(CAP_TO_INDEX(static_cast<unsigned>(capability))) |=
            CAP_TO_MASK(static_cast<unsigned>(capability));
    }
    return masks;
}

} // namespace

Result<bool> has_capabilities(std::initializer_list<int> asked) noexcept {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    const auto sets = read_sets(header);
    if (!sets) {
        return fail(sets.error());
    }
    const auto wanted = masks_of(asked);
    bool all = true;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        all = all && (wanted[i] & ~(*sets)[i].effective) == 0;
    }
    return all;
}

// The kernel removes capabilities that are not permitted from the ambient set.
Result<> keep_capabilities(std::initializer_list<int> kept) noexcept {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    auto read = read_sets(header);
    if (!read) {
        return fail(read.error());
    }
    Sets& sets = *read;
    const auto wanted = masks_of(kept);
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
