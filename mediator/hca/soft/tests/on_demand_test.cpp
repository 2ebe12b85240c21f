// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// On-demand paging: messages that access absent pages wait for the guest's driver, whose part the
// tests play. They continue or fail according to its answer.
#include <optional>

#include "mediator/hca/soft/tests/two_guests.h"
#include "mediator/tests/guest/revocable_memory.h"

namespace vrdma::test {
namespace {

constexpr std::uint64_t page = VRDMA_PAGE_SIZE;

struct PageFault {
    Key key;
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    bool write = false;
};

class OnDemand : public ConnectedPair {
  protected:
    OnDemand() {
        b_mr_.buffer.fill(2);
        region_.buffer.fill(1);
    }

    static void write(GuestQp& qp, const vrdma_sge& from, const MemoryRegion& to,
                      std::uint64_t offset = 0) {
        post(qp, VRDMA_SQ_RDMA_WRITE, from, to, offset);
    }

    static void post(GuestQp& qp, vrdma_sq_opcode opcode, const vrdma_sge& local,
                     const MemoryRegion& remote, std::uint64_t offset = 0) {
        qp.post_send({.opcode = opcode,
                      .sges = {&local, 1},
                      .rkey = remote.key,
                      .raddr = remote.start + offset});
    }

    // Waits for the guest's next page fault event.
    PageFault wait_for_fault(Guest& guest) {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds{20};
        while (std::chrono::steady_clock::now() < limit) {
            const auto event = guest.eq().poll();
            if (event && event->type == VRDMA_EQE_PAGE_FAULT) {
                return {Key{event->id}, event->detail & VRDMA_FAULT_PAGE,
                        VRDMA_GET(VRDMA_FAULT_COUNT, event->detail),
                        (event->detail & VRDMA_FAULT_WRITE) != 0};
            }
            poll();
        }
        ADD_FAILURE() << "no page fault";
        return {};
    }

    static std::span<const Iova> pages_of(const MemoryRegion& region, std::uint64_t first,
                                          std::uint64_t count) {
        return std::span{region.buffer.pages().blocks}.subspan(first, count);
    }

    // Maps the pages, as a driver does.
    static void resolve(Guest& guest, const MemoryRegion& region, const PageFault& fault) {
        guest.slice().map_pages(region.key, fault.first, pages_of(region, fault.first, fault.count),
                                fault.write);
    }

    void expect_quiet(GuestCq& cq) {
        settle();
        EXPECT_FALSE(cq.poll());
    }

    MemoryRegion region_ = a_.register_on_demand(8 * page);
};

// Send from absent pages; expect a read fault that names them. Nothing arrives at the peer until
// they are mapped, and then the data does.
TEST_F(OnDemand, ASenderWaitsForItsPages) {
    const vrdma_sge from = region_.sge(page + 100, 3 * page);
    const vrdma_sge to = b_mr_.sge();
    b_qp_.post_recv({&to, 1});
    a_qp_.post_send({.sges = {&from, 1}});
    const PageFault fault = wait_for_fault(a_);
    EXPECT_EQ(fault.key, region_.key);
    EXPECT_EQ(fault.first, 1u);
    EXPECT_EQ(fault.count, 4u);
    EXPECT_FALSE(fault.write);
    expect_quiet(b_cq_);
    resolve(a_, region_, fault);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(b_cq_).byte_len, 3 * page);
    EXPECT_EQ(b_mr_.buffer.read(0, 3 * page), region_.buffer.read(page + 100, 3 * page));
}

// Write to (atomically or not), read from and add to a peer's absent pages; expect a fault at the
// peer, for writing if the operation changes them, and success once it is answered.
TEST_F(OnDemand, APeerWaitsForThePagesItNames) {
    for (const auto opcode : {VRDMA_SQ_RDMA_WRITE, VRDMA_SQ_RDMA_READ,
                              VRDMA_SQ_ATOMIC_FETCH_AND_ADD, VRDMA_SQ_ATOMIC_WRITE}) {
        const vrdma_sge local = b_mr_.sge(0, 8);
        post(b_qp_, opcode, local, region_, 2 * page);
        const PageFault fault = wait_for_fault(a_);
        EXPECT_EQ(fault.first, 2u);
        EXPECT_EQ(fault.count, 1u);
        EXPECT_EQ(fault.write, opcode != VRDMA_SQ_RDMA_READ);
        resolve(a_, region_, fault);
        EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
        a_.slice().unmap_pages(region_.key, 0, UINT64_MAX);
    }
}

// Bind a window to a region's middle and write to its absent pages; expect a fault that names the
// region's pages, and the data in them. The window keeps the region in use.
TEST_F(OnDemand, AWindowWaitsForItsRegionsPages) {
    const MemoryRegion region = a_.register_on_demand(8 * page, all_access | IBV_ACCESS_MW_BIND);
    const Key window = a_.allocate_mw(IBV_MW_TYPE_2);
    const vrdma_sq_bind middle{region.start + page + 8, 3 * page, region.key.value,
                               IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED};
    a_qp_.post_send({.opcode = VRDMA_SQ_BIND_MW, .rkey = window, .bind = &middle});
    ASSERT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    const vrdma_sge local = b_mr_.sge(0, 2 * page);
    b_qp_.post_send(
        {.opcode = VRDMA_SQ_RDMA_WRITE, .sges = {&local, 1}, .rkey = window, .raddr = page});
    const PageFault fault = wait_for_fault(a_);
    EXPECT_EQ(fault.key, region.key);
    EXPECT_EQ(fault.first, 2u);
    EXPECT_EQ(fault.count, 3u);
    EXPECT_TRUE(fault.write);
    resolve(a_, region, fault);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(region.buffer.read(2 * page + 8, 2 * page), b_mr_.buffer.read(0, 2 * page));
    EXPECT_EQ(a_.slice().deregister_mr(region.key).error(), std::errc::device_or_resource_busy);
}

// Receive into absent pages; expect the same WQE to be used once they are mapped.
TEST_F(OnDemand, AReceiveWaitsForItsPages) {
    const vrdma_sge to = region_.sge(0, 2 * page);
    const vrdma_sge from = b_mr_.sge(0, 2 * page);
    a_qp_.post_recv({&to, 1});
    b_qp_.post_send({.sges = {&from, 1}});
    const PageFault fault = wait_for_fault(a_);
    EXPECT_TRUE(fault.write);
    resolve(a_, region_, fault);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(a_cq_).byte_len, 2 * page);
    EXPECT_EQ(region_.buffer.read(0, 2 * page), b_mr_.buffer.read(0, 2 * page));
}

