// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The engine with the rings of VMware's device: a guest of that device, and a peer of vrdma's own.
#include <infiniband/verbs.h>

#include "mediator/hca/soft/tests/two_guests.h"
#include "mediator/tests/guest/pvrdma_rings.h"

namespace vrdma::test {
namespace {

constexpr std::uint32_t event_pages = 4; // as Linux's driver has them
constexpr std::uint32_t async_entries =
    std::size_t{3} * PVRDMA_PAGE_SIZE / sizeof(pvrdma_async_event);
constexpr std::uint32_t completion_entries =
    std::size_t{3} * PVRDMA_PAGE_SIZE / sizeof(pvrdma_completion_event);

// An address beside ipv4_gid(n) that is on the same host.
Gid other_gid(std::uint8_t n) {
    Gid gid = ipv4_gid(n);
    gid[0] = 0xfd;
    return gid;
}

class PvGuest final : public hca::SliceHost {
  public:
    PvGuest(hca::Hca& hca, const std::string& uplink)
        : slice{*hca.carve({.name = "pv",
                            .memory = memory_.get(),
                            .doorbells = {doorbells_.get(), Guest::doorbell_pages},
                            .kick_fd = kick_.fd(),
                            .uplink = uplink,
                            .max_qp = 1 << 10,
                            .max_cq = 1 << 10,
                            .max_mr = 1 << 10,
                            .format = hca::QueueFormat::pvrdma},
                           *this)} {
        EXPECT_TRUE(slice->set_gid(0, VRDMA_GID_ROCE_V2, other_gid(1), 0));
        EXPECT_TRUE(slice->create_eq({EqId{1}, async.buffer().pages(),
                                      pvrdma_event_depth(event_pages, sizeof(pvrdma_async_event)),
                                      PVRDMA_VECTOR_ASYNC, hca::EventKind::async}));
        EXPECT_TRUE(
            slice->create_eq({EqId{2}, completions.buffer().pages(),
                              pvrdma_event_depth(event_pages, sizeof(pvrdma_completion_event)),
                              PVRDMA_VECTOR_COMPLETION, hca::EventKind::completion}));
    }

    PvCq create_cq(std::uint32_t depth = 64) {
        Buffer buffer = pages.allocate(pvrdma_ring_buffer_size(depth, VRDMA_CQE_SHIFT));
        hca::CqSpec spec;
        spec.id = Cqn{next_id_++};
        spec.pages = buffer.pages();
        spec.depth = depth;
        spec.eq = EqId{2};
        EXPECT_TRUE(slice->create_cq(spec));
        return {std::move(buffer), depth};
    }

    PvQp create_qp(Cqn cq, hca::QpType type = hca::QpType::rc, const PvShape& shape = {},
                   Srqn srq = {}) {
        const Buffer buffer = pages.allocate(shape.size());
        hca::QpSpec spec;
        spec.id = Qpn{0x500 + next_id_};
        spec.handle = next_id_++;
        spec.type = type;
        spec.pd = Guest::pd;
        spec.send_cq = spec.recv_cq = cq;
        spec.srq = srq;
        spec.pages = buffer.pages();
        spec.sq_depth = shape.sq_depth;
        spec.rq_depth = srq != Srqn{} ? 0 : shape.rq_depth;
        spec.sq_stride_shift = static_cast<std::uint8_t>(shape.sq_shift());
        spec.rq_stride_shift = static_cast<std::uint8_t>(shape.rq_shift());
        spec.max_send_sge = static_cast<std::uint16_t>(shape.max_send_sge);
        spec.max_recv_sge = static_cast<std::uint16_t>(srq != Srqn{} ? 0 : shape.max_recv_sge);
        const auto slot = slice->create_qp(spec);
        EXPECT_TRUE(slot);
        // The device does this for a doorbell of the guest (device/pvrdma).
        return {spec.id.value, spec.handle, shape, buffer, [this, slot = *slot](std::uint32_t) {
                    doorbells_[0].slot[slot] = 1;
                    doorbells_[0].line[slot >> VRDMA_DOORBELL_LINE_SHIFT] = 1;
                    kick_.signal();
                }};
    }

