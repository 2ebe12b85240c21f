// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A program cannot tell whether its two sides are on one host or on two. The same random script
// runs in both placements, and its completions, bytes, states and async events are the same.
// VRDMA_TEST_SEED selects another script, and VRDMA_TEST_STEPS a longer one.
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <random>
#include <string>

#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

constexpr std::size_t pairs = 4; // the last is UC
constexpr std::uint64_t region_size = 1 << 14;
constexpr std::uint32_t depth = 16;

std::uint64_t from_environment(const char* name, std::uint64_t usual) {
    const char* value = std::getenv(name); // NOLINT(concurrency-mt-unsafe)
    return value != nullptr ? std::strtoull(value, nullptr, 0) : usual;
}

// The attributes with which one side is connected.
struct SideTerms {
    std::uint8_t path_mtu = IBV_MTU_1024;
    std::uint32_t access_flags = all_access;
    std::uint8_t max_rd_atomic = 16;
    std::uint8_t max_dest_rd_atomic = 16;
    std::uint32_t sq_psn = 0;
    std::uint32_t rq_psn = 0;
};

struct Post {
    bool receive = false;
    vrdma_sq_opcode opcode = VRDMA_SQ_SEND;
    std::uint32_t flags = VRDMA_SQ_SIGNALED;
    std::uint32_t length = 0;
    std::uint64_t local = 0; // offsets in the regions
    std::uint64_t remote = 0;
    bool bad_lkey = false;
    bool bad_rkey = false;
};

// The operations before the program compares results: one side sends, and the other has receives.
struct Batch {
    std::size_t pair = 0;
    bool b_sends = false;
    bool renews = false;
    SideTerms terms[2];
    std::vector<Post> posts;
};

class Script {
  public:
    explicit Script(std::uint64_t seed) : random_{seed} {}

    Batch next() {
        Batch batch;
        batch.pair = below(pairs);
        batch.b_sends = below(2) != 0;
        batch.renews = below(3) != 0 || !connected_[batch.pair];
        connected_[batch.pair] = true;
        const std::uint32_t psns[] = {below(1 << 24), below(1 << 24)};
        for (unsigned side = 0; side < 2; ++side) {
            SideTerms& terms = batch.terms[side];
            terms = usual_terms();
            terms.sq_psn = psns[side];
            terms.rq_psn = rarely() ? below(1 << 24) : psns[1 - side];
        }
        for (std::uint32_t n = below(depth); n != 0; --n) {
            batch.posts.push_back(receive());
        }
        for (std::uint32_t n = 1 + below(depth - 1); n != 0; --n) {
            batch.posts.push_back(send(batch.pair == pairs - 1));
        }
        return batch;
    }

  private:
    std::uint32_t below(std::uint32_t end) {
        return std::uniform_int_distribution<std::uint32_t>{0, end - 1}(random_);
    }
    bool rarely() { return below(30) == 0; }

    SideTerms usual_terms() {
        SideTerms terms;
        terms.path_mtu = rarely() ? IBV_MTU_256 : IBV_MTU_1024;
        terms.access_flags = rarely() ? std::uint32_t{IBV_ACCESS_LOCAL_WRITE} : all_access;
        terms.max_rd_atomic = rarely() ? 0 : 16;
        terms.max_dest_rd_atomic = rarely() ? 0 : 16;
        return terms;
    }

    std::uint32_t length() {
        switch (below(4)) {
            case 0:
                return below(3);
            case 1:
                return below(65);
            case 2:
                return 1024 * below(4);
            default:
                return below(5000);
        }
    }

    Post receive() {
        Post post;
        post.receive = true;
        post.length = below(3) == 0 ? length() : 5000;
        post.local = below(region_size - 5000);
        post.bad_lkey = rarely();
        return post;
    }

    Post send(bool unreliable) {
        static constexpr vrdma_sq_opcode opcodes[] = {
            VRDMA_SQ_SEND,         VRDMA_SQ_SEND_WITH_IMM,       VRDMA_SQ_RDMA_WRITE,
            VRDMA_SQ_RDMA_READ,    VRDMA_SQ_RDMA_WRITE_WITH_IMM, VRDMA_SQ_ATOMIC_CMP_AND_SWP,
            VRDMA_SQ_ATOMIC_WRITE, VRDMA_SQ_ATOMIC_FETCH_AND_ADD};
        Post post;
        post.opcode = opcodes[below(unreliable && !rarely() ? 3 : 8)];
        const bool word = post.opcode >= VRDMA_SQ_ATOMIC_CMP_AND_SWP;
        post.length = word ? 8 : length();
        post.local = below(region_size - 5000);
        post.remote = rarely() ? region_size - 4 : below(region_size - 5000);
        if (word && !rarely()) {
            post.remote &= ~std::uint64_t{7};
        }
        post.bad_lkey = rarely();
        post.bad_rkey = rarely();
        post.flags |= rarely() ? VRDMA_SQ_FENCE : 0u;
        return post;
    }

