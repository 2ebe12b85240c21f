// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Functions that share a GID: each message must reach the right one.
#include "mediator/hca/soft/tests/two_guests.h"
#include "vrdma/mad.h"

namespace vrdma::test {
namespace {

constexpr hca::QpnRange first_half{0, 0x7fffff};
constexpr hca::QpnRange second_half{0x800000, 0xfffffe};
constexpr std::uint64_t service = 0x01061234;
constexpr std::uint32_t well_known_qkey = 0x80010000;
constexpr std::chrono::milliseconds moment{250}; // for which QP1 waits (gsi_rest)

// A function with a QP1 that counts received messages.
struct Function {
    Function(hca::Hca& hca, const hca::Gid& gid, const hca::QpnRange& qpns)
        : guest{hca, "function", gid, Guest::default_memory(), qpns} {
        const vrdma_sge to = mr.sge(0, VRDMA_UD_GRH_SIZE + VRDMA_MAD_SIZE);
        activate_ud(guest, gsi, well_known_qkey);
        for (int i = 0; i < 8; ++i) {
            gsi.post_recv({&to, 1});
        }
    }

    Guest guest;
    GuestCq cq = guest.create_cq();
    GuestQp gsi = guest.create_qp(cq, cq, {.type = hca::QpType::ud, .gsi = true});
    MemoryRegion mr = guest.register_mr(1 << 12);
};

class GsiTest : public TwoGuests {
  protected:
    GsiTest() { activate_ud(a_, a_gsi_, well_known_qkey); }

    void send(const vrdma_mad& mad) {
        a_mr_.buffer.write(0, std::as_bytes(std::span{&mad, 1}));
        const vrdma_sge from = a_mr_.sge(0, sizeof(mad));
        a_gsi_.post_send({.sges = {&from, 1},
                          .ah = to_them_,
                          .dest_qpn = hca::gsi_qpn,
                          .qkey = well_known_qkey});
    }
    // Sends the message. Returns the function that got it.
    const Function* deliver(const vrdma_mad& mad) {
        send(mad);
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
        settle();
        const bool first = first_ && first_->cq.poll();
        const bool second = second_ && second_->cq.poll();
        EXPECT_FALSE(first && second);
        return first ? &*first_ : second ? &*second_ : nullptr;
    }

    static vrdma_mad message(vrdma_cm_attribute attribute) {
        vrdma_mad mad{};
        mad.header.base_version = VRDMA_MAD_BASE_VERSION;
        mad.header.mgmt_class = VRDMA_MAD_CLASS_CM;
        mad.header.class_version = VRDMA_MAD_CM_VERSION;
        mad.header.method = VRDMA_MAD_SEND;
        mad.header.attribute = htobe16(attribute);
        return mad;
    }
    static vrdma_mad answer(vrdma_cm_attribute attribute, std::uint32_t remote_id) {
        vrdma_mad mad = message(attribute);
        mad.ids.remote_id = htobe32(remote_id);
        return mad;
    }
    static vrdma_mad request(vrdma_cm_attribute attribute, std::uint64_t service_id) {
        vrdma_mad mad = message(attribute);
        if (attribute == VRDMA_CM_REQ) {
            mad.req.service_id = htobe64(service_id);
        } else {
            mad.sidr_req.service_id = htobe64(service_id);
        }
        return mad;
    }

