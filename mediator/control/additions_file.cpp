// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/additions_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "mediator/base/errno.h"
#include "mediator/base/read_all.h"
#include "mediator/base/unique_fd.h"

namespace vrdma::control {
namespace {

constexpr mode_t for_us = 0600;

// Others may be able to write to the directory.
bool is_ours(const UniqueFd& file) {
    struct stat status {};
    return ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) &&
           status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool write_all(const UniqueFd& file, const std::string& text) {
    std::size_t done = 0;
    while (done < text.size()) {
        const ssize_t written = ::write(file.get(), text.data() + done, text.size() - done);
        if (written < 0 && errno != EINTR) {
            return false;
        }
        done += static_cast<std::size_t>(std::max<ssize_t>(written, 0));
    }
    return true;
}

} // namespace

Result<std::string> AdditionsFile::read() const {
    const UniqueFd file{
        path_.empty() ? -1 : ::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
    if (!file) {
        return path_.empty() || errno == ENOENT ? Result<std::string>{} : fail_errno();
    }
    if (!is_ours(file)) {
        return fail(std::errc::permission_denied);
    }
    return read_all(file.get());
}

Result<> AdditionsFile::write(const std::string& text) const {
    if (text.empty()) {
        return ::unlink(path_.c_str()) == 0 || errno == ENOENT ? Result<>{} : fail_errno();
    }
    const std::string fresh = path_ + ".new";
    ::unlink(fresh.c_str()); // of a vrdmad that was killed
    const UniqueFd file{
        ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, for_us)};
    if (!file || !write_all(file, text) || ::rename(fresh.c_str(), path_.c_str()) != 0) {
        const auto error = fail_errno();
        ::unlink(fresh.c_str());
        return error;
    }
    return {};
}

} // namespace vrdma::control