    std::mt19937_64 random_;
    std::array<bool, pairs> connected_{};
};

// Two guests with pairs of QPs, and everything that they observe.
class World {
  public:
    explicit World(bool apart) : guests_{apart} {
        for (std::size_t pair = 0; pair < pairs; ++pair) {
            const hca::QpType type = pair == pairs - 1 ? hca::QpType::uc : hca::QpType::rc;
            sides_.push_back(make_side(guests_.a_, type));
            sides_.push_back(make_side(guests_.b_, type));
        }
    }

    // Returns a line for each observation of the program.
    std::vector<std::string> run(const Batch& batch) {
        Side& sender = sides_[2 * batch.pair + (batch.b_sends ? 1 : 0)];
        Side& receiver = sides_[2 * batch.pair + (batch.b_sends ? 0 : 1)];
        if (batch.renews) {
            renew(batch);
        }
        std::size_t sends = 0;
        for (const Post& post : batch.posts) {
            if (post.receive) {
                post_receive(receiver, post);
            } else {
                write_send(sender, receiver, post);
                ++sends;
            }
        }
        sender.qp.announce_sends();
        seen_.clear();
        clean_ = true;
        for (; sends != 0 && !testing::Test::HasFailure(); --sends) {
            see("sender", guests_.wait(sender.send_cq), sender);
        }
        look(sender, receiver);
        return std::move(seen_);
    }

  private:
    struct Side {
        Guest& guest;
        GuestCq send_cq;
        GuestCq recv_cq;
        GuestQp qp;
        MemoryRegion mr;
        std::uint32_t posted_receives = 0;
    };

    static Side make_side(Guest& guest, hca::QpType type) {
        GuestCq send_cq = guest.create_cq(2 * depth);
        GuestCq recv_cq = guest.create_cq(4 * depth);
        GuestQp qp = guest.create_qp(send_cq, recv_cq,
                                     {.type = type, .sq_depth = depth, .rq_depth = 2 * depth});
        MemoryRegion mr = guest.register_mr(region_size);
        return {guest, std::move(send_cq), std::move(recv_cq), std::move(qp), std::move(mr)};
    }

    void renew(const Batch& batch) {
        Side* const both[] = {&sides_[2 * batch.pair], &sides_[2 * batch.pair + 1]};
        for (Side* side : both) {
            EXPECT_TRUE(side->guest.slice().modify_qp(side->qp.id(), state_attr(IBV_QPS_RESET)));
            side->qp.reset();
            side->posted_receives = 0;
            side->mr.buffer.fill(7);
        }
        for (unsigned i = 0; i < 2; ++i) {
            connect(*both[i], *both[1 - i], batch.terms[i]);
        }
    }

    static void connect(Side& side, Side& peer, const SideTerms& terms) {
        move_to_init(side.guest, side.qp, terms.access_flags);
        vrdma_qp_attr attr = rtr_attr(peer.guest.gid(), peer.qp.id());
        attr.path_mtu = terms.path_mtu;
        attr.max_dest_rd_atomic = terms.max_dest_rd_atomic;
        attr.rq_psn = terms.rq_psn;
        EXPECT_TRUE(side.guest.slice().modify_qp(side.qp.id(), attr));
        attr = rts_attr();
        attr.sq_psn = terms.sq_psn;
        attr.max_rd_atomic = terms.max_rd_atomic;
        attr.rnr_retry = 1;
        EXPECT_TRUE(side.guest.slice().modify_qp(side.qp.id(), attr));
    }

    static void post_receive(Side& side, const Post& post) {
        if (side.posted_receives == 2 * depth) {
            return;
        }
        vrdma_sge to = side.mr.sge(post.local, post.length);
        to.lkey = post.bad_lkey ? 0x4711 : to.lkey;
        side.qp.post_recv({&to, 1});
        ++side.posted_receives;
    }

