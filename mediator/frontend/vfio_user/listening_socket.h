// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A UNIX socket at a path. From its first moment on, only its owner and group have access. Others
// may be able to write to the directory. Their links there are not followed, and their files are
// not changed.
#pragma once

#include <unistd.h>

#include <string>

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"

namespace vrdma::vfio_user {

struct SocketOptions {
    std::string path;
    uid_t owner = ::geteuid();
    gid_t group = ::getegid();
    mode_t mode = 0600;
};

class ListeningSocket {
  public:
    // Replaces a socket on which nobody listens any more.
    static Result<ListeningSocket> open(const SocketOptions& options);
    ListeningSocket(ListeningSocket&&) noexcept = default;
    ListeningSocket& operator=(ListeningSocket&&) = delete;
    ListeningSocket(const ListeningSocket&) = delete;
    ListeningSocket& operator=(const ListeningSocket&) = delete;
    ~ListeningSocket();

    int fd() const noexcept { return fd_.get(); }
    const std::string& path() const noexcept { return path_; }

  private:
    ListeningSocket(UniqueFd fd, std::string path) : fd_{std::move(fd)}, path_{std::move(path)} {}

    UniqueFd fd_;
    std::string path_;
};

} // namespace vrdma::vfio_user
