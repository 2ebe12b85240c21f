// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The control thread's part of a fabric: it listens, connects, has a process verify peers, hands
// connections to the poller, and makes new ones when they break. Of two hosts, the one whose name
// comes first connects. A stranger is refused, and logged.
#pragma once

#include <chrono>
#include <list>
#include <string>
#include <vector>

#include "mediator/base/event_loop.h"
#include "mediator/base/log.h"
#include "mediator/wire/fabric/admission.h"
#include "mediator/wire/fabric/handover.h"
#include "mediator/wire/fabric/handshakes.h"

namespace vrdma::wire::fabric {

struct PeerOptions {
    std::string name;
    Address address;
};

struct ConnectorOptions {
    std::string name; // for the log
    std::string host; // the name by which others know us
    Address listen;
    std::string provider;
};

class Connector final : private HandshakeOwner {
  public:
    using Clock = std::chrono::steady_clock;

    static constexpr std::chrono::milliseconds tick{100};
    static constexpr std::chrono::milliseconds first_pause{100}; // between attempts, doubled
    static constexpr std::chrono::milliseconds longest_pause{2000};
    static constexpr std::chrono::seconds first_word_limit{2}; // for a peer that connects to us
    static constexpr std::chrono::seconds handshake_limit{5};
    static constexpr std::chrono::seconds alive_every{1};
    static constexpr std::chrono::seconds silence_limit{5};

    static Result<std::unique_ptr<Connector>> create(ConnectorOptions options, EventLoop& loop,
                                                     std::shared_ptr<Handover> handover,
                                                     std::unique_ptr<Handshakes> handshakes);
    Connector(const Connector&) = delete;
    Connector& operator=(const Connector&) = delete;
    ~Connector() = default;

    // A peer comes, is at another address from now on, and goes. Its number is below
    // Handover::max_peers, and no other peer has it meanwhile.
    void add(unsigned number, PeerOptions peer);
    void move(unsigned number, Address address);
    void remove(unsigned number);
    const std::string& name_of(unsigned number) const { return peers_[number].options->name; }

    struct PeerStatus {
        unsigned number;
        PeerOptions options;
        bool up; // connected
    };
    std::vector<PeerStatus> peers() const;

  private:
    struct Peer {
        std::optional<PeerOptions> options; // none if there is no such peer
        bool connects = false;              // we connect to it, not it to us
        bool trying = false;
        Clock::time_point next_try;
        Clock::duration pause = first_pause;
        Clock::time_point said_alive;
        std::uint64_t heard = 0;
        Clock::time_point last_heard;
        bool up = false;
    };
    // A connection whose sides do not know each other yet. While the process has the turn in its
    // handshake, nothing of the other side is read: messages after the last one of the handshake
    // are for the poller.
    struct Attempt {
        std::unique_ptr<Connection> connection;
        std::string address;
        Source source;
        Clock::time_point began;
        std::optional<unsigned> peer; // none: it connects to us
        std::string name;             // of the one that we connect to, or that has proved it
        bool spoke = false;
        std::optional<Id> handshake;
        bool waits = false; // for the process
        bool broken = false;
        EventLoop::Watch events;
        EventLoop::Watch messages;
    };
    using Attempts = std::list<Attempt>;

    Connector(ConnectorOptions options, EventLoop& loop, std::shared_ptr<Handover> handover,
              std::unique_ptr<Handshakes> handshakes, std::unique_ptr<Listener> listener);

    void say(Id id, std::span<const std::byte> bytes) override;
    void next(Id id) override;
    bool admits(Id id, const std::string& name) override;
    void done(Id id, const std::string& name, const Secrets& secrets) override;
    void refused(Id id, const std::string& name, const std::string& why) override;
    void lost(Id id) override;

    Result<> start();
    void accept_all();
    void accept(Info request);
    void connect(unsigned peer);
    Result<> begin(Attempt attempt);
    void hear_event(Attempts::iterator attempt);
    void hear_messages(Attempts::iterator attempt);
    bool watch_messages(Attempts::iterator attempt);
    void hear_message(Attempts::iterator attempt, std::span<const std::byte> message);
    void break_off(Attempts::iterator attempt);
    void begin_handshake(Attempts::iterator attempt);
    void await_process(Attempts::iterator attempt);
    void make_room(const Source& source);
    static Clock::duration limit_of(const Attempt& attempt);
    void fail(Attempts::iterator attempt, const std::string& why);
    void give_up(Attempts::iterator attempt);
    Attempts::iterator erase(Attempts::iterator attempt);
    void succeed(Attempts::iterator attempt, unsigned number, Seals seals);
    void retry_later(unsigned peer);
    void collect();
    void look(Clock::time_point now);
    void look_at(unsigned peer, Clock::time_point now);
    std::optional<unsigned> find(const std::string& name) const;
    Attempts::iterator find(Id id);

    const ConnectorOptions options_;
    EventLoop& loop_;
    const std::shared_ptr<Handover> handover_;
    const std::unique_ptr<Handshakes> handshakes_;
    const std::unique_ptr<Listener> listener_;
    DeviceLog log_;
    std::vector<Peer> peers_;
    Attempts attempts_;
    UniqueFd timer_;
    EventLoop::Watch ticks_;
    EventLoop::Watch requests_;
    EventLoop::Watch returned_;
};

} // namespace vrdma::wire::fabric