    static void write_send(Side& side, const Side& peer, const Post& post) {
        vrdma_sge local = side.mr.sge(post.local, post.length);
        local.lkey = post.bad_lkey ? 0x4711 : local.lkey;
        side.qp.write_send({.opcode = post.opcode,
                            .flags = post.flags,
                            .imm = static_cast<std::uint32_t>(post.local),
                            .sges = {&local, 1},
                            .rkey = post.bad_rkey ? Key{0x4711} : peer.mr.key,
                            .raddr = peer.mr.start + post.remote,
                            .compare_add = 7,
                            .swap = 9});
    }

    void see(const char* who, const Completion& completion, const Side& side) {
        EXPECT_EQ(completion.qpn, side.qp.id().value);
        const bool good = completion.status == IBV_WC_SUCCESS;
        clean_ = clean_ && good;
        seen_.push_back(fmt::format(
            "{}: {} {} status {} opcode {} bytes {} imm {}/{}", who,
            completion.receive ? "receive" : "send", completion.index, int{completion.status},
            good ? int{completion.opcode} : 0, good && completion.receive ? completion.byte_len : 0,
            completion.with_imm, good && completion.with_imm ? completion.imm : 0));
    }

    // Records everything that is observed once all that was sent has completed.
    void look(Side& sender, Side& receiver) {
        guests_.settle();
        for (Side* side : {&sender, &receiver}) {
            const char* const who = side == &sender ? "sender" : "receiver";
            while (const auto completion = side->send_cq.poll()) {
                ADD_FAILURE() << "a completion for nothing";
            }
            while (const auto completion = side->recv_cq.poll()) {
                --side->posted_receives;
                see(who, *completion, *side);
            }
            seen_.push_back(fmt::format("{}: state {}", who, int{state_of(side->guest, side->qp)}));
            while (const auto event = side->guest.eq().poll()) {
                seen_.push_back(fmt::format("{}: event {}", who, event->type));
            }
        }
        if (clean_) { // memory after a failed message is unspecified
            see_bytes("sender", sender);
            see_bytes("receiver", receiver);
        }
        for (Side* side : {&sender, &receiver}) {
            side->mr.buffer.fill(7);
        }
    }

    void see_bytes(const char* who, const Side& side) {
        const auto bytes = side.mr.buffer.read(0, region_size);
        std::uint64_t digest = 0;
        for (const std::byte byte : bytes) {
            digest = digest * 31 + std::to_integer<std::uint64_t>(byte);
        }
        seen_.push_back(fmt::format("{}: bytes {:x}", who, digest));
    }

    GuestPair guests_;
    std::vector<Side> sides_;
    std::vector<std::string> seen_;
    bool clean_ = true;
};

std::string describe(const Batch& batch) {
    std::string text = fmt::format("pair {}, {} sends{}\n", batch.pair, batch.b_sends ? "b" : "a",
                                   batch.renews ? ", renewed" : "");
    for (const SideTerms& terms : batch.terms) {
        text += fmt::format("  mtu {} access {:x} rd {}/{} psn {:x}/{:x}\n", terms.path_mtu,
                            terms.access_flags, terms.max_rd_atomic, terms.max_dest_rd_atomic,
                            terms.sq_psn, terms.rq_psn);
    }
    for (const Post& post : batch.posts) {
        text += fmt::format("  {} {} bytes {}->{}{}{} flags {:x}\n",
                            post.receive ? "receive" : fmt::format("opcode {}", int{post.opcode}),
                            post.length, post.local, post.remote, post.bad_lkey ? " bad lkey" : "",
                            post.bad_rkey ? " bad rkey" : "", post.flags);
    }
    return text;
}

// Runs the same script on one host and on two; expects the program to see the same.
TEST(Placement, CannotBeSeen) {
    const std::uint64_t seed = from_environment("VRDMA_TEST_SEED", 1);
    const std::uint64_t steps = from_environment("VRDMA_TEST_STEPS", 20000);
    Script script{seed};
    World together{false};
    World apart{true};
    std::uint64_t done = 0;
    while (done < steps && !testing::Test::HasFailure()) {
        const Batch batch = script.next();
        EXPECT_EQ(together.run(batch), apart.run(batch))
            << "seed " << seed << ", after " << done << " steps: " << describe(batch);
        done += batch.posts.size();
    }
}

} // namespace
} // namespace vrdma::test
