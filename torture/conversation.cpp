// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/conversation.h"

#include <numeric>
#include <utility>

#include "torture/shared_receive.h"

namespace vrdma::torture {
namespace {

constexpr std::size_t most_connections = 8;

void add_connection(Conversation& c) {
    place.doing = "connect";
    const Shape drawn = Shape::drawn(c.script);
    const Shape shape = c.lossy ? drawn.on_lossy_network() : drawn;
    c.connections.push_back(std::make_unique<Connection>(shape, c.device, c.parts()));
    c.connections.back()->connect(c.control, c.own);
}

void remove_connection(Conversation& c) {
    place.doing = "disconnect";
    std::swap(c.script.pick(c.connections), c.connections.back());
    c.connections.pop_back();
}

// Resets a connection. All that was posted to it vanishes without a completion.
void start_anew(Conversation& c) {
    place.doing = "reset";
    Connection& connection = *c.script.pick(c.connections);
    std::vector<unsigned> posted;
    if (!connection.shape().shared) {
        posted.push_back(c.post_receive(connection, c.own.length(longest_message)));
    }
    connection.to_state(IBV_QPS_RESET);
    for (const unsigned slot : posted) {
        c.free_receive(slot);
    }
    require(c.completions.empty(), "a completion of a QP that was reset");
    connection.connect(c.control, c.own);
}

void move_memory(Conversation& c) {
    place.doing = "register again";
    c.arena.register_again();
    c.exchange_addresses();
}

// Only an RC connection can bind a window.
void bind_window(Conversation& c) {
    place.doing = "bind a window";
    const Connection& connection = *c.script.pick(c.connections);
    if (connection.shape().type != IBV_QPT_RC) {
        return;
    }
    c.arena.bind_window(connection.qp());
    bool done = false;
    c.completions.await(
        c.control, c.own, [&] { return done; },
        [&](const ibv_wc& completion) {
            require(completion.status == IBV_WC_SUCCESS, "a window is not bound");
            require(completion.opcode == IBV_WC_BIND_MW, "wrong opcode of a bind");
            done = true;
        });
    c.exchange_addresses();
}

// The device's thread reads each event of a limit.
void arm_limit(Conversation& c) {
    place.doing = "arm the SRQ's limit";
    ibv_srq_attr attr{};
    attr.srq_limit = c.own.between(1, Arena::receives);
    check(::ibv_modify_srq(c.srq.get(), &attr, IBV_SRQ_LIMIT), "ibv_modify_srq");
}

void step(Conversation& c) {
    const std::uint32_t what = c.script.below(100);
    if (c.connections.empty() || (what < 20 && c.connections.size() < most_connections)) {
        add_connection(c);
    } else if (what < 27) {
        remove_connection(c);
    } else if (what < 33) {
        start_anew(c);
    } else if (what < 42) {
        provoke(c);
    } else if (what < 48) {
        storm(c);
    } else if (what < 51) {
        move_memory(c);
    } else if (what < 54) {
        arm_limit(c);
    } else if (what < 59) {
        bind_window(c);
    } else {
        burst(c);
    }
}

} // namespace

Conversation::Conversation(const Device& with, ControlConnection to, unsigned which,
                           bool loses_packets)
    : device{with},
      control{std::move(to)},
      side{which},
      lossy{loses_packets},
      script{Random::of({place.seed, place.round, place.conversation})},
      own{Random::of({place.seed, place.round, place.conversation, 1 + which})},
      arena{device},
      completions{device, own},
      srq{made_srq(arena.pd())},
      xrcd{made_xrcd(device)},
      xrc_srq{made_xrc_srq(device, arena.pd(), xrcd.get(), completions.receive_cq())},
      free_receives(Arena::receives) {
    std::iota(free_receives.begin(), free_receives.end(), 0);
    exchange_addresses();
}

unsigned Conversation::post_receive(const Connection& connection, std::uint32_t length) {
    require(!free_receives.empty(), "no receive slot is free");
    const unsigned slot = free_receives.back();
    free_receives.pop_back();
    std::byte* const start = arena.receive(slot);
    const auto size = static_cast<std::uint32_t>(length + connection.shape().header());
    if (!connection.shape().shared) {
        blank({start, size + guard_size});
        auto pieces = arena.cut(own, start, size, connection.shape().receive_sges);
        connection.post_receive(is_receive | slot, pieces);
        return slot;
    }
    // Any connection with the SRQ may take it, so it has room for the longest message.
    constexpr auto whole = static_cast<std::uint32_t>(longest_message + grh_size);
    blank({start, whole + guard_size});
    auto pieces = arena.cut(own, start, whole, srq_sges);
    ibv_recv_wr wr{.wr_id = is_receive | slot,
                   .next = nullptr,
                   .sg_list = pieces.data(),
                   .num_sge = static_cast<int>(pieces.size())};
    ibv_recv_wr* bad = nullptr;
    const bool xrc = connection.shape().type == IBV_QPT_XRC_SEND;
    check(::ibv_post_srq_recv(xrc ? xrc_srq.get() : srq.get(), &wr, &bad), "ibv_post_srq_recv");
    return slot;
}

void Conversation::resize_srqs() {
    for (ibv_srq* const each : {srq.get(), xrc_srq.get()}) {
        const std::uint32_t wanted = own.between(Arena::receives, 8 * Arena::receives);
        ibv_srq_attr attr{.max_wr = wanted, .max_sge = 0, .srq_limit = 0};
        check(::ibv_modify_srq(each, &attr, IBV_SRQ_MAX_WR), "ibv_modify_srq");
        require(attr.max_wr >= wanted, "an SRQ is smaller than it was to become");
    }
}

Connection* Conversation::find(std::uint32_t qpn) const {
    for (const auto& connection : connections) {
        if (connection->has(qpn)) {
            return connection.get();
        }
    }
    fail("a completion of an unknown QP");
}

Parts Conversation::parts() const {
    return {arena.pd(), completions, srq.get(), xrcd.get(), xrc_srq.get()};
}

std::uint64_t Conversation::key(std::uint64_t first, std::uint64_t second) const {
    return Random::of({place.seed, place.round, place.conversation, place.step, first, second})
        .next();
}

void converse(Conversation& conversation, unsigned steps, unsigned victim) {
    for (place.step = 0; place.step < steps; ++place.step) {
        place.doing = "begin";
        conversation.meet();
        step(conversation);
    }
    if (victim != nobody) {
        kill_one(conversation, victim);
    }
    place.doing = "end";
}

} // namespace vrdma::torture
