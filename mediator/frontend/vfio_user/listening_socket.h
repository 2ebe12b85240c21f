// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A UNIX socket at a path, for its owner and group only from its first moment on. Others may be
// able to write to the directory; nothing of theirs there is followed or changed.
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
    // A socket that nobody listens on any more is replaced.
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