// Map pages for reading and receive into them; expect a fault for writing.
TEST_F(OnDemand, PagesForReadingAreAbsentForWriters) {
    a_.slice().map_pages(region_.key, 0, pages_of(region_, 0, 1), false);
    const vrdma_sge local = b_mr_.sge(0, 8);
    post(b_qp_, VRDMA_SQ_RDMA_READ, local, region_);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
    write(b_qp_, local, region_);
    const PageFault fault = wait_for_fault(a_);
    EXPECT_TRUE(fault.write);
    resolve(a_, region_, fault);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
}

// Answer that there is no memory; expect LOC_PROT_ERR at a sender, and the QP in error.
TEST_F(OnDemand, ARefusalFailsTheSender) {
    const vrdma_sge from = region_.sge(0, 8);
    write(a_qp_, from, b_mr_);
    const PageFault fault = wait_for_fault(a_);
    a_.slice().refuse_pages(region_.key, fault.first, fault.count);
    const Completion failed = wait(a_cq_);
    EXPECT_EQ(failed.status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(failed.vendor_err, VRDMA_VERR_REVOKED);
    EXPECT_EQ(state_of(a_, a_qp_), IBV_QPS_ERR);
}

// The same for memory that a peer names, and for a receive; expect REM_ACCESS_ERR and REM_OP_ERR at
// the peer.
TEST_F(OnDemand, ARefusalFailsThePeer) {
    const vrdma_sge local = b_mr_.sge(0, 8);
    post(b_qp_, VRDMA_SQ_RDMA_READ, local, region_);
    wait_for_fault(a_);
    a_.slice().refuse_pages(region_.key, 0, 1);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_REM_ACCESS_ERR);

    GuestQp to_qp = a_.create_qp(a_cq_, a_cq_);
    GuestQp from_qp = b_.create_qp(b_cq_, b_cq_);
    connect_pair(to_qp, from_qp);
    const vrdma_sge to = region_.sge(0, 8);
    to_qp.post_recv({&to, 1});
    from_qp.post_send({.sges = {&local, 1}});
    wait_for_fault(a_);
    a_.slice().refuse_pages(region_.key, 0, 1);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_REM_OP_ERR);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_LOC_PROT_ERR);
}

// Unmap pages and map others; expect no access to the old pages, and the data in the new ones.
TEST_F(OnDemand, PagesMayBeReplaced) {
    const vrdma_sge local = b_mr_.sge(0, page);
    resolve(a_, region_, {region_.key, 0, 1, true});
    a_.slice().unmap_pages(region_.key, 0, 1);
    const auto before = region_.buffer.read(0, page);
    write(b_qp_, local, region_);
    wait_for_fault(a_);
    const Buffer other = a_.pages().allocate(page);
    a_.slice().map_pages(region_.key, 0, other.pages().blocks, true);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(region_.buffer.read(0, page), before);
    EXPECT_EQ(other.read(0, page), b_mr_.buffer.read(0, page));
}

