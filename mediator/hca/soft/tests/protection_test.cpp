// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Accesses that are not allowed: both sides' errors, and no byte moved.
#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

class Protection : public ConnectedPair {
  protected:
    Protection() {
        b_mr_.buffer.fill(9);
        before_ = b_mr_.buffer.read(0, b_mr_.buffer.size());
    }

    void expect_memory_unchanged() {
        EXPECT_EQ(b_mr_.buffer.read(0, b_mr_.buffer.size()), before_);
    }

    std::vector<std::byte> before_;
};

struct RemoteCase {
    const char* name;
    vrdma_sq_opcode opcode;
    std::uint32_t mr_access;
    PdId mr_pd;
    std::int64_t offset; // of the access from the region's start
    std::uint32_t length;
    std::uint32_t key_change;
};

class RemoteAccess : public Protection, public ::testing::WithParamInterface<RemoteCase> {};

// An operation on a region that does not allow it; expect REM_ACCESS_ERR at the requester, both QPs
// in error, an access event at the responder, and unchanged memory.
TEST_P(RemoteAccess, IsRefused) {
    const RemoteCase& refused = GetParam();
    const MemoryRegion region =
        b_.register_mr(b_mr_.buffer, {.pd = refused.mr_pd, .access_flags = refused.mr_access});
    const vrdma_sge local = a_mr_.sge(0, refused.length);
    a_qp_.post_send({.opcode = refused.opcode,
                     .sges = {&local, 1},
                     .rkey = Key{region.key.value + refused.key_change},
                     .raddr = region.start + static_cast<std::uint64_t>(refused.offset),
                     .compare_add = 1});
    const Completion failed = wait(a_cq_);
    EXPECT_EQ(failed.status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(failed.vendor_err, VRDMA_VERR_PEER_ERROR);
    settle();
    EXPECT_EQ(state_of(a_, a_qp_), IBV_QPS_ERR);
    EXPECT_EQ(state_of(b_, b_qp_), IBV_QPS_ERR);
    EXPECT_EQ(b_.eq().poll(), (Event{IBV_EVENT_QP_ACCESS_ERR, b_qp_.id().value}));
    EXPECT_FALSE(a_.eq().poll());
    expect_memory_unchanged();
}

constexpr std::uint32_t no_write = all_access & ~IBV_ACCESS_REMOTE_WRITE;
constexpr std::uint32_t no_read = all_access & ~IBV_ACCESS_REMOTE_READ;
constexpr std::uint32_t no_atomic = all_access & ~IBV_ACCESS_REMOTE_ATOMIC;

INSTANTIATE_TEST_SUITE_P(
    All, RemoteAccess,
    ::testing::Values(
        RemoteCase{"WriteKey", VRDMA_SQ_RDMA_WRITE, all_access, Guest::pd, 0, 8, 99},
        RemoteCase{"WritePd", VRDMA_SQ_RDMA_WRITE, all_access, PdId{2}, 0, 8, 0},
        RemoteCase{"WriteRight", VRDMA_SQ_RDMA_WRITE, no_write, Guest::pd, 0, 8, 0},
        RemoteCase{"WriteBelow", VRDMA_SQ_RDMA_WRITE, all_access, Guest::pd, -1, 8, 0},
        RemoteCase{"WriteAbove", VRDMA_SQ_RDMA_WRITE, all_access, Guest::pd, 65536 - 7, 8, 0},
        RemoteCase{"WriteFarAbove", VRDMA_SQ_RDMA_WRITE, all_access, Guest::pd, 1LL << 40, 8, 0},
        RemoteCase{"ReadKey", VRDMA_SQ_RDMA_READ, all_access, Guest::pd, 0, 8, 99},
        RemoteCase{"ReadPd", VRDMA_SQ_RDMA_READ, all_access, PdId{2}, 0, 8, 0},
        RemoteCase{"ReadRight", VRDMA_SQ_RDMA_READ, no_read, Guest::pd, 0, 8, 0},
        RemoteCase{"ReadAbove", VRDMA_SQ_RDMA_READ, all_access, Guest::pd, 65536 - 7, 8, 0},
        RemoteCase{"SwapKey", VRDMA_SQ_ATOMIC_CMP_AND_SWP, all_access, Guest::pd, 0, 8, 99},
        RemoteCase{"AddRight", VRDMA_SQ_ATOMIC_FETCH_AND_ADD, no_atomic, Guest::pd, 0, 8, 0},
        RemoteCase{"AddAbove", VRDMA_SQ_ATOMIC_FETCH_AND_ADD, all_access, Guest::pd, 65536, 8, 0}),
    [](const auto& info) { return std::string{info.param.name}; });

// A QP that does not allow remote operations, on a region that does; expect REM_INV_REQ_ERR and a
// request event at the responder.
TEST_F(Protection, QpMustAllowTheOperation) {
    for (const auto opcode :
         {VRDMA_SQ_RDMA_WRITE, VRDMA_SQ_RDMA_READ, VRDMA_SQ_ATOMIC_FETCH_AND_ADD}) {
        GuestQp from = a_.create_qp(a_cq_, a_cq_);
        GuestQp to = b_.create_qp(b_cq_, b_cq_);
        connect_pair(from, to);
        vrdma_qp_attr attr{};
        attr.attr_mask = IBV_QP_ACCESS_FLAGS;
        attr.access_flags = IBV_ACCESS_LOCAL_WRITE;
        ASSERT_TRUE(b_.slice().modify_qp(to.id(), attr));
        const vrdma_sge local = a_mr_.sge(0, 8);
        from.post_send(
            {.opcode = opcode, .sges = {&local, 1}, .rkey = b_mr_.key, .raddr = b_mr_.start});
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_REM_INV_REQ_ERR);
        settle();
        EXPECT_EQ(state_of(b_, to), IBV_QPS_ERR);
        EXPECT_EQ(b_.eq().poll(), (Event{IBV_EVENT_QP_REQ_ERR, to.id().value}));
    }
    expect_memory_unchanged();
}

