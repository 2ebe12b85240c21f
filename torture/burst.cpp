// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Messages of all kinds over several connections, in both directions at once. Each message is
// verified where it arrives, and so is the memory behind it.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "torture/conversation.h"
#include "torture/request.h"

namespace vrdma::torture {
namespace {

struct Operation : Request {
    std::size_t connection = 0;
    bool late = false; // its receive is posted when the message may already be under way
};

using Plan = std::vector<Operation>;

Operation drawn_operation(Random& script, const Shape& shape) {
    Operation operation;
    operation.opcode = script.pick(opcodes_of(shape.type));
    operation.length = operation.is_atomic() ? atomic_size : script.length(shape.longest());
    operation.imm = static_cast<std::uint32_t>(script.next());
    operation.inlined =
        !operation.is_fetch() && operation.length <= shape.inline_size && script.chance(50);
    operation.signaled = shape.signal_all || script.chance(60);
    operation.solicited = script.chance(20);
    operation.fenced = shape.reliable() && script.chance(10);
    operation.matches = script.chance(50);
    return operation;
}

// Makes the last operation of a connection report that all before it is done. With UC, the sender's
// completion only says that it was sent. Only a receive says that it has arrived.
void tell_the_end(Operation& last, const Shape& shape) {
    last.signaled = true;
    if (shape.type == IBV_QPT_UC && last.opcode == IBV_WR_RDMA_WRITE) {
        last.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    }
}

// The messages of one direction, within what the queues of each connection hold.
Plan draw_plan(Conversation& c, const std::vector<std::size_t>& chosen) {
    Plan plan;
    const bool late = c.script.chance(20);
    std::vector<std::uint32_t> sends(c.connections.size());
    std::vector<std::uint32_t> receives(c.connections.size());
    for (std::uint32_t left = c.script.below(Arena::messages + 1); left > 0; --left) {
        const std::size_t index = c.script.pick(chosen);
        const Shape& shape = c.connections[index]->shape();
        Operation operation = drawn_operation(c.script, shape);
        operation.connection = index;
        // Connections of other kinds do not wait for a receive, or they take one that is meant for
        // another message.
        operation.late = late && shape.type == IBV_QPT_RC && shape.patient() && !shape.shared;
        const bool takes_receive = operation.takes_receive() || shape.type == IBV_QPT_UC;
        if (sends[index] == shape.send_depth ||
            (takes_receive && receives[index] == shape.receive_depth)) {
            continue;
        }
        ++sends[index];
        receives[index] += takes_receive ? 1 : 0;
        plan.push_back(operation);
    }
    std::vector<bool> later(c.connections.size());
    for (auto operation = plan.rbegin(); operation != plan.rend(); ++operation) {
        if (!later[operation->connection]) {
            tell_the_end(*operation, c.connections[operation->connection]->shape());
        }
        later[operation->connection] = true;
    }
    return plan;
}

class Burst {
  public:
    Burst(Conversation& c, const Plan& outgoing, const Plan& incoming)
        : c_{c},
          outgoing_{outgoing},
          incoming_{incoming},
          unsent_(c.connections.size()),
          unreceived_(c.connections.size()) {}

    void run();

  private:
    std::uint64_t key(unsigned sender, std::size_t index) const { return c_.key(sender, index); }
    std::uint64_t out_key(std::size_t index) const { return key(c_.side, index); }
    std::uint64_t in_key(std::size_t index) const { return key(1 - c_.side, index); }

    void expect(std::size_t index);
    void prepare(std::size_t index);
    void post_receives(bool late);
    void post_sends();
    ibv_send_wr request(std::size_t index, std::vector<ibv_sge>& pieces);
    void take(const ibv_wc& completion);
    void take_send(const ibv_wc& completion);
    void take_receive(const ibv_wc& completion);
    void verify_fetched(std::size_t index) const;
    void verify_target(std::size_t index) const;

