// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The worker of vrdma-handshake as a thread of a test.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "mediator/helper/socket.h"
#include "mediator/wire/fabric/handshake_worker.h"

namespace vrdma::wire::fabric {

class WorkerThread {
  public:
    WorkerThread() {
        EXPECT_TRUE(ends_);
        thread_ = std::thread{[socket = ends_->its.get()] { make_handshakes(socket); }};
    }
    WorkerThread(const WorkerThread&) = delete;
    WorkerThread& operator=(const WorkerThread&) = delete;
    ~WorkerThread() {
        end();
        thread_.join();
    }

    UniqueFd take_socket() { return std::move(ends_->ours); }
    // Acts as if the process had died, including its supervisor.
    void end() const { ::shutdown(ends_->its.get(), SHUT_RDWR); }

  private:
    Result<helper::SocketPair> ends_ = helper::open_socket_pair();
    std::thread thread_;
};

} // namespace vrdma::wire::fabric
