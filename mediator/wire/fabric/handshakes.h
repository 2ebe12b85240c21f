// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdmad's end of the socket to the process that makes a fabric's handshakes for it. That process
// is not trusted: a message that makes no sense ends the connection for good, and with it all
// handshakes. Only the start of vrdmad waits for the process. Runs on the control thread.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>

#include "mediator/base/event_loop.h"
#include "mediator/base/log.h"
#include "mediator/base/unique_fd.h"
#include "mediator/wire/fabric/admission.h"
#include "mediator/wire/fabric/handover.h"
#include "mediator/wire/fabric/handshake_messages.h"

namespace vrdma::wire::fabric {

// The owner of handshakes, which is told of their progress. After done(), refused() and lost() the
// handshake is over.
class HandshakeOwner {
  public:
    using Id = handshakes::Id;

    HandshakeOwner() = default;
    HandshakeOwner(const HandshakeOwner&) = delete;
    HandshakeOwner& operator=(const HandshakeOwner&) = delete;

    // The bytes are to be sent to the other side.
    virtual void say(Id id, std::span<const std::byte> bytes) = 0;
    // The next message of the other side is to be heard.
    virtual void next(Id id) = 0;
    // The peer that has connected to us has proved that name. Returns whether it may connect.
    virtual bool admits(Id id, const std::string& name) = 0;
    virtual void done(Id id, const std::string& name, const Secrets& secrets) = 0;
    // `name` is what the other side calls itself; empty if that is not known.
    virtual void refused(Id id, const std::string& name, const std::string& why) = 0;
    // No process knows the handshake any more.
    virtual void lost(Id id) = 0;

  protected:
    ~HandshakeOwner() = default;
};

class Handshakes {
  public:
    using Id = handshakes::Id;
    using Error = std::string; // for people

    static constexpr std::size_t max_open = max_strangers + Handover::max_peers;
    // Bytes that may wait for the process: as many as all strangers can send. More bytes end their
    // handshakes.
    static constexpr std::size_t max_waiting = 2 * max_strangers * handshakes::Piece::most;
    // The number of messages that are heard before others have their turn.
    static constexpr int turn = 64;
    static constexpr std::chrono::milliseconds retry{10};
    static constexpr std::chrono::seconds start_limit{20};

    // Waits until the process is ready, or says what is wrong with the files. `name` is for the
    // log.
    static tl::expected<std::unique_ptr<Handshakes>, Error> open(
        const std::string& name, UniqueFd socket, const handshakes::Task& task, EventLoop& loop,
        std::chrono::milliseconds limit = start_limit);
    Handshakes(const Handshakes&) = delete;
    Handshakes& operator=(const Handshakes&) = delete;
    ~Handshakes() = default;

    // Must be called before the first handshake.
    void serve(HandshakeOwner* owner) { owner_ = owner; }

    // None: no handshake can be made now. The side that connects speaks first.
    std::optional<Id> connect(const std::string& peer) { return begin(true, peer); }
    std::optional<Id> accept() { return begin(false, {}); }
    // Passes on what the other side has said, after next(), or as the first message of one that
    // accepts. False: it could not be passed on, and the handshake has to be forgotten.
    bool hear(Id id, std::span<const std::byte> message);
    // Ends a handshake. Its owner is told nothing more of it.
    void forget(Id id);

  private:
    struct Open {
        bool connects = false;
        bool process_has_turn = false;
        bool told = false; // the process knows of it
        bool asked = false;
        std::string peer; // the one that we connect to, or that was admitted
    };
    struct Waiting {
        Id id = 0; // 0: of no handshake
        handshakes::Message message;
    };

    Handshakes(const std::string& name, UniqueFd socket, handshakes::Message task, EventLoop& loop);

    tl::expected<void, Error> await_ready(std::chrono::milliseconds limit);
    std::optional<Id> begin(bool connects, const std::string& peer);
    void hear_all();
    bool hear_next();
    bool make_sense(std::span<const std::byte> message);

    // Each returns whether the message makes sense.
    bool take(const handshakes::Began& began);
    bool take(const handshakes::Ready& ready);
    bool take(const handshakes::Wrong& wrong);
    bool take(const handshakes::Say& say);
    bool take(const handshakes::Next& next);
    bool take(const handshakes::Asks& asks);
    bool take(const handshakes::Done& done);
    bool take(const handshakes::Refused& refused);

    // Calls `call` with the handshake if it is still open. False: the process may not speak of it
    // now.
    template <typename Call>
    bool with_open(Id id, Call&& call);
    bool tell(Id id, const handshakes::Order& order);
    void enqueue(Id id, handshakes::Message message);
    void send_waiting();
    void lose_all();
    void end(const std::string& why);

    DeviceLog log_;
    UniqueFd socket_; // none: the connection has ended
    const handshakes::Message task_;
    EventLoop& loop_;
    HandshakeOwner* owner_ = nullptr;
    EventLoop::Watch messages_;
    EventLoop::Timer again_;

    bool began_ = false; // a worker has begun, and has its task
    bool ready_ = false;
    bool was_ready_ = false;
    std::string wrong_; // the last error

    std::map<Id, Open> open_;
    Id next_id_ = 1;
    std::deque<Waiting> waiting_; // for room in the socket
    std::size_t waiting_bytes_ = 0;
};

} // namespace vrdma::wire::fabric