    Conversation& c_;
    const Plan& outgoing_;
    const Plan& incoming_;
    // Indexed by connection. Messages are in the order in which they complete.
    std::vector<std::deque<std::size_t>> unsent_;
    std::vector<std::deque<std::size_t>> unreceived_;
    std::size_t left_ = 0;
};

std::uint64_t word_at(const std::byte* start) {
    std::uint64_t word = 0;
    std::memcpy(&word, start, sizeof(word));
    return word;
}

// Prepares the memory that the peer's message will change or read.
void Burst::expect(std::size_t index) {
    const Operation& operation = incoming_[index];
    std::byte* const target = c_.arena.target(static_cast<unsigned>(index));
    if (operation.is_write()) {
        blank({target, operation.length + guard_size});
    } else if (operation.is_fetch()) {
        fill({target, operation.length}, in_key(index));
    }
    if (operation.takes_receive()) {
        unreceived_[operation.connection].push_back(index);
        ++left_;
    }
}

void Burst::prepare(std::size_t index) {
    const Operation& operation = outgoing_[index];
    std::byte* const source = c_.arena.source(static_cast<unsigned>(index));
    if (operation.is_fetch()) {
        blank({source, operation.length + guard_size});
    } else {
        fill({source, operation.length}, out_key(index));
    }
    unsent_[operation.connection].push_back(index);
    ++left_;
}

void Burst::post_receives(bool late) {
    for (const Operation& operation : incoming_) {
        if (operation.takes_receive() && operation.late == late) {
            const bool empty = operation.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
            c_.post_receive(*c_.connections[operation.connection], late    ? longest_message
                                                                   : empty ? 0
                                                                           : operation.length);
        }
    }
}

ibv_send_wr Burst::request(std::size_t index, std::vector<ibv_sge>& pieces) {
    const Operation& operation = outgoing_[index];
    const Connection& connection = *c_.connections[operation.connection];
    const std::byte* const source = c_.arena.source(static_cast<unsigned>(index));
    const bool whole = operation.is_atomic() || operation.length == 0;
    if (operation.length != 0 || c_.own.chance(50)) {
        pieces = c_.arena.cut(c_.own, source, operation.length,
                              whole ? 1 : connection.shape().send_sges);
    }
    ibv_send_wr wr{};
    wr.wr_id = index;
    wr.sg_list = pieces.data();
    wr.num_sge = static_cast<int>(pieces.size());
    wr.opcode = operation.opcode;
    wr.imm_data = operation.imm;
    wr.send_flags = operation.send_flags();
    const std::uint64_t target = c_.peer.target(static_cast<unsigned>(index));
    if (operation.is_atomic()) {
        const std::uint64_t random = Random{out_key(index)}.next();
        wr.wr.atomic = {.remote_addr = target,
                        .compare_add = operation.matches ? random : operation.imm,
                        .swap = operation.imm,
                        .rkey = c_.peer.rkey};
    } else {
        wr.wr.rdma = {.remote_addr = target, .rkey = c_.peer.rkey};
    }
    connection.address(wr);
    return wr;
}

// Posts requests one by one, or as lists.
void Burst::post_sends() {
    for (std::size_t first = 0; first < outgoing_.size();) {
        std::array<std::vector<ibv_sge>, Arena::messages> pieces;
        std::array<ibv_send_wr, Arena::messages> list{};
        const std::size_t connection = outgoing_[first].connection;
        const std::size_t most = c_.own.between(1, Arena::messages);
        std::size_t count = 0;
        for (; first + count < outgoing_.size() && count < most &&
               outgoing_[first + count].connection == connection;
             ++count) {
            list[count] = request(first + count, pieces[count]);
            if (count > 0) {
                list[count - 1].next = &list[count];
            }
        }
        c_.connections[connection]->post(list.data());
        for (std::size_t index = first; index < first + count; ++index) {
            if (outgoing_[index].inlined) { // the device does not need the memory any more
                blank({c_.arena.source(static_cast<unsigned>(index)), outgoing_[index].length});
            }
        }
        first += count;
    }
}

ibv_wc_opcode completion_opcode(ibv_wr_opcode opcode) {
    switch (opcode) {
        case IBV_WR_RDMA_WRITE:
        case IBV_WR_RDMA_WRITE_WITH_IMM:
            return IBV_WC_RDMA_WRITE;
        case IBV_WR_RDMA_READ:
            return IBV_WC_RDMA_READ;
        case IBV_WR_ATOMIC_CMP_AND_SWP:
            return IBV_WC_COMP_SWAP;
        case IBV_WR_ATOMIC_FETCH_AND_ADD:
            return IBV_WC_FETCH_ADD;
        default:
            return IBV_WC_SEND;
    }
}

void Burst::take(const ibv_wc& completion) {
    if (completion.status != IBV_WC_SUCCESS) {
        lost_peer(std::string{"a message failed: "} + ::ibv_wc_status_str(completion.status) +
                  ", vendor error " + std::to_string(completion.vendor_err));
    }
    if ((completion.wr_id & is_receive) != 0) {
        take_receive(completion);
    } else {
        take_send(completion);
    }
}

void Burst::take_send(const ibv_wc& completion) {
    require(completion.wr_id < outgoing_.size(), "a completion of an unknown message");
    const Operation& operation = outgoing_[completion.wr_id];
    require(operation.signaled, "a completion that was not asked for");
    require(completion.opcode == completion_opcode(operation.opcode), "wrong opcode of a send");
    auto& unsent = unsent_[operation.connection];
    for (bool done = false; !done; --left_) {
        require(!unsent.empty() && unsent.front() <= completion.wr_id, "completed twice");
        const std::size_t index = unsent.front();
        unsent.pop_front();
        done = index == completion.wr_id;
        require(done || !outgoing_[index].signaled, "a completion is missing");
        if (outgoing_[index].is_fetch()) {
            verify_fetched(index);
        }
    }
}

void Burst::take_receive(const ibv_wc& completion) {
    const Connection* const connection = c_.find(completion.qp_num);
    const auto at = std::ranges::find_if(
        c_.connections, [&](const auto& each) { return each.get() == connection; });
    auto& unreceived = unreceived_[static_cast<std::size_t>(at - c_.connections.begin())];
    require(!unreceived.empty(), "more was received than sent");
    const std::size_t index = unreceived.front();
    unreceived.pop_front();
    --left_;
    const Operation& operation = incoming_[index];
    require(completion.opcode == (operation.is_send() ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM),
            "wrong opcode of a receive");
    const std::size_t header = connection->shape().header();
    require(completion.byte_len == operation.length + header, "wrong byte_len");
    require(((completion.wc_flags & IBV_WC_WITH_IMM) != 0) == operation.has_imm(),
            "wrong immediate flag");
    require(!operation.has_imm() || completion.imm_data == operation.imm, "wrong immediate data");
    require(header == 0 || ((completion.wc_flags & IBV_WC_GRH) != 0 &&
                            completion.src_qp == connection->peer_qpn()),
            "wrong source of a datagram");
    const std::uint64_t slot = completion.wr_id & ~is_receive;
    const std::byte* const start = c_.arena.receive(static_cast<unsigned>(slot)) + header;
    const std::size_t received = operation.is_send() ? operation.length : 0;
    verify({start, received}, in_key(index), "received");
    verify_blank({start + received, guard_size}, "behind what was received");
    c_.free_receive(slot);
}

void Burst::verify_fetched(std::size_t index) const {
    const Operation& operation = outgoing_[index];
    const std::byte* const start = c_.arena.source(static_cast<unsigned>(index));
    verify({start, operation.length}, out_key(index),
           operation.is_atomic() ? "original value of an atomic" : "read");
    verify_blank({start + operation.length, guard_size}, "behind what was read");
}

void Burst::verify_target(std::size_t index) const {
    const Operation& operation = incoming_[index];
    const std::byte* const start = c_.arena.target(static_cast<unsigned>(index));
    if (operation.is_write()) {
        verify({start, operation.length}, in_key(index), "written");
        verify_blank({start + operation.length, guard_size}, "behind what was written");
    } else if (operation.is_atomic()) {
        const std::uint64_t original = Random{in_key(index)}.next();
        const std::uint64_t operand = operation.matches ? original : operation.imm;
        const bool adds = operation.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
        const std::uint64_t swapped = operation.matches ? operation.imm : original;
        require(word_at(start) == (adds ? original + operand : swapped),
                "wrong result of an atomic");
    }
}

void Burst::run() {
    for (std::size_t index = 0; index < incoming_.size(); ++index) {
        expect(index);
    }
    for (std::size_t index = 0; index < outgoing_.size(); ++index) {
        prepare(index);
    }
    post_receives(false);
    c_.meet();
    post_sends();
    post_receives(true);
    if (c_.own.chance(20)) {
        c_.completions.resize(c_.own);
    }
    if (c_.own.chance(20)) {
        c_.resize_srqs();
    }
    c_.completions.await(
        c_.control, c_.own, [&] { return left_ == 0; },
        [&](const ibv_wc& completion) { take(completion); });
    c_.meet();
    for (std::size_t index = 0; index < incoming_.size(); ++index) {
        verify_target(index);
    }
    require(c_.completions.empty(), "a completion that was not asked for");
}

} // namespace

void burst(Conversation& c) {
    place.doing = "burst";
    std::vector<std::size_t> chosen;
    for (std::uint32_t left = c.script.between(1, 3); left > 0; --left) {
        chosen.push_back(c.script.below(static_cast<std::uint32_t>(c.connections.size())));
    }
    const std::array plans{draw_plan(c, chosen), draw_plan(c, chosen)};
    Burst{c, plans[c.side], plans[1 - c.side]}.run();
    for (const Operation& operation : plans[c.side]) {
        ++c.counts.messages;
        c.counts.bytes += operation.length;
    }
}

} // namespace vrdma::torture