    GuestQp a_gsi_ = a_.create_qp(a_cq_, a_cq_, {.type = hca::QpType::ud, .gsi = true});
    MemoryRegion a_mr_ = a_.register_mr(1 << 12);
    std::optional<Function> first_{std::in_place, *hca_, ipv4_gid(9), first_half};
    std::optional<Function> second_{std::in_place, *hca_, ipv4_gid(9), second_half};
    AhId to_them_ = a_.create_ah(ipv4_gid(9));
};

// Write to a QP of each function; expect both to be reached.
TEST_F(GsiTest, EachHasItsQueuePairs) {
    for (Function* function : {&*first_, &*second_}) {
        GuestQp to = function->guest.create_qp(function->cq, function->cq);
        GuestQp from = a_.create_qp(a_cq_, a_cq_);
        connect_both(a_, from, function->guest, to);
        from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    }
}

// Connect QPs of both, which have the same GID; expect them to reach each other.
TEST_F(GsiTest, FunctionsReachEachOther) {
    GuestQp one = first_->guest.create_qp(first_->cq, first_->cq);
    GuestQp other = second_->guest.create_qp(second_->cq, second_->cq);
    connect_both(first_->guest, one, second_->guest, other);
    other.post_send({.opcode = VRDMA_SQ_RDMA_WRITE});
    EXPECT_EQ(wait(second_->cq).status, IBV_WC_SUCCESS);
}

// Answers name ids of each function; expect each to go to the function that has issued the id.
TEST_F(GsiTest, AnswersGoToWhoIsNamed) {
    EXPECT_EQ(deliver(answer(VRDMA_CM_REP, 0x00000105)), &*first_);
    EXPECT_EQ(deliver(answer(VRDMA_CM_REP, 0x80000105)), &*second_);
    EXPECT_EQ(deliver(answer(VRDMA_CM_DREQ, 0xffffffff)),
              &*first_); // the number of multicast belongs to no function
    vrdma_mad sidr = message(VRDMA_CM_SIDR_REP);
    sidr.sidr_rep.request_id = htobe32(0x80000001);
    EXPECT_EQ(deliver(sidr), &*second_);
}

// Requests for a service, to which the second function listens for a while; expect that function to
// get requests of both kinds meanwhile, and the first to get the others.
TEST_F(GsiTest, RequestsGoToWhoListens) {
    for (const auto kind : {VRDMA_CM_REQ, VRDMA_CM_SIDR_REQ}) {
        EXPECT_EQ(deliver(request(kind, service)), &*first_);
        second_->guest.slice().listen(service);
        EXPECT_EQ(deliver(request(kind, service)), &*second_);
        EXPECT_EQ(deliver(request(kind, service + 1)), &*first_);
        second_->guest.slice().unlisten(service);
        EXPECT_EQ(deliver(request(kind, service)), &*first_);
    }
}

// A datagram of another class, and one that is too short for a message; expect the first function
// to get both.
TEST_F(GsiTest, TheRestGoesToOneOfThem) {
    second_->guest.slice().listen(service);
    vrdma_mad other = request(VRDMA_CM_REQ, service);
    other.header.mgmt_class = 4;
    EXPECT_EQ(deliver(other), &*first_);
    a_gsi_.post_send({.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                      .inline_data = Buffer::pattern(1, 20),
                      .ah = to_them_,
                      .dest_qpn = hca::gsi_qpn,
                      .qkey = well_known_qkey});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    settle();
    EXPECT_TRUE(first_->cq.poll());
}

// Send to a function that is frozen for a moment, as while vrdmad restarts; expect the message to
// arrive. Then send to one that has been frozen for longer; expect others not to wait for it.
TEST_F(GsiTest, WaitsForAMomentOnly) {
    first_->guest.slice().freeze();
    send(answer(VRDMA_CM_DREQ, 0x00000105));
    settle();
    EXPECT_FALSE(a_cq_.poll());
    first_->guest.thaw();
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_TRUE(first_->cq.poll());

    first_->guest.slice().freeze();
    pass(moment);
    EXPECT_EQ(deliver(answer(VRDMA_CM_DREQ, 0x00000105)), nullptr);
    EXPECT_EQ(deliver(answer(VRDMA_CM_DREQ, 0x80000105)), &*second_);
    first_->guest.thaw();
}

// The first function loses its QP1, and is then destroyed; expect the second to get all messages
// without an addressee. After the second is destroyed, nobody gets the service's requests.
TEST_F(GsiTest, FunctionsComeAndGo) {
    first_->guest.slice().listen(service);
    first_->guest.slice().destroy_qp(hca::gsi_qpn);
    EXPECT_EQ(deliver(request(VRDMA_CM_REQ, service + 1)), &*second_);
    first_.reset();
    EXPECT_EQ(deliver(request(VRDMA_CM_REQ, service)), &*second_);
    second_.reset();
    EXPECT_EQ(deliver(request(VRDMA_CM_REQ, service)), nullptr);
}

} // namespace
} // namespace vrdma::test
