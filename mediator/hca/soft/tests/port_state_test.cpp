// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A port whose uplink loses its carrier and gets it back: the events that guests get.
#include "mediator/hca/soft/transport/roce/tests/network_peer.h"

namespace vrdma::test {
namespace {

constexpr Event port_err{IBV_EVENT_PORT_ERR, VRDMA_PORT};
constexpr Event port_active{IBV_EVENT_PORT_ACTIVE, VRDMA_PORT};

class PortState : public NetworkPeer {
  protected:
    std::optional<Event> told(Guest& guest) {
        settle();
        return guest.eq().poll();
    }

    void resize(std::size_t frame_size) {
        dynamic_cast<Cable::End&>(*end_).resize(frame_size);
        hca_->set_link("cable", true);
    }
    // To the frame size of an interface with an MTU of 1500.
    void narrow() { resize(1518); }
    void widen() { resize(wire::max_frame_size); }

    void reset_ud(GuestQp& ud) {
        ASSERT_TRUE(guest_.slice().modify_qp(ud.id(), state_attr(IBV_QPS_RESET)));
        ud.reset();
        activate_ud(guest_, ud, 5);
    }
};

// Take the carrier away and give it back; expect one event for each change, and none without a
// change.
TEST_F(PortState, GoesAndComes) {
    EXPECT_TRUE(guest_.slice().port_up());
    EXPECT_FALSE(told(guest_));
    for (const bool up : {false, true}) {
        for (int times = 0; times < 2; ++times) {
            hca_->set_link("cable", up);
        }
        EXPECT_EQ(guest_.slice().port_up(), up);
        EXPECT_EQ(told(guest_), up ? port_active : port_err);
        EXPECT_FALSE(told(guest_));
    }
    EXPECT_EQ(guest_.interrupts(1), 2u);
}

// Take the carrier away; expect a QP to go on sending and receiving.
TEST_F(PortState, QpsGoOn) {
    hca_->set_link("cable", false);
    post_receive(0, 1000);
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 0));
    expect_acknowledge(reply(), 0, ack);
    qp_.post_send({});
    EXPECT_EQ(reply().operation(), VRDMA_ROCE_SEND_ONLY);
    EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_RTS);
}

// The uplink's frames become smaller than a connected QP's packets; expect these packets to be
// lost, and the peer to be considered absent in the end. Meanwhile the poller must become idle.
TEST_F(PortState, PacketsThatDoNotFitAreLost) {
    renew({.path_mtu = IBV_MTU_4096, .timeout = 12, .retry_cnt = 1});
    narrow();
    post(VRDMA_SQ_SEND, 4096);
    int idle = 0;
    const auto limit = Clock::now() + std::chrono::seconds{10};
    std::optional<Completion> completion;
    while (!completion && Clock::now() < limit) {
        idle += hca_->poll() ? 0 : 1;
        completion = cq_.poll();
    }
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_GT(idle, 0);
    EXPECT_TRUE(sent().empty());
}

// The same for a READ's response; expect only the packet that fits to be sent.
TEST_F(PortState, ResponsesThatDoNotFitAreLost) {
    renew({.path_mtu = IBV_MTU_4096});
    narrow();
    deliver(remote(VRDMA_ROCE_READ_REQUEST, 0, 4096 + 8));
    const Arrived response = reply();
    EXPECT_EQ(response.operation(), VRDMA_ROCE_READ_RESPONSE_LAST);
    EXPECT_EQ(response.headers.psn, psn(1));
}

