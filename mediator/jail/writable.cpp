// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/jail/writable.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "mediator/base/errno.h"
#include "mediator/base/unique_fd.h"

namespace vrdma::jail {
namespace {

constexpr std::uint64_t in_devices = LANDLOCK_ACCESS_FS_WRITE_FILE;
constexpr std::uint64_t in_directories = LANDLOCK_ACCESS_FS_WRITE_FILE |
                                         LANDLOCK_ACCESS_FS_REMOVE_FILE |
                                         LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK;
// Rights of the first version of the interface, which never allows moving files between
// directories.
constexpr std::uint64_t handled = in_directories | LANDLOCK_ACCESS_FS_EXECUTE |
                                  LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                                  LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                                  LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;

bool add(int rules, const std::string& path, std::uint64_t access) noexcept {
    const UniqueFd place{::open(path.c_str(), O_PATH | O_CLOEXEC)};
    if (!place) {
        return errno == ENOENT;
    }
    landlock_path_beneath_attr rule{};
    rule.allowed_access = access;
    rule.parent_fd = place.get();
    return ::syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
}

} // namespace

Result<bool> write_only_to(const Writable& writable) noexcept {
    landlock_ruleset_attr attributes{};
    attributes.handled_access_fs = handled;
    const UniqueFd rules{static_cast<int>(
        ::syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0))};
    if (!rules && (errno == ENOSYS || errno == EOPNOTSUPP)) {
        return false;
    }
    bool added = static_cast<bool>(rules);
    for (const std::string& directory : writable.directories) {
        added = added && add(rules.get(), directory, in_directories);
    }
    for (const std::string& device : writable.devices) {
        added = added && add(rules.get(), device, in_devices);
    }
    if (!added || ::prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) != 0 ||
        ::syscall(SYS_landlock_restrict_self, rules.get(), 0) != 0) {
        return fail_errno();
    }
    return true;
}

} // namespace vrdma::jail
