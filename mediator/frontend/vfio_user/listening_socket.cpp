// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/listening_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "mediator/base/errno.h"

namespace vrdma::vfio_user {
namespace {

Result<sockaddr_un> address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof(address.sun_path)) {
        return fail(std::errc::filename_too_long);
    }
    std::memcpy(address.sun_path, path.c_str(), path.size());
    return address;
}

UniqueFd stream_socket() {
    return UniqueFd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
}

const sockaddr* generic(const sockaddr_un& address) {
    return reinterpret_cast<const sockaddr*>(&address);
}

// /proc/net/unix has a line for each socket, which ends with the path that it was bound to.
bool is_bound(const std::string& path) {
    std::ifstream sockets{"/proc/net/unix"};
    bool found = !sockets;
    for (std::string line; !found && std::getline(sockets, line);) {
        found = line.ends_with(' ' + path);
    }
    return found;
}

// Whether a socket lies there that refuses connections. If this process may not connect, asks the
// kernel whether a socket is bound to the path.
bool is_stale(const sockaddr_un& address) {
    struct stat status {};
    const UniqueFd probe = stream_socket();
    return ::lstat(address.sun_path, &status) == 0 && S_ISSOCK(status.st_mode) &&
           ::connect(probe.get(), generic(address), sizeof(address)) != 0 &&
           (errno == ECONNREFUSED || (errno == EACCES && !is_bound(address.sun_path)));
}

// bind() makes the file with the socket's own mode, less the umask. So the mode need not be changed
// by the path afterwards.
bool bind_with_mode(int socket, const sockaddr_un& address, mode_t mode) {
    if (::fchmod(socket, mode) != 0) {
        return false;
    }
    const mode_t mask = ::umask(0);
    const bool bound = ::bind(socket, generic(address), sizeof(address)) == 0;
    const int error = errno;
    ::umask(mask);
    errno = error;
    return bound;
}

// Opens the socket's file once and changes that file, because the path may lead elsewhere by then.
Result<> give_to(const sockaddr_un& address, uid_t owner, gid_t group) {
    struct stat status {};
    const UniqueFd file{::open(address.sun_path, O_PATH | O_NOFOLLOW | O_CLOEXEC)};
    if (!file || ::fstat(file.get(), &status) != 0) {
        return fail_errno();
    }
    if (!S_ISSOCK(status.st_mode)) {
        return fail(std::errc::not_a_socket);
    }
    if ((status.st_uid != owner || status.st_gid != group) &&
        ::fchownat(file.get(), "", owner, group, AT_EMPTY_PATH) != 0) {
        return fail_errno();
    }
    return {};
}

} // namespace

Result<ListeningSocket> ListeningSocket::open(const SocketOptions& options) {
    const auto address = address_of(options.path);
    if (!address) {
        return fail(address.error());
    }
    if (is_stale(*address)) { // left behind by a mediator that was killed
        ::unlink(address->sun_path);
    }
    UniqueFd fd = stream_socket();
    if (!fd || !bind_with_mode(fd.get(), *address, options.mode)) {
        return fail_errno();
    }
    ListeningSocket socket{std::move(fd), options.path};
    if (const auto given = give_to(*address, options.owner, options.group); !given) {
        return fail(given.error());
    }
    if (::listen(socket.fd(), SOMAXCONN) != 0) {
        return fail_errno();
    }
    return socket;
}

ListeningSocket::~ListeningSocket() {
    if (fd_) {
        ::unlink(path_.c_str());
    }
}

} // namespace vrdma::vfio_user