// A port's MTU becomes smaller and larger again; expect a datagram above the MTU to fail, and one
// within it to be sent, by a QP that existed before.
TEST_F(PortState, DatagramsAreAsLongAsTheMtu) {
    GuestQp ud = guest_.create_qp(cq_, cq_, {.type = hca::QpType::ud});
    const AhId ah = guest_.create_ah(peer_gid_);
    const auto status_of = [&](std::uint32_t length) {
        reset_ud(ud);
        const vrdma_sge local = mr_.sge(0, length);
        ud.post_send(
            {.flags = VRDMA_SQ_SIGNALED, .sges = {&local, 1}, .ah = ah, .dest_qpn = Qpn{peer_qpn}});
        settle();
        const auto completion = cq_.poll();
        return completion ? completion->status : IBV_WC_FATAL_ERR;
    };
    EXPECT_EQ(status_of(4096), IBV_WC_SUCCESS);
    narrow();
    EXPECT_EQ(status_of(4096), IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(status_of(1024), IBV_WC_SUCCESS);
    widen();
    EXPECT_EQ(status_of(4096), IBV_WC_SUCCESS);
}

// An uplink loses its carrier, and a device is bound to another one or none; expect that device to
// get no event.
TEST_F(PortState, OthersHearNothing) {
    Guest inside{*hca_, "inside", ipv4_gid(3)};
    hca_->set_link("cable", false);
    EXPECT_TRUE(inside.slice().port_up());
    EXPECT_FALSE(told(inside));
}

// Make a device while there is no carrier; expect it to get an event, because it assumes that a
// port is up.
TEST_F(PortState, ANewDeviceIsTold) {
    hca_->set_link("cable", false);
    Guest late{*hca_, "late", ipv4_gid(3), Guest::default_memory(), {}, "cable"};
    EXPECT_EQ(told(late), port_err);
    hca_->set_link("cable", true);
    EXPECT_EQ(told(late), port_active);
}

// Change the state several times while the event queue has no room; expect an event of the last
// state.
TEST_F(PortState, TheLastStateWaitsForRoom) {
    const std::uint32_t taken = guest_.eq().control().consumer;
    guest_.eq().control().consumer = taken + 1; // out of range: it looks full
    for (const bool up : {false, true, false}) {
        hca_->set_link("cable", up);
        settle();
    }
    guest_.eq().control().consumer = taken;
    EXPECT_EQ(told(guest_), port_err);
    EXPECT_FALSE(told(guest_));
}

// Change the port's state while a device is frozen; expect no access to its memory until it thaws.
TEST_F(PortState, AFrozenDeviceIsToldLater) {
    guest_.slice().freeze();
    hca_->set_link("cable", false);
    EXPECT_FALSE(told(guest_));
    guest_.thaw();
    EXPECT_EQ(told(guest_), port_err);
}

// Add an uplink, remove it and add one of that name again; expect a device that is bound to the
// last one to have its state, and the first uplink's device not to notice.
TEST_F(PortState, AnUplinkGoesAndComes) {
    for (int i = 0; i < 2; ++i) {
        auto [near, far] = Cable::lay();
        ASSERT_TRUE(hca_->add_uplink("another", std::move(near)));
        hca_->poll();
        hca_->remove_uplink("another");
    }
    auto [near, far] = Cable::lay();
    ASSERT_TRUE(hca_->add_uplink("another", std::move(near)));
    hca_->set_link("another", false);
    hca_->poll();
    Guest guest{*hca_, "another", ipv4_gid(7), Guest::default_memory(), {}, "another"};
    EXPECT_FALSE(guest.slice().port_up());
    EXPECT_TRUE(guest_.slice().port_up());
    EXPECT_FALSE(told(guest_));
}

// Migrate to a host without a carrier, and then to another; expect one event for each change.
TEST_F(PortState, TheStateIsThatOfTheNewHost) {
    hca::soft::Config config;
    config.threads = false;
    const auto other = hca::soft::SoftHca::create(config).value();
    auto [near, far] = Cable::lay();
    ASSERT_TRUE(other->add_uplink("cable", std::move(near)));
    other->set_link("cable", false);
    const auto hear = [&] {
        for (int i = 0; i < 40; ++i) {
            other->poll();
        }
        return told(guest_);
    };
    guest_.migrate(*other);
    EXPECT_EQ(hear(), port_err);
    guest_.migrate(*other);
    EXPECT_FALSE(hear());
    guest_.migrate(*hca_);
    EXPECT_EQ(hear(), port_active);
}

} // namespace
} // namespace vrdma::test
