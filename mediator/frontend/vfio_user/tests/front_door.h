// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A server and its clients on one thread, the loop's. So sent data is there when the loop looks,
// and nothing depends on timing.
#pragma once

#include "mediator/frontend/vfio_user/server.h"
#include "mediator/frontend/vfio_user/tests/client.h"

namespace vrdma::vfio_user::test {

class FrontDoor {
  public:
    explicit FrontDoor(const Pace& pace);

    // Returns a socket that is connected to the server.
    UniqueFd connect() const;
    static void send(const UniqueFd& client, const Message& message);
    static void send_bytes(const UniqueFd& client, std::span<const std::byte> bytes);
    // Returns the client's next message, or nothing if the mediator hung up.
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