    MemoryRegion register_mr(std::uint64_t size) {
        MemoryRegion region{pages.allocate(size), Key{next_id_++ << 8 | 0x33}, 0x10000};
        hca::MrSpec spec;
        spec.key = region.key;
        spec.pd = Guest::pd;
        spec.start = region.start;
        spec.length = size;
        spec.access_flags = all_access;
        spec.pages = region.buffer.pages();
        EXPECT_TRUE(slice->register_mr(spec));
        return region;
    }

    void raise(unsigned vector) noexcept override { ++interrupts.at(vector); }
    void fatal(std::string_view why) noexcept override { ADD_FAILURE() << why; }

  private:
    std::unique_ptr<GuestMemory> memory_ = Guest::default_memory();
    std::unique_ptr<vrdma_doorbell_page[]> doorbells_ =
        std::make_unique<vrdma_doorbell_page[]>(Guest::doorbell_pages);
    EventFd kick_ = *EventFd::create();
    std::uint32_t next_id_ = 1;

  public:
    PageAllocator pages{*memory_};
    PvConsumer<pvrdma_async_event> async{
        pages.allocate(std::uint64_t{event_pages} * PVRDMA_PAGE_SIZE), async_entries};
    PvConsumer<pvrdma_completion_event> completions{
        pages.allocate(std::uint64_t{event_pages} * PVRDMA_PAGE_SIZE), completion_entries};
    std::array<std::atomic<unsigned>, PVRDMA_VECTORS> interrupts{};
    std::unique_ptr<hca::Slice> slice;
};

class Pvrdma : public TwoGuests {
  protected:
    static constexpr Cqn cqn{1};

    Pvrdma() { EXPECT_TRUE(b_.slice().set_gid(1, VRDMA_GID_ROCE_V2, other_gid(2), 0)); }

    static void to_rts(hca::Slice& slice, Qpn qp, std::uint8_t sgid, const Gid& peer, Qpn other) {
        vrdma_qp_attr rtr = rtr_attr(peer, other);
        rtr.av.sgid_index = sgid;
        EXPECT_TRUE(slice.modify_qp(qp, init_attr()));
        EXPECT_TRUE(slice.modify_qp(qp, rtr));
        EXPECT_TRUE(slice.modify_qp(qp, rts_attr()));
    }

    void connect_to_b(const PvQp& qp, const GuestQp& peer) {
        to_rts(*pv_.slice, Qpn{qp.qpn}, 0, other_gid(2), peer.id());
        to_rts(b_.slice(), peer.id(), 1, other_gid(1), Qpn{qp.qpn});
    }

    pvrdma_cqe wait_pv(const PvCq& cq) {
        for (int i = 0; i < 200'000; ++i) {
            if (const auto entry = cq.poll()) {
                return *entry;
            }
            poll();
        }
        ADD_FAILURE() << "no completion";
        return {};
    }

    void send(const PvQp& qp, std::uint64_t wr_id, std::uint32_t flags = PVRDMA_SEND_SIGNALED) {
        const vrdma_sge sge = mr_.sge(0, 100);
        qp.post_send(send_wqe(wr_id, PVRDMA_SEND, flags), {&sge, 1});
    }

