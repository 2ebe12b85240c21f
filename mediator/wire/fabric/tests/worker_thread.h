// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The worker of vrdma-handshake as a thread of a test.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "mediator/base/unique_fd.h"
#include "mediator/wire/fabric/handshake_worker.h"

namespace vrdma::wire::fabric {

class WorkerThread {
  public:
    WorkerThread() {
        std::array<int, 2> ends{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
        vrdmads_ = UniqueFd{ends[0]};
        its_ = UniqueFd{ends[1]};
        thread_ = std::thread{[socket = ends[1]] { make_handshakes(socket); }};
    }
    WorkerThread(const WorkerThread&) = delete;
    WorkerThread& operator=(const WorkerThread&) = delete;
    ~WorkerThread() {
        end();
        thread_.join();
    }

    UniqueFd take_socket() { return std::move(vrdmads_); }
    // As if the process had died, its supervisor included.
    void end() const { ::shutdown(its_.get(), SHUT_RDWR); }

  private:
    UniqueFd vrdmads_;
    UniqueFd its_;
    std::thread thread_;
};

} // namespace vrdma::wire::fabric
