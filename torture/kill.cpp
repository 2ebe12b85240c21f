// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A process is killed without warning while the other one writes to its memory.
#include <sched.h>

#include <csignal>

#include "torture/conversation.h"

namespace vrdma::torture {
namespace {

// Writes until the first WRITE that fails.
void write_on(Conversation& c, const Connection& connection) {
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(c.arena.source(0)), longest_message,
                  c.arena.lkey(c.own)};
    ibv_send_wr wr{};
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {.remote_addr = c.peer.target(0), .rkey = c.peer.rkey};
    for (bool failed = false; !failed;) {
        ibv_send_wr* bad = nullptr;
        check(::ibv_post_send(connection.qp(), &wr, &bad), "ibv_post_send");
        bool done = false;
        c.completions.await(
            c.control, c.own, [&] { return done; },
            [&](const ibv_wc& completion) {
                done = true;
                failed = completion.status != IBV_WC_SUCCESS;
            });
    }
}

} // namespace

void kill_one(Conversation& c, unsigned victim) {
    place.doing = "kill";
    if (c.side != victim) {
        peer_may_die = true;
    }
    c.meet();
    Shape shape;
    Connection connection{shape, c.device, c.parts()};
    connection.connect(c.control, c.own);
    c.meet();
    if (c.side != victim) {
        write_on(c, connection);
        return;
    }
    for (std::uint32_t turns = c.own.length(1000); turns > 0; --turns) {
        ::sched_yield();
    }
    static_cast<void>(std::raise(SIGKILL));
}

} // namespace vrdma::torture