    PvGuest pv_{*hca_, uplink_};
    PvCq cq_ = pv_.create_cq();
    PvQp qp_ = pv_.create_qp(cqn);
    GuestQp peer_ = b_.create_qp(b_cq_, b_cq_);
    MemoryRegion mr_ = pv_.register_mr(1 << 16);
    MemoryRegion peer_mr_ = b_.register_mr(1 << 16);
};

// The driver takes 1536 and 3072 entries for the depth of its event rings, and masks with that.
// Count as the driver does; expect to meet as many different entries as the device says.
TEST(PvrdmaEvents, DepthIsWhatTheDriversMasksLeave) {
    for (const std::uint32_t size : {sizeof(pvrdma_async_event), sizeof(pvrdma_completion_event)}) {
        for (const std::uint32_t pages : {2u, 3u, 4u, 5u, 7u, 9u}) {
            const std::uint32_t entries = (pages - 1) * (PVRDMA_PAGE_SIZE / size);
            pvrdma_ring ring{};
            const PvIndices indices{&ring, entries};
            std::uint32_t period = 0;
            do {
                indices.produce();
                ++period;
            } while (ring.tail != 0);
            EXPECT_EQ(pvrdma_event_depth(pages, size) * 2, period) << pages << ' ' << size;
        }
    }
}

// A SEND each way: the CQEs have the programs' numbers and the QP's handle, and the places in the
// rings are free again.
TEST_F(Pvrdma, MessagesCrossBothWays) {
    connect_to_b(qp_, peer_);
    mr_.buffer.fill(5);
    const vrdma_sge to = peer_mr_.sge(0, 8000);
    const vrdma_sge from[] = {mr_.sge(100, 3000), mr_.sge(5000, 4000)};
    peer_.post_recv({&to, 1});
    pvrdma_sq_wqe wqe = send_wqe(0x1234567890abcdef, PVRDMA_SEND_WITH_IMM);
    wqe.imm = 77;
    qp_.post_send(wqe, from);
    const pvrdma_cqe sent = wait_pv(cq_);
    EXPECT_EQ(sent.wr_id, 0x1234567890abcdefu);
    EXPECT_EQ(sent.qp, qp_.handle);
    EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
    EXPECT_EQ(sent.opcode, IBV_WC_SEND);
    EXPECT_EQ(qp_.sends.indices().ring().head, 1u);
    EXPECT_EQ(wait(b_cq_).byte_len, 7000u);
    EXPECT_EQ(peer_mr_.buffer.read(0, 3000), mr_.buffer.read(100, 3000));
    EXPECT_EQ(peer_mr_.buffer.read(3000, 4000), mr_.buffer.read(5000, 4000));

    qp_.post_recv(0xfeed, std::array{mr_.sge(0, 50)});
    const vrdma_sge back = peer_mr_.sge(9000, 40);
    peer_.post_send({.opcode = VRDMA_SQ_SEND_WITH_IMM, .imm = 99, .sges = {&back, 1}});
    const pvrdma_cqe received = wait_pv(cq_);
    EXPECT_EQ(received.wr_id, 0xfeedu);
    EXPECT_EQ(received.opcode, IBV_WC_RECV);
    EXPECT_EQ(received.flags, PVRDMA_WC_WITH_IMM);
    EXPECT_EQ(received.imm, 99u);
    EXPECT_EQ(received.byte_len, 40u);
    EXPECT_EQ(qp_.receives.indices().ring().head, 1u);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
}

// WRITE, READ and both atomics arrive where they are sent, with the CQEs' opcodes.
TEST_F(Pvrdma, ReadsWritesAndAtomics) {
    connect_to_b(qp_, peer_);
    mr_.buffer.fill(6);
    const vrdma_sge from = mr_.sge(0, 5000);
    pvrdma_sq_wqe write = send_wqe(1, PVRDMA_RDMA_WRITE);
    write.rdma.raddr = peer_mr_.start + 64;
    write.rdma.rkey = peer_mr_.key.value;
    qp_.post_send(write, {&from, 1});
    EXPECT_EQ(wait_pv(cq_).opcode, IBV_WC_RDMA_WRITE);
    EXPECT_EQ(peer_mr_.buffer.read(64, 5000), mr_.buffer.read(0, 5000));

    const vrdma_sge into = mr_.sge(20000, 5000);
    pvrdma_sq_wqe read = write;
    read.opcode = PVRDMA_RDMA_READ;
    qp_.post_send(read, {&into, 1});
    const pvrdma_cqe fetched = wait_pv(cq_);
    EXPECT_EQ(fetched.opcode, IBV_WC_RDMA_READ);
    EXPECT_EQ(fetched.byte_len, 5000u);
    EXPECT_EQ(mr_.buffer.read(20000, 5000), mr_.buffer.read(0, 5000));

    *peer_mr_.buffer.at<std::uint64_t>(0) = 40;
    const vrdma_sge word = mr_.sge(0, 8);
    pvrdma_sq_wqe add = send_wqe(2, PVRDMA_ATOMIC_FETCH_AND_ADD);
    add.atomic.raddr = peer_mr_.start;
    add.atomic.rkey = peer_mr_.key.value;
    add.atomic.compare_add = 2;
    qp_.post_send(add, {&word, 1});
    EXPECT_EQ(wait_pv(cq_).opcode, IBV_WC_FETCH_ADD);
    EXPECT_EQ(*mr_.buffer.at<std::uint64_t>(0), 40u);
    pvrdma_sq_wqe swap = add;
    swap.opcode = PVRDMA_ATOMIC_CMP_AND_SWP;
    swap.atomic.compare_add = 42;
    swap.atomic.swap = 7;
    qp_.post_send(swap, {&word, 1});
    EXPECT_EQ(wait_pv(cq_).opcode, IBV_WC_COMP_SWAP);
    EXPECT_EQ(*peer_mr_.buffer.at<std::uint64_t>(0), 7u);
}

// Several passes over each ring, with few signaled WQEs: the driver finds a place each time.
TEST_F(Pvrdma, RingsGoRound) {
    connect_to_b(qp_, peer_);
    const vrdma_sge to = peer_mr_.sge(0, 100);
    for (std::uint64_t i = 0; i < 100; ++i) {
        peer_.post_recv({&to, 1});
        send(qp_, i, i % 10 == 9 ? PVRDMA_SEND_SIGNALED : 0);
        EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
        if (i % 10 == 9) {
            EXPECT_EQ(wait_pv(cq_).wr_id, i);
        }
    }
    settle();
    EXPECT_EQ(qp_.sends.indices().ring().head, 100u % 32);
}

// An event comes if it was asked for before or after the CQE, once, and for a solicited one only if
// the CQE is. More events than the ring has places are each seen once.
TEST_F(Pvrdma, EventsForCompletions) {
    connect_to_b(qp_, peer_);
    const auto receive = [&](bool solicited) {
        qp_.post_recv(1, std::array{mr_.sge(0, 8)});
        peer_.post_send({.flags = VRDMA_SQ_SIGNALED | (solicited ? VRDMA_SQ_SOLICITED : 0u)});
        EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
        settle();
    };
    for (unsigned i = 1; i <= 1100; ++i) {
        if (i % 2 == 0) {
            pv_.slice->arm_cq(cqn, false);
        }
        qp_.post_recv(1, std::array{mr_.sge(0, 8)});
        peer_.post_send({});
        EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
        if (i % 2 != 0) {
            pv_.slice->arm_cq(cqn, false); // the CQE is there already
        }
        std::optional<pvrdma_completion_event> event;
        for (int round = 0; round < 1000 && !event; ++round) {
            poll();
            event = pv_.completions.poll();
        }
        ASSERT_TRUE(event) << i;
        EXPECT_EQ(event->cq, cqn.value);
        EXPECT_TRUE(cq_.poll());
    }
    EXPECT_EQ(pv_.interrupts[PVRDMA_VECTOR_COMPLETION], 1100u);

    receive(true);
    settle();
    EXPECT_FALSE(pv_.completions.poll()) << "nobody asked";
    EXPECT_TRUE(cq_.poll());
    pv_.slice->arm_cq(cqn, true);
    receive(false);
    EXPECT_FALSE(pv_.completions.poll()) << "it is not solicited";
    receive(true);
    EXPECT_TRUE(pv_.completions.poll());
    EXPECT_FALSE(pv_.completions.poll());
}

// A QP in the error state completes what was posted, with its numbers, and reports an error that
// its peer caused by its handle.
TEST_F(Pvrdma, FlushesAndReportsErrors) {
    connect_to_b(qp_, peer_);
    qp_.post_recv(21, std::array{mr_.sge(0, 8)});
    qp_.post_recv(22, std::array{mr_.sge(0, 8)});
    pvrdma_sq_wqe bad = send_wqe(11, PVRDMA_RDMA_WRITE);
    bad.rdma.rkey = 0x123456;
    qp_.post_send(bad, std::array{mr_.sge(0, 8)});
    send(qp_, 12);
    EXPECT_EQ(wait_pv(cq_).status, IBV_WC_REM_ACCESS_ERR);
    for (const std::uint64_t wr_id : {12, 21, 22}) {
        const pvrdma_cqe flushed = wait_pv(cq_);
        EXPECT_EQ(flushed.wr_id, wr_id);
        EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(flushed.qp, qp_.handle);
    }
    qp_.post_recv(23, std::array{mr_.sge(0, 8)});
    EXPECT_EQ(wait_pv(cq_).wr_id, 23u);

    const PvQp other = pv_.create_qp(cqn);
    GuestQp sender = b_.create_qp(b_cq_, b_cq_);
    connect_to_b(other, sender);
    const vrdma_sge from = peer_mr_.sge(0, 8);
    sender.post_send({.opcode = VRDMA_SQ_RDMA_WRITE, .sges = {&from, 1}, .rkey = Key{1}});
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_REM_ACCESS_ERR);
    settle();
    const auto event = pv_.async.poll();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->type, std::uint32_t{IBV_EVENT_QP_ACCESS_ERR});
    EXPECT_EQ(event->id, other.handle);