// An atomic on an address that is not a multiple of 8; expect REM_INV_REQ_ERR.
TEST_F(Protection, AtomicTargetMustBeAligned) {
    const vrdma_sge local = a_mr_.sge(0, 8);
    a_qp_.post_send({.opcode = VRDMA_SQ_ATOMIC_FETCH_AND_ADD,
                     .sges = {&local, 1},
                     .rkey = b_mr_.key,
                     .raddr = b_mr_.start + 4,
                     .compare_add = 1});
    const Completion failed = wait(a_cq_);
    EXPECT_EQ(failed.status, IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(failed.vendor_err, VRDMA_VERR_ALIGNMENT);
    expect_memory_unchanged();
}

struct LocalCase {
    const char* name;
    vrdma_sq_opcode opcode;
    std::uint32_t mr_access;
    PdId mr_pd;
    std::int64_t offset;
    std::uint32_t key_change;
    vrdma_vendor_err reason;
};

class LocalAccess : public Protection, public ::testing::WithParamInterface<LocalCase> {};

// A request whose local buffer may not be used; expect LOC_PROT_ERR with the reason, and an
// unaffected peer.
TEST_P(LocalAccess, IsRefused) {
    const LocalCase& refused = GetParam();
    const MemoryRegion region =
        a_.register_mr(4096, {.pd = refused.mr_pd, .access_flags = refused.mr_access});
    const vrdma_sge local{region.start + static_cast<std::uint64_t>(refused.offset), 8,
                          region.key.value + refused.key_change};
    a_qp_.post_send({.opcode = refused.opcode,
                     .sges = {&local, 1},
                     .rkey = refused.opcode == VRDMA_SQ_SEND ? Key{} : b_mr_.key,
                     .raddr = refused.opcode == VRDMA_SQ_SEND ? 0 : b_mr_.start,
                     .compare_add = 1});
    const Completion failed = wait(a_cq_);
    EXPECT_EQ(failed.status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(failed.vendor_err, static_cast<std::uint32_t>(refused.reason));
    settle();
    EXPECT_EQ(state_of(a_, a_qp_), IBV_QPS_ERR);
    EXPECT_EQ(state_of(b_, b_qp_), IBV_QPS_RTS);
    expect_memory_unchanged();
}

constexpr std::uint32_t local_read = 0;

INSTANTIATE_TEST_SUITE_P(
    All, LocalAccess,
    ::testing::Values(
        LocalCase{"SendKey", VRDMA_SQ_SEND, all_access, Guest::pd, 0, 99, VRDMA_VERR_KEY},
        LocalCase{"SendPd", VRDMA_SQ_SEND, all_access, PdId{2}, 0, 0, VRDMA_VERR_PD},
        LocalCase{"SendBounds", VRDMA_SQ_SEND, all_access, Guest::pd, 4089, 0, VRDMA_VERR_BOUNDS},
        LocalCase{"WriteBelow", VRDMA_SQ_RDMA_WRITE, all_access, Guest::pd, -8, 0,
                  VRDMA_VERR_BOUNDS},
        LocalCase{"ReadInto", VRDMA_SQ_RDMA_READ, local_read, Guest::pd, 0, 0, VRDMA_VERR_ACCESS},
        LocalCase{"AddInto", VRDMA_SQ_ATOMIC_FETCH_AND_ADD, local_read, Guest::pd, 0, 0,
                  VRDMA_VERR_ACCESS}),
    [](const auto& info) { return std::string{info.param.name}; });

// A send from memory that is registered without any right; expect success, because local reading
// needs none.
TEST_F(Protection, LocalReadingNeedsNoRight) {
    const MemoryRegion region = a_.register_mr(4096, {.access_flags = 0});
    const vrdma_sge local = region.sge();
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                     .sges = {&local, 1},
                     .rkey = b_mr_.key,
                     .raddr = b_mr_.start});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
}

