// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/slot_locks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mediator/base/errno.h"
#include "mediator/base/runtime_directory.h"

namespace vrdma::wire {
namespace {

constexpr mode_t for_others_to_write = S_IWGRP | S_IWOTH;

} // namespace

Result<SlotLocks> SlotLocks::open(int link_index) {
    return open_in(runtime_directory(), link_index);
}

// An interface's index is unique only in its namespace, so the name of a lock has both.
Result<SlotLocks> SlotLocks::open_in(const std::string& directory, int link_index) {
    UniqueFd opened{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    struct stat status {};
    struct stat network {};
    if (!opened || ::fstat(opened.get(), &status) != 0 ||
        ::stat("/proc/thread-self/ns/net", &network) != 0) {
        return fail_errno();
    }
    if ((status.st_mode & for_others_to_write) != 0) {
        return fail(std::errc::permission_denied);
    }
    return SlotLocks{std::move(opened), fmt::format("steering-{}-{}", network.st_ino, link_index)};
}

UniqueFd SlotLocks::take(unsigned slot) const {
    const auto name = fmt::format("{}-{}", interface_, slot);
    UniqueFd file{
        ::openat(directory_.get(), name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)};
    if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
        return {};
    }
    return file;
}

} // namespace vrdma::wire