    EXPECT_TRUE(pv_.slice->modify_qp(Qpn{qp_.qpn}, state_attr(IBV_QPS_RESET)));
    qp_.reset();
    GuestQp fresh = b_.create_qp(b_cq_, b_cq_);
    connect_to_b(qp_, fresh);
    const vrdma_sge to = peer_mr_.sge(0, 100);
    fresh.post_recv({&to, 1});
    send(qp_, 31);
    EXPECT_EQ(wait_pv(cq_).wr_id, 31u);
}

// A QP has taken a WQE of an SRQ for a message that has not ended, and is restored. The WQE keeps
// its number: it is flushed under that.
TEST_F(Pvrdma, HeldReceivesKeepTheirNumbers) {
    const PvShape shape;
    const Srqn srq{9};
    const Buffer buffer = pv_.pages.allocate(pvrdma_ring_buffer_size(16, shape.rq_shift()));
    EXPECT_TRUE(pv_.slice->create_srq({srq,
                                       Guest::pd,
                                       buffer.pages(),
                                       16,
                                       static_cast<std::uint8_t>(shape.rq_shift()),
                                       static_cast<std::uint16_t>(shape.max_recv_sge),
                                       {},
                                       {}}));
    const PvQp qp = pv_.create_qp(cqn, hca::QpType::rc, shape, srq);
    connect_to_b(qp, peer_);
    pv_.slice->freeze();
    hca::QpState state = pv_.slice->save_qp(Qpn{qp.qpn});
    EXPECT_EQ(pv_.slice->save_held_number(Qpn{qp.qpn}), 0u);
    EXPECT_FALSE(pv_.slice->restore_held_number(Qpn{qp.qpn}, 5)) << "it holds none";
    state.holds_receive = 1;
    const std::array held{mr_.sge(0, 100)};
    EXPECT_TRUE(pv_.slice->restore_qp(Qpn{qp.qpn}, state, held));
    EXPECT_TRUE(pv_.slice->restore_held_number(Qpn{qp.qpn}, 0xabcdef0123));
    EXPECT_EQ(pv_.slice->save_held_number(Qpn{qp.qpn}), 0xabcdef0123u);
    pv_.slice->thaw();
    EXPECT_TRUE(pv_.slice->modify_qp(Qpn{qp.qpn}, state_attr(IBV_QPS_ERR)));
    const pvrdma_cqe flushed = wait_pv(cq_);
    EXPECT_EQ(flushed.wr_id, 0xabcdef0123u);
    EXPECT_EQ(flushed.status, std::uint32_t{IBV_WC_WR_FLUSH_ERR});
}