// Many messages wait for one page; expect one fault, and all messages to continue.
TEST_F(OnDemand, OneFaultServesAllThatWait) {
    std::vector<GuestQp> to;
    std::vector<GuestQp> from;
    const vrdma_sge local = b_mr_.sge(0, 8);
    for (int i = 0; i < 5; ++i) {
        to.push_back(a_.create_qp(a_cq_, a_cq_));
        from.push_back(b_.create_qp(b_cq_, b_cq_));
        connect_pair(to.back(), from.back());
        write(from.back(), local, region_);
    }
    const PageFault fault = wait_for_fault(a_);
    settle();
    EXPECT_FALSE(a_.eq().poll());
    resolve(a_, region_, fault);
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
    }
}

// A driver never answers, while other QPs of the guest have messages; expect these to complete, and
// the fault to be repeated. The waiting QP can be reset and destroyed at once.
TEST_F(OnDemand, ADriverThatDoesNotAnswerHoldsUpNobodyElse) {
    const vrdma_sge from = region_.sge(0, 8);
    const vrdma_sge plain = a_mr_.sge(0, 8);
    write(a_qp_, from, b_mr_);
    wait_for_fault(a_);
    GuestQp other = a_.create_qp(a_cq_, a_cq_);
    GuestQp peer = b_.create_qp(b_cq_, b_cq_);
    connect_pair(other, peer);
    write(other, plain, b_mr_);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait_for_fault(a_).first, 0u);
    EXPECT_TRUE(a_.slice().modify_qp(a_qp_.id(), state_attr(IBV_QPS_RESET)));
    a_.slice().destroy_qp(a_qp_.id());
    expect_quiet(a_cq_);
}

// Deregister a region that a message waits for; expect LOC_PROT_ERR, and a late answer to have no
// effect.
TEST_F(OnDemand, TheRegionMayGo) {
    const vrdma_sge from = region_.sge(0, 8);
    write(a_qp_, from, b_mr_);
    const PageFault fault = wait_for_fault(a_);
    ASSERT_TRUE(a_.slice().deregister_mr(region_.key));
    EXPECT_EQ(wait(a_cq_).vendor_err, VRDMA_VERR_KEY);
    resolve(a_, region_, fault);
    a_.slice().unmap_pages(region_.key, 0, 1);
    settle();
}

// More QPs each access an absent page than faults can be recorded; expect all to be served in the
// end.
TEST_F(OnDemand, MoreFaultsThanAreNotedAtATime) {
    constexpr std::uint32_t count = 70;
    const MemoryRegion large = a_.register_on_demand(count * page);
    std::vector<GuestQp> qps;
    const GuestCq to_cq = a_.create_cq(256);
    GuestCq from_cq = b_.create_cq(256);
    const vrdma_sge local = b_mr_.sge(0, 8);
    for (std::uint32_t i = 0; i < count; ++i) {
        qps.push_back(a_.create_qp(to_cq, to_cq));
        qps.push_back(b_.create_qp(from_cq, from_cq));
        connect_pair(qps.rbegin()[1], qps.back());
        write(qps.back(), local, large, i * page);
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        resolve(a_, large, wait_for_fault(a_));
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        EXPECT_EQ(wait(from_cq).status, IBV_WC_SUCCESS);
    }
}

// Migrate while a message waits; expect the fault to be raised again on the new host.
TEST_F(OnDemand, FaultsAreMetAgainAfterAMigration) {
    resolve(a_, region_, {region_.key, 4, 1, false});
    const vrdma_sge from = region_.sge(4 * page, 8);
    write(a_qp_, from, b_mr_);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    const vrdma_sge absent = region_.sge(0, 8);
    write(a_qp_, absent, b_mr_);
    wait_for_fault(a_);
    a_.migrate(host_of(a_));
    const PageFault fault = wait_for_fault(a_);
    EXPECT_EQ(fault.first, 0u);
    resolve(a_, region_, fault);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
}

// Datagrams from and to absent pages; expect them to arrive if the pages are mapped soon, and the
// sender to continue if they are not.
TEST_F(OnDemand, DatagramsWaitAWhile) {
    constexpr std::uint32_t qkey = 0x1234;
    GuestQp from_qp = b_.create_qp(b_cq_, b_cq_, {.type = hca::QpType::ud});
    GuestQp to_qp = a_.create_qp(a_cq_, a_cq_, {.type = hca::QpType::ud});
    activate_ud(b_, from_qp, qkey);
    activate_ud(a_, to_qp, qkey);
    const AhId ah = b_.create_ah(a_.gid());
    const vrdma_sge local = b_mr_.sge(0, 8);
    const vrdma_sge to = region_.sge(0, page);
    const SendWr datagram{.sges = {&local, 1}, .ah = ah, .dest_qpn = to_qp.id(), .qkey = qkey};
    to_qp.post_recv({&to, 1});
    from_qp.post_send(datagram);
    wait_for_fault(a_);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
    expect_quiet(a_cq_);
    resolve(a_, region_, {region_.key, 0, 1, true});
    from_qp.post_send(datagram);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(a_cq_).byte_len, VRDMA_UD_GRH_SIZE + 8u);
}

} // namespace
} // namespace vrdma::test
