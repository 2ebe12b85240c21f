// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// One function and its client: at most one at a time. When the client goes, all that it held is
// freed, and the next client finds a function that was reset.
//
// A client may be silent for ever, because a guest may be idle. But it may not be silent before it
// has negotiated the protocol's version, nor in the middle of a message.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include "mediator/base/log.h"
#include "mediator/frontend/vfio_user/channel.h"
#include "mediator/frontend/vfio_user/session.h"

namespace vrdma::vfio_user {

class ClientSlot {
  public:
    // How long a message may take to arrive.
    static constexpr std::chrono::milliseconds usual_timeout{10'000};

    // The loop must outlive the slot.
    ClientSlot(std::unique_ptr<Function> function, EventLoop& loop,
               std::chrono::milliseconds timeout)
        : log_{function->name()}, function_{std::move(function)}, loop_{loop}, timeout_{timeout} {}
    ClientSlot(const ClientSlot&) = delete;
    ClientSlot& operator=(const ClientSlot&) = delete;
    ~ClientSlot() = default;

    Device& device() const noexcept { return function_->device(); }

    void set_share(const hca::Share& share) { function_->set_share(share); }

    // At the end of a vrdmad, in this order, each for all slots. A client that takes part fetches
    // its device's state and hangs up, and `gone` is called.
    void freeze() { function_->end(); }
    void keep();
    void part(std::function<void()> gone);
    // Whether a client may still fetch its device's state.
    bool awaits() const noexcept { return awaits_ && client_; }

    // Whether a client has the slot. Notices first if it is gone.
    bool is_used();
    // Whether the next client can have the slot. Notices first if the last client is gone.
    bool is_free();
    // The control thread has died. A client whose command was under way gets no answer, and learns
    // that by the end of its connection.
    void hang_up_unanswered();
    // Hangs up on the client, if there is one, whose driver learns that its device is gone.
    void hang_up();
    // Gives a free slot to the client at the other end of the socket.
    void take(UniqueFd socket);

  private:
    struct Client {
        Channel channel;
        Session session;
        EventLoop::Watch watch;
        bool awaits_room = false; // in the socket for a reply, instead of the next command
        std::optional<EventLoop::Timer> deadline; // of the next message
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
    const std::chrono::milliseconds timeout_;
    bool ready_ = true; // for another client
    bool awaits_ = false;
    std::atomic<bool> unanswered_ = false; // a command of the client, just now
    std::function<void()> gone_;           // if there will be no other client
    std::optional<Client> client_;
};

} // namespace vrdma::vfio_user