// Datagrams carry their address vector. The receiver gets the header's kind.
TEST_F(Pvrdma, Datagrams) {
    constexpr std::uint32_t qkey = 0x1111;
    const PvQp from = pv_.create_qp(cqn, hca::QpType::ud);
    const PvQp to = pv_.create_qp(cqn, hca::QpType::ud);
    for (const PvQp* qp : {&from, &to}) {
        vrdma_qp_attr init = init_attr();
        init.attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
        init.qkey = qkey;
        EXPECT_TRUE(pv_.slice->modify_qp(Qpn{qp->qpn}, init));
        EXPECT_TRUE(pv_.slice->modify_qp(Qpn{qp->qpn}, state_attr(IBV_QPS_RTR)));
        vrdma_qp_attr rts = state_attr(IBV_QPS_RTS);
        rts.attr_mask |= IBV_QP_SQ_PSN;
        EXPECT_TRUE(pv_.slice->modify_qp(Qpn{qp->qpn}, rts));
    }
    mr_.buffer.fill(9);
    to.post_recv(5, std::array{mr_.sge(30000, 1000)});
    pvrdma_sq_wqe wqe = send_wqe(4);
    wqe.ud.dest_qpn = to.qpn;
    wqe.ud.qkey = qkey;
    wqe.ud.av.port_pd = VRDMA_SET(PVRDMA_AV_PORT, 1u) | Guest::pd.value;
    wqe.ud.av.hop_limit = 64;
    const Gid gid = other_gid(1);
    std::ranges::copy(gid, std::begin(wqe.ud.av.dgid));
    from.post_send(wqe, std::array{mr_.sge(0, 500)});
    pvrdma_cqe got{};
    for (int i = 0; i < 2; ++i) {
        const pvrdma_cqe each = wait_pv(cq_);
        EXPECT_EQ(each.status, IBV_WC_SUCCESS);
        got = each.wr_id == 5 ? each : got;
    }
    EXPECT_EQ(got.byte_len, 540u);
    EXPECT_EQ(got.src_qpn, from.qpn);
    EXPECT_EQ(got.flags, PVRDMA_WC_GRH | PVRDMA_WC_HEADER);
    EXPECT_EQ(got.header, PVRDMA_HEADER_IPV6);
    EXPECT_EQ(got.sl, VRDMA_CQE_HEADER_IPV6);
    EXPECT_EQ(mr_.buffer.read(30040, 500), mr_.buffer.read(0, 500));

    // An AH of another PD.
    wqe.ud.av.port_pd = VRDMA_SET(PVRDMA_AV_PORT, 1u) | (Guest::pd.value + 1);
    from.post_send(wqe, std::array{mr_.sge(0, 500)});
    EXPECT_EQ(wait_pv(cq_).status, std::uint32_t{IBV_WC_LOC_QP_OP_ERR});
}

