// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// One function and whoever has it: at most one client at a time. When that goes, all that it held
// is freed and the next one finds a function that was reset.
#pragma once

#include <memory>
#include <optional>

#include "mediator/base/log.h"
#include "mediator/frontend/vfio_user/channel.h"
#include "mediator/frontend/vfio_user/session.h"

namespace vrdma::vfio_user {

class Seat {
  public:
    // The loop outlives the seat.
    Seat(std::unique_ptr<Function> function, EventLoop& loop)
        : log_{function->name()}, function_{std::move(function)}, loop_{loop} {}
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    ~Seat() = default;

    // Whether the next client can have it. Its last one may be gone without that having been heard
    // yet: then it is now.
    bool is_free();
    // The other end of the socket is the client of a free seat.
    void take(UniqueFd socket);

  private:
    struct Client {
        Channel channel;
        Session session;
        EventLoop::Watch watch;
        bool awaits_room = false; // for what it has not taken, instead of its next command
    };

    void on_client();
    Result<> serve();
    Result<> execute(Message message);
    Result<> watch_client();
    void drop(std::errc why);

    DeviceLog log_;
    std::unique_ptr<Function> function_;
    EventLoop& loop_;
    bool worn_out_ = false; // could not be made ready for another client
    std::optional<Client> client_;
};

} // namespace vrdma::vfio_user