// A send into receive buffers that may not be written; expect LOC_PROT_ERR at the receiver,
// REM_OP_ERR at the sender.
TEST_F(Protection, ReceiveBufferMustBeWritable) {
    const MemoryRegion region = b_.register_mr(4096, {.access_flags = 0});
    const vrdma_sge target = region.sge();
    b_qp_.post_recv({&target, 1});
    a_qp_.post_send({.flags = VRDMA_SQ_INLINE, .inline_data = Buffer::pattern(1, 8)});
    const Completion received = wait(b_cq_);
    EXPECT_EQ(received.status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(received.vendor_err, VRDMA_VERR_ACCESS);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_REM_OP_ERR);
    EXPECT_EQ(state_of(a_, a_qp_), IBV_QPS_ERR);
    EXPECT_EQ(state_of(b_, b_qp_), IBV_QPS_ERR);
}

// A send longer than the receive buffers; expect LOC_LEN_ERR at the receiver, REM_INV_REQ_ERR at
// the sender.
TEST_F(Protection, SendMustFitTheReceive) {
    const vrdma_sge targets[] = {b_mr_.sge(0, 3), b_mr_.sge(3, 4)};
    b_qp_.post_recv(targets);
    a_qp_.post_send({.flags = VRDMA_SQ_INLINE, .inline_data = Buffer::pattern(1, 8)});
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_REM_INV_REQ_ERR);
    expect_memory_unchanged();
}

// A bad second piece of a receive that the message does not reach; expect success.
TEST_F(Protection, OnlyTouchedPiecesOfAReceiveCount) {
    const vrdma_sge targets[] = {b_mr_.sge(0, 8), {.addr = 1, .length = 8, .lkey = 4711}};
    b_qp_.post_recv(targets);
    a_qp_.post_send({.flags = VRDMA_SQ_INLINE, .inline_data = Buffer::pattern(1, 8)});
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
}

// Deregister a region between two writes; expect the second to be refused.
TEST_F(Protection, NoAccessAfterDeregistration) {
    const auto write = [&] {
        a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                         .flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                         .inline_data = Buffer::pattern(1, 8),
                         .rkey = b_mr_.key,
                         .raddr = b_mr_.start});
        return wait(a_cq_).status;
    };
    EXPECT_EQ(write(), IBV_WC_SUCCESS);
    EXPECT_TRUE(b_.slice().deregister_mr(b_mr_.key));
    EXPECT_EQ(write(), IBV_WC_REM_ACCESS_ERR);
}

// Use a key of the other guest as an lkey; expect it to be unknown in this device.
TEST_F(Protection, KeysOfAnotherDeviceMeanNothing) {
    const MemoryRegion foreign = b_.register_mr(4096);
    const vrdma_sge local = foreign.sge(0, 8);
    a_qp_.post_send({.sges = {&local, 1}});
    EXPECT_EQ(wait(a_cq_).vendor_err, VRDMA_VERR_KEY);
}

// A region of bus addresses, as the guest's kernel has it; expect a write to reach the addressed
// page, and one beyond the guest's memory to be refused.
TEST_F(Protection, DmaRegionsTakeBusAddresses) {
    ASSERT_TRUE(b_.slice().register_mr({.key = Key{77},
                                        .pd = Guest::pd,
                                        .start = 0,
                                        .length = ~0ull,
                                        .access_flags = all_access,
                                        .dma = true,
                                        .pages = {}}));
    const auto write = [&](std::uint64_t address) {
        a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                         .flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                         .inline_data = Buffer::pattern(5, 8),
                         .rkey = Key{77},
                         .raddr = address});
        return wait(a_cq_).status;
    };
    EXPECT_EQ(write(raw(b_mr_.buffer.pages().blocks[1])), IBV_WC_SUCCESS);
    EXPECT_EQ(b_mr_.buffer.read(4096, 8), Buffer::pattern(5, 8));
    EXPECT_EQ(write(b_.memory().size() - 4), IBV_WC_REM_ACCESS_ERR);
}

} // namespace
} // namespace vrdma::test