// A region without memory gets pages by a directory, and loses them by an invalidation.
TEST_F(Pvrdma, FastRegistration) {
    const Key key{0x7700};
    hca::MrSpec spec;
    spec.key = key;
    spec.pd = Guest::pd;
    spec.fast_pages = 16;
    EXPECT_TRUE(pv_.slice->register_mr(spec));
    connect_to_b(qp_, peer_);
    const Buffer lists = pv_.pages.allocate(std::uint64_t{2} * PVRDMA_PAGE_SIZE);
    *lists.at<std::uint64_t>(0) = raw(lists.pages().blocks[1]);
    const auto& blocks = mr_.buffer.pages().blocks;
    for (std::size_t i = 0; i < 3; ++i) {
        *lists.at<std::uint64_t>(PVRDMA_PAGE_SIZE + i * 8) = raw(blocks[i]);
    }
    pvrdma_sq_wqe wqe = send_wqe(1, PVRDMA_FAST_REG);
    wqe.fast.start = 0x40010;
    wqe.fast.directory = raw(lists.pages().blocks[0]);
    wqe.fast.page_shift = PVRDMA_PAGE_SHIFT;
    wqe.fast.pages = 3;
    wqe.fast.length = 9000;
    wqe.fast.access_flags = all_access;
    wqe.fast.rkey = key.value + 1; // another low byte
    qp_.post_send(wqe, {});
    const pvrdma_cqe done = wait_pv(cq_);
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
    EXPECT_EQ(done.opcode, PVRDMA_WC_FAST_REG);

    peer_mr_.buffer.fill(3);
    const auto write = [&] {
        const vrdma_sge from = peer_mr_.sge(0, 9000);
        peer_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                         .sges = {&from, 1},
                         .rkey = Key{key.value + 1},
                         .raddr = 0x40010});
        return wait(b_cq_).status;
    };
    EXPECT_EQ(write(), IBV_WC_SUCCESS);
    EXPECT_EQ(mr_.buffer.read(0x10, 9000), peer_mr_.buffer.read(0, 9000));
    pvrdma_sq_wqe invalidate = send_wqe(2, PVRDMA_LOCAL_INV);
    invalidate.invalidate_key = key.value + 1;
    qp_.post_send(invalidate, {});
    EXPECT_EQ(wait_pv(cq_).opcode, PVRDMA_WC_LOCAL_INV);
    EXPECT_EQ(write(), IBV_WC_REM_ACCESS_ERR);
}

