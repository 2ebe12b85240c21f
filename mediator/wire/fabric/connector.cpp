// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/connector.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>

namespace vrdma::wire::fabric {

Result<std::unique_ptr<Connector>> Connector::create(ConnectorOptions options, EventLoop& loop,
                                                     std::shared_ptr<Handover> handover,
                                                     std::unique_ptr<Handshakes> handshakes) {
    auto listener = Listener::listen(options.provider, options.listen);
    if (!listener) {
        return vrdma::fail(listener.error());
    }
    std::unique_ptr<Connector> connector{new Connector{std::move(options), loop,
                                                       std::move(handover), std::move(handshakes),
                                                       std::move(*listener)}};
    if (const auto started = connector->start(); !started) {
        return vrdma::fail(started.error());
    }
    return connector;
}

Connector::Connector(ConnectorOptions options, EventLoop& loop, std::shared_ptr<Handover> handover,
                     std::unique_ptr<Handshakes> handshakes, std::unique_ptr<Listener> listener)
    : options_{std::move(options)},
      loop_{loop},
      handover_{std::move(handover)},
      handshakes_{std::move(handshakes)},
      listener_{std::move(listener)},
      log_{"fabric " + options_.name},
      peers_(Handover::max_peers) {
    handshakes_->serve(this);
}

// The peer may learn of us when we learn of it, but not earlier. So it gets some time for that.
void Connector::add(unsigned number, PeerOptions peer) {
    Peer& added = peers_[number];
    added = {};
    added.connects = options_.host < peer.name;
    added.next_try = Clock::now() + first_pause;
    added.options = std::move(peer);
}

void Connector::move(unsigned number, Address address) {
    peers_[number].options->address = std::move(address);
}

std::vector<Connector::PeerStatus> Connector::peers() const {
    std::vector<PeerStatus> all;
    for (unsigned number = 0; number < peers_.size(); ++number) {
        if (peers_[number].options) {
            all.push_back({number, *peers_[number].options, peers_[number].up});
        }
    }
    return all;
}

void Connector::remove(unsigned number) {
    const std::string& name = peers_[number].options->name;
    for (auto attempt = attempts_.begin(); attempt != attempts_.end();) {
        const bool concerned = attempt->peer == number || attempt->name == name;
        attempt = concerned ? erase(attempt) : std::next(attempt);
    }
    handover_->withdraw(number);
    peers_[number] = {};
}

Result<> Connector::start() {
    timer_ = UniqueFd{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
    const long nanoseconds = std::chrono::nanoseconds{tick}.count();
    const itimerspec often{{0, nanoseconds}, {0, nanoseconds}};
    if (!timer_ || ::timerfd_settime(timer_.get(), 0, &often, nullptr) != 0) {
        return fail_errno();
    }
    auto ticks = loop_.watch(timer_.get(), [this](std::uint32_t) {
        std::uint64_t count = 0;
        (void)::read(timer_.get(), &count, sizeof(count));
        look(Clock::now());
    });
    auto requests = loop_.watch(listener_->fd(), [this](std::uint32_t) { accept_all(); });
    auto returned = loop_.watch(handover_->returned_fd(), [this](std::uint32_t) { collect(); });
    if (!ticks || !requests || !returned) {
        return fail_errno();
    }
    ticks_ = std::move(*ticks);
    requests_ = std::move(*requests);
    returned_ = std::move(*returned);
    return {};
}

void Connector::accept_all() {
    constexpr int most = 16; // before others have their turn
    for (int i = 0; i < most; ++i) {
        Info request = listener_->next();
        if (request == nullptr) {
            return;
        }
        accept(std::move(request));
    }
}

void Connector::accept(Info request) {
    const std::string address = describe_address(request->dest_addr, request->dest_addrlen);
    const Source source = source_of(request->dest_addr, request->dest_addrlen);
    make_room(source);
    auto connection = Connection::accept(*listener_, std::move(request));
    Result<> begun;
    if (connection) {
        Attempt attempt;
        attempt.connection = std::move(*connection);
        attempt.address = address;
        attempt.source = source;
        begun = begin(std::move(attempt));
    }
    if (!connection || !begun) {
        log_.warn("{} cannot be accepted: {}", address,
                  describe(!connection ? connection.error() : begun.error()));
    }
}

void Connector::make_room(const Source& source) {
    std::vector<Attempts::iterator> strangers; // in the order in which they came
    std::vector<Source> sources;
    for (auto attempt = attempts_.begin(); attempt != attempts_.end(); ++attempt) {
        if (!attempt->peer) {
            strangers.push_back(attempt);
            sources.push_back(attempt->source);
        }
    }
    if (const auto goes = goes_for(source, sources)) {
        fail(strangers[*goes], "another one came");
    }
}

void Connector::connect(unsigned number) {
    const PeerOptions& peer = *peers_[number].options;
    auto info = info_to(options_.provider, peer.address);
    auto connection = info ? Connection::connect(std::move(*info))
                           : Result<std::unique_ptr<Connection>>{vrdma::fail(info.error())};
    peers_[number].trying = true; // begin() may reset it
    Result<> begun;
    if (connection) {
        Attempt attempt;
        attempt.connection = std::move(*connection);
        attempt.address = peer.address.host + " port " + peer.address.service;
        attempt.peer = number;
        attempt.name = peer.name;
        begun = begin(std::move(attempt));
    }
    if (!connection || !begun) {
        log_.debug("no connection to {}: {}", peer.name,
                   describe(!connection ? connection.error() : begun.error()));
        peers_[number].trying = false;
        retry_later(number);
    }
}

Result<> Connector::begin(Attempt attempt) {
    const auto added = attempts_.insert(attempts_.end(), std::move(attempt));
    added->began = Clock::now();
    auto events = loop_.watch(added->connection->event_fd(),
                              [this, added](std::uint32_t) { hear_event(added); });
    if (!events || !watch_messages(added)) {
        erase(added);
        return vrdma::fail(std::errc::io_error);
    }
    added->events = std::move(*events);
    hear_event(added); // this begins it
    return {};
}

bool Connector::watch_messages(Attempts::iterator attempt) {
    auto messages = loop_.watch(attempt->connection->fd(),
                                [this, attempt](std::uint32_t) { hear_messages(attempt); });
    if (messages) {
        attempt->messages = std::move(*messages);
    }
    return messages.has_value();
}

void Connector::hear_event(Attempts::iterator attempt) {
    switch (attempt->connection->next_event()) {
        case Connection::Event::none:
            return;
        case Connection::Event::failed:
            return break_off(attempt);
        case Connection::Event::connected:
            if (attempt->peer) {
                return begin_handshake(attempt);
            }
            return hear_messages(attempt);
    }
}

// The peer may have sent a last message, which is heard when it is its turn.
void Connector::break_off(Attempts::iterator attempt) {
    if (!attempt->waits) {
        return fail(attempt, "the connection broke");
    }
    attempt->broken = true;
    attempt->events = {};
}

void Connector::begin_handshake(Attempts::iterator attempt) {
    attempt->handshake = handshakes_->connect(attempt->name);
    if (!attempt->handshake) {
        return fail(attempt, "no handshake can be made");
    }
    await_process(attempt);
}

void Connector::hear_messages(Attempts::iterator attempt) {
    constexpr int most = 16; // before others have their turn
    Connection& connection = *attempt->connection;
    for (int i = 0; i < most && !attempt->waits; ++i) {
        const bool quiet = !connection.poll() && connection.quiet();
        if (const auto message = connection.hear(); !message.empty()) {
            return hear_message(attempt, message);
        }
        if (connection.failed()) {
            return fail(attempt, "the connection broke");
        }
        if (quiet) {
            return;
        }
    }
}

// The side that connects speaks first.
void Connector::hear_message(Attempts::iterator attempt, std::span<const std::byte> message) {
    attempt->spoke = true;
    if (!attempt->handshake && !attempt->peer) {
        attempt->handshake = handshakes_->accept();
    }
    if (!attempt->handshake || !handshakes_->hear(*attempt->handshake, message)) {
        return fail(attempt, "no handshake can be made");
    }
    await_process(attempt);
}

void Connector::await_process(Attempts::iterator attempt) {
    attempt->waits = true;
    attempt->messages = {};
}

void Connector::say(Id id, std::span<const std::byte> bytes) {
    const auto attempt = find(id);
    if (attempt != attempts_.end() && !attempt->connection->say(bytes)) {
        fail(attempt, "it does not accept our answer");
    }
}

void Connector::next(Id id) {
    const auto attempt = find(id);
    if (attempt == attempts_.end()) {
        return;
    }
    attempt->waits = false;
    if (!watch_messages(attempt)) {
        return fail(attempt, "its socket cannot be watched");
    }
    hear_messages(attempt); // messages that have come already
    const auto again = find(id);
    if (again != attempts_.end() && again->broken && !again->waits) {
        fail(again, "the connection broke");
    }
}

// Of two hosts, the one whose name comes first connects.
bool Connector::admits(Id id, const std::string& name) {
    const auto attempt = find(id);
    const auto number = find(name);
    if (attempt == attempts_.end() || !number || peers_[*number].connects) {
        return false;
    }
    attempt->name = name;
    return true;
}

void Connector::done(Id id, const std::string& name, const Secrets& secrets) {
    const auto attempt = find(id);
    if (attempt == attempts_.end()) {
        return;
    }
    const bool connects = attempt->peer.has_value();
    const auto number = connects ? attempt->peer : find(name);
    auto seals = Seals::create(secrets.get(), connects);
    if (!number || !seals) {
        return fail(attempt, "it cannot be sealed");
    }
    succeed(attempt, *number, std::move(*seals));
}

void Connector::refused(Id id, const std::string& name, const std::string& why) {
    const auto attempt = find(id);
    if (attempt != attempts_.end()) {
        log_.warn("{} at {} is refused: it {}", name.empty() ? "somebody" : name, attempt->address,
                  why);
        give_up(attempt);
    }
}

void Connector::lost(Id id) {
    const auto attempt = find(id);
    if (attempt != attempts_.end()) {
        fail(attempt, "vrdma-handshake lost its handshake");
    }
}

// A peer that cannot be reached is tried again and again, so no attempt is worth a warning.
void Connector::fail(Attempts::iterator attempt, const std::string& why) {
    log_.debug("no connection with {}: {}", attempt->address, why);
    give_up(attempt);
}

void Connector::give_up(Attempts::iterator attempt) {
    if (attempt->peer) {
        peers_[*attempt->peer].trying = false;
        retry_later(*attempt->peer);
    }
    erase(attempt);
}

Connector::Attempts::iterator Connector::erase(Attempts::iterator attempt) {
    if (attempt->handshake) {
        handshakes_->forget(*attempt->handshake);
    }
    return attempts_.erase(attempt);
}

void Connector::succeed(Attempts::iterator attempt, unsigned number, Seals seals) {
    std::unique_ptr<Connection> connection = std::move(attempt->connection);
    const std::string address = attempt->address;
    connection->seal(std::move(seals));
    // Only the poller may watch the connection's fds from now on.
    erase(attempt);
    Peer& peer = peers_[number];
    peer.trying = false;
    peer.pause = first_pause;
    peer.up = true;
    peer.heard = 0;
    peer.last_heard = peer.said_alive = Clock::now();
    handover_->offer(number, std::move(connection));
    log_.info("connected with {} at {}", peer.options->name, address);
}

void Connector::retry_later(unsigned number) {
    Peer& peer = peers_[number];
    peer.next_try = Clock::now() + peer.pause;
    peer.pause = std::min<Clock::duration>(2 * peer.pause, longest_pause);
}

void Connector::collect() {
    handover_->collect();
    for (unsigned number = 0; number < peers_.size(); ++number) {
        Peer& peer = peers_[number];
        if (peer.up && !handover_->has(number)) {
            peer.up = false;
            log_.warn("the connection with {} broke", peer.options->name);
            look_at(number, Clock::now());
        }
    }
}

void Connector::look(Clock::time_point now) {
    for (unsigned number = 0; number < peers_.size(); ++number) {
        look_at(number, now);
    }
    for (auto next = attempts_.begin(); next != attempts_.end();) {
        const auto attempt = next++;
        if (now - attempt->began >= limit_of(*attempt)) {
            fail(attempt, "it took too long");
        }
    }
}

Connector::Clock::duration Connector::limit_of(const Attempt& attempt) {
    return attempt.peer || attempt.spoke ? handshake_limit : first_word_limit;
}

void Connector::look_at(unsigned number, Clock::time_point now) {
    Peer& peer = peers_[number];
    if (!peer.up) {
        if (peer.options && peer.connects && !peer.trying && now >= peer.next_try) {
            connect(number);
        }
        return;
    }
    if (const std::uint64_t heard = handover_->heard(number); heard != peer.heard) {
        peer.heard = heard;
        peer.last_heard = now;
    }
    if (now - peer.last_heard >= silence_limit) {
        peer.last_heard = now; // so that this is not repeated before it is done
        log_.warn("nothing is heard from {}", peer.options->name);
        handover_->withdraw(number);
    } else if (now - peer.said_alive >= alive_every) {
        peer.said_alive = now;
        handover_->say_alive(number);
    }
}

std::optional<unsigned> Connector::find(const std::string& name) const {
    const auto found = std::ranges::find_if(
        peers_, [&](const Peer& peer) { return peer.options && peer.options->name == name; });
    if (found == peers_.end()) {
        return std::nullopt;
    }
    return static_cast<unsigned>(found - peers_.begin());
}

Connector::Attempts::iterator Connector::find(Id id) {
    return std::ranges::find(attempts_, std::optional{id}, &Attempt::handshake);
}

} // namespace vrdma::wire::fabric
