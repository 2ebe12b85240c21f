// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdmad's end of the socket to the process that makes a fabric's handshakes for it. What comes
// from there is a stranger's: a message that makes no sense ends the connection for good, and with
// it all handshakes. Nobody waits for the process but vrdmad's start. On the control thread.
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

// Whose handshakes these are, and who is told what comes of them. After done(), refused() and
// lost() the handshake is over.
class HandshakeOwner {
  public:
    using Id = handshakes::Id;

    HandshakeOwner() = default;
    HandshakeOwner(const HandshakeOwner&) = delete;
    HandshakeOwner& operator=(const HandshakeOwner&) = delete;

    // To be sent to the other side.
    virtual void say(Id id, std::span<const std::byte> bytes) = 0;
    // Its next message is to be heard.
    virtual void next(Id id) = 0;
    // Who has connected to us has proved that name; whether it may.
    virtual bool admits(Id id, const std::string& name) = 0;
    virtual void done(Id id, const std::string& name, const Secrets& secrets) = 0;
    // The name is what the other side calls itself; empty if that is not known.
    virtual void refused(Id id, const std::string& name, const std::string& why) = 0;
    // There is no process any more that knows it.
    virtual void lost(Id id) = 0;

  protected:
    ~HandshakeOwner() = default;
};

class Handshakes {
  public:
    using Id = handshakes::Id;
    using Error = std::string; // for people

    static constexpr std::size_t max_open = max_strangers + Handover::max_peers;
    // Bytes that wait for the process, as those of all strangers can. More end their handshakes.
    static constexpr std::size_t max_waiting = 2 * max_strangers * handshakes::Piece::most;
    // Messages that are heard until others have their turn.
    static constexpr int turn = 64;
    static constexpr std::chrono::milliseconds retry{10};
    static constexpr std::chrono::seconds start_limit{20};

    // Waits until the process is ready, or says what is wrong with the files. The name is for the
    // log.
    static tl::expected<std::unique_ptr<Handshakes>, Error> open(
        const std::string& name, UniqueFd socket, const handshakes::Task& task, EventLoop& loop,
        std::chrono::milliseconds limit = start_limit);
    Handshakes(const Handshakes&) = delete;
    Handshakes& operator=(const Handshakes&) = delete;
    ~Handshakes() = default;

    // From now on, and before the first handshake.
    void serve(HandshakeOwner* owner) { owner_ = owner; }

    // None: it cannot be made now. Of a side that connects, which speaks first.
    std::optional<Id> connect(const std::string& peer) { return begin(true, peer); }
    std::optional<Id> accept() { return begin(false, {}); }
    // What the other side has said, after next(), or first to one that accepts. Whether it could be
    // passed on; if not, the handshake has to be forgotten.
    bool hear(Id id, std::span<const std::byte> message);
    // Nothing comes of it any more.
    void forget(Id id);

  private:
    struct Open {
        bool connects = false;
        bool process_has_turn = false;
        bool told = false; // the process knows of it
        bool asked = false;
        std::string peer; // whom we connect to, or who was admitted
    };
    struct Waiting {
        Id id = 0; // 0: it is of none
        handshakes::Message message;
    };

    Handshakes(const std::string& name, UniqueFd socket, handshakes::Message task, EventLoop& loop);

    tl::expected<void, Error> await_ready(std::chrono::milliseconds limit);
    std::optional<Id> begin(bool connects, const std::string& peer);
    void hear_all();
    bool hear_next();
    bool make_sense(std::span<const std::byte> message);

    // Whether each makes sense.
    bool take(const handshakes::Began& began);
    bool take(const handshakes::Ready& ready);
    bool take(const handshakes::Wrong& wrong);
    bool take(const handshakes::Say& say);
    bool take(const handshakes::Next& next);
    bool take(const handshakes::Asks& asks);
    bool take(const handshakes::Done& done);
    bool take(const handshakes::Refused& refused);

    // Calls it with the handshake if that is still open. False: the process cannot speak of it.
    template <typename Call>
    bool with_open(Id id, Call&& call);
    bool tell(Id id, const handshakes::Order& order);
    void enqueue(Id id, handshakes::Message message);
    void send_waiting();
    void lose_all();
    void end(const std::string& why);

    DeviceLog log_;
    UniqueFd socket_; // none: it has ended
    const handshakes::Message task_;
    EventLoop& loop_;
    HandshakeOwner* owner_ = nullptr;
    EventLoop::Watch messages_;
    EventLoop::Timer again_;

    bool began_ = false; // and has its task
    bool ready_ = false;
    bool was_ready_ = false;
    std::string wrong_; // what was last

    std::map<Id, Open> open_;
    Id next_id_ = 1;
    std::deque<Waiting> waiting_; // for room in the socket
    std::size_t waiting_bytes_ = 0;
};

} // namespace vrdma::wire::fabric