// WQEs of an SRQ complete with their numbers, and their places are free once they are taken.
TEST_F(Pvrdma, SharedReceives) {
    constexpr std::uint32_t depth = 8;
    const unsigned shift = PvShape::shift(sizeof(pvrdma_rq_wqe), 2);
    const Buffer buffer = pv_.pages.allocate(pvrdma_ring_buffer_size(depth, shift));
    const Srqn srq{9};
    EXPECT_TRUE(pv_.slice->create_srq(
        {srq, Guest::pd, buffer.pages(), depth, static_cast<std::uint8_t>(shift), 2, {}, {}}));
    const PvReceives receives{buffer, PVRDMA_PAGE_SIZE, depth, shift, &pvrdma_indices::receives};
    const PvQp sharing = pv_.create_qp(cqn, hca::QpType::rc, {}, srq);
    GuestQp sender = b_.create_qp(b_cq_, b_cq_);
    connect_to_b(sharing, sender);
    EXPECT_TRUE(pv_.slice->modify_srq(srq, 1));
    for (std::uint64_t i = 0; i < std::uint64_t{3} * depth; ++i) {
        ASSERT_TRUE(receives.post({100 + i, 0, 0}, std::array{mr_.sge(0, 10)}));
        sender.post_send({});
        EXPECT_EQ(wait_pv(cq_).wr_id, 100 + i);
        EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
    }
    const auto event = pv_.async.poll();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->type, std::uint32_t{IBV_EVENT_SRQ_LIMIT_REACHED});
    EXPECT_EQ(event->id, srq.value);
}

// CVE-2023-1544: the indices of a ring belonged to the guest, and were used without a check. Set
// each index to any number while messages come and go; expect pages beside the rings to stay
// unchanged, and another QP to work afterwards.
TEST_F(Pvrdma, Cve20231544IndicesOfRings) {
    for (const std::uint32_t index :
         {1u, 15u, 16u, 17u, 31u, 32u, 64u, 128u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
        const Buffer before = pv_.pages.allocate(PVRDMA_PAGE_SIZE);
        before.fill(7);
        const PvQp qp = pv_.create_qp(cqn);
        const Buffer after = pv_.pages.allocate(PVRDMA_PAGE_SIZE);
        after.fill(8);
        GuestQp peer = b_.create_qp(b_cq_, b_cq_);
        connect_to_b(qp, peer);
        const auto disturb = [&](pvrdma_ring& ring, bool tail) {
            store_release(tail ? ring.tail : ring.head, index);
            (void)qp.receives.post({1, 0, 0}, std::array{mr_.sge(0, 8)});
            qp.ring(PVRDMA_UAR_QP_SEND);
            qp.ring(PVRDMA_UAR_QP_RECV);
            peer.post_send({.flags = 0});
            settle();
            ring = {};
        };
        disturb(qp.sends.indices().ring(), true);
        disturb(qp.sends.indices().ring(), false);
        disturb(qp.receives.indices().ring(), true);
        disturb(qp.receives.indices().ring(), false);
        disturb(pv_.completions.indices().ring(), false);
        EXPECT_EQ(before.read(0, PVRDMA_PAGE_SIZE), Buffer::pattern(7, PVRDMA_PAGE_SIZE));
        EXPECT_EQ(after.read(0, PVRDMA_PAGE_SIZE), Buffer::pattern(8, PVRDMA_PAGE_SIZE));
        while (cq_.poll()) {
        }
        while (b_cq_.poll()) {
        }
    }
    // The CQ's own index: it takes no more entries, and its QPs fail. The device lives on.
    store_release(cq_.indices().ring().head, 0xffffffffu);
    const PvQp last = pv_.create_qp(cqn);
    GuestQp peer = b_.create_qp(b_cq_, b_cq_);
    connect_to_b(last, peer);
    for (int i = 0; i < 80; ++i) {
        (void)last.receives.post({1, 0, 0}, {});
        peer.post_send({.flags = 0});
        settle();
    }
    const PvCq fresh_cq = pv_.create_cq();
    (void)fresh_cq;
    EXPECT_TRUE(pv_.slice->query_qp(Qpn{last.qpn}));
}

} // namespace
} // namespace vrdma::test
