// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A server and its clients on one thread, which is the loop's: so what has been sent is there when
// the loop looks, and nothing depends on how fast anybody is.
#pragma once

#include "mediator/frontend/vfio_user/server.h"
#include "mediator/frontend/vfio_user/tests/client.h"

namespace vrdma::vfio_user::test {

class FrontDoor {
  public:
    explicit FrontDoor(const Pace& pace);

    // A socket that has connected.
    UniqueFd connect() const;
    static void send(const UniqueFd& client, const Message& message);
    static void send_bytes(const UniqueFd& client, std::span<const std::byte> bytes);
    // What the client gets; none: the mediator hung up.
    std::optional<Message> receive(const UniqueFd& client);
    std::optional<Message> ask(const UniqueFd& client, const Message& message);
    void run_for(std::chrono::milliseconds time);

    EventLoop& loop() { return bench_.loop; }

  private:
    Bench bench_;
    std::string path_;
    std::unique_ptr<Server> server_;
};

} // namespace vrdma::vfio_user::test
