// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A port whose uplink loses its carrier and gets it back: what guests are told of it.
#include "mediator/hca/soft/tests/network_peer.h"

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
};

// Take the carrier away and give it back; expect an event of each, and none of what stays as it is.
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

// Take the carrier away under a QP; expect it to go on, with what it sends and what arrives.
TEST_F(PortState, QpsGoOn) {
    hca_->set_link("cable", false);
    post_receive(0, 1000);
    deliver(asking(VRDMA_ROCE_SEND_ONLY, 0));
    expect_acknowledge(reply(), 0, ack);
    qp_.post_send({});
    EXPECT_EQ(reply().operation(), VRDMA_ROCE_SEND_ONLY);
    EXPECT_EQ(state_of(guest_, qp_), IBV_QPS_RTS);
}

// Take the carrier away from a device that is bound to another uplink, or none; expect it to hear
// nothing of that.
TEST_F(PortState, OthersHearNothing) {
    Guest inside{*hca_, "inside", ipv4_gid(3)};
    hca_->set_link("cable", false);
    EXPECT_TRUE(inside.slice().port_up());
    EXPECT_FALSE(told(inside));
}

// Make a device while there is no carrier; expect it to hear so, as it takes a port to be up.
TEST_F(PortState, ANewDeviceIsTold) {
    hca_->set_link("cable", false);
    Guest late{*hca_, "late", ipv4_gid(3), Guest::default_memory(), {}, "cable"};
    EXPECT_EQ(told(late), port_err);
    hca_->set_link("cable", true);
    EXPECT_EQ(told(late), port_active);
}

// Change the state time and again while the event queue has no room; expect to hear of the last.
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

// Change the state of a device that stands still; expect its memory to be left alone until it goes
// on.
TEST_F(PortState, AFrozenDeviceIsToldLater) {
    guest_.slice().freeze();
    hca_->set_link("cable", false);
    EXPECT_FALSE(told(guest_));
    guest_.thaw();
    EXPECT_EQ(told(guest_), port_err);
}

// Move to a host without a carrier, and on to another; expect to hear what has changed, once.
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
