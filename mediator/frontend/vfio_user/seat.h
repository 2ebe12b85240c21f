// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// One function and whoever has it: at most one client at a time. When that goes, all that it held
// is freed and the next one finds a function that was reset.
//
// A client may be silent for ever, as a guest may have nothing to say, but not before it has told
// that it is a client, nor in the middle of a message.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "mediator/base/log.h"
#include "mediator/frontend/vfio_user/channel.h"
#include "mediator/frontend/vfio_user/session.h"

namespace vrdma::vfio_user {

class Seat {
  public:
    // How long a message may take to come.
    static constexpr std::chrono::milliseconds usual_patience{10'000};

    // The loop outlives the seat.
    Seat(std::unique_ptr<Function> function, EventLoop& loop, std::chrono::milliseconds patience)
        : log_{function->name()},
          function_{std::move(function)},
          loop_{loop},
          patience_{patience} {}
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    ~Seat() = default;

    void set_share(const hca::Share& share) { function_->set_share(share); }

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
        std::optional<EventLoop::Timer> deadline; // of the message that is to come
    };

    void on_client();
    Result<> serve();
    Result<> execute(Message message);
    Result<> watch_client();
    void set_deadline();
    void make_ready();
    void drop(std::errc why);

    DeviceLog log_;
    std::unique_ptr<Function> function_;
    EventLoop& loop_;
    const std::chrono::milliseconds patience_;
    bool ready_ = true; // for another client
    std::optional<Client> client_;
};

} // namespace vrdma::vfio_user
