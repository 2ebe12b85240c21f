// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device with PVRDMA's personality whose state is saved and restored. Its driver does not notice.
#include "mediator/device/pvrdma/tests/pvrdma_device.h"
#include "mediator/verbs/saved_state.h"

namespace vrdma {
namespace {

using test::Buffer;
using test::ipv4_gid;
using test::PvDriver;
using test::PvQp;

class PvrdmaState : public test::PvrdmaDevice {
  protected:
    std::vector<std::byte> take_away() {
        device.freeze();
        auto image = device.save();
        device.reset();
        EXPECT_FALSE(device.enabled());
        return image;
    }

    bool bring_back(std::span<const std::byte> image) {
        const bool restored = device.restore(image).has_value();
        if (restored) {
            device.raise_all();
            device.thaw();
            let_run();
        }
        return restored;
    }

    void let_run() {
        while (port.take_wake()) {
            device.service();
        }
    }

    void expect_messages(std::uint64_t number) {
        mr->buffer.fill(static_cast<std::uint8_t>(number));
        const vrdma_sge to = peer.sge(3000);
        peer.qp->post_recv({&to, 1});
        qp->post_send(test::send_wqe(number), std::array{mr->sge(0, 3000)});
        const pvrdma_cqe sent = wait_pv();
        EXPECT_EQ(sent.status, std::uint32_t{IBV_WC_SUCCESS});
        EXPECT_EQ(sent.wr_id, number);
        EXPECT_EQ(sent.qp, qp->handle);
        EXPECT_EQ(wait_peer().byte_len, 3000u);
        EXPECT_EQ(peer.data.read(0, 3000), mr->buffer.read(0, 3000));
    }

    void expect_event() {
        const auto event = wait([this] { return driver.completions().poll(); });
        EXPECT_EQ(event.cq, cq->handle);
    }
};

// Messages, commands and events continue. A receive that was posted before gets its message, and a
// new object gets a name of its own.
TEST_F(PvrdmaState, TheDriverContinues) {
    set_up();
    const std::uint32_t uc = driver.create_uc(3);
    ASSERT_NE(uc, 0u);
    expect_messages(1);
    qp->post_recv(77, std::array{mr->sge(8192, 100)});
    ASSERT_TRUE(bring_back(take_away()));

    const vrdma_sge from = peer.sge(100);
    peer.qp->post_send({.sges = {&from, 1}});
    EXPECT_EQ(wait_peer().status, IBV_WC_SUCCESS);
    const pvrdma_cqe received = wait_pv();
    EXPECT_EQ(received.wr_id, 77u);
    EXPECT_EQ(received.qp, qp->handle);
    expect_messages(2);

    driver.arm(*cq);
    peer.qp->post_send({});
    qp->post_recv(78, std::array{mr->sge(8192, 100)});
    expect_event();
    EXPECT_EQ(wait_pv().wr_id, 78u);

    const PvQp other = driver.create_qp(pd, cq->handle);
    EXPECT_NE(other.handle, 0u);
    EXPECT_NE(other.handle, qp->handle);
    EXPECT_EQ(driver.create_uc(3), 0u) << "the page has a user context";
    const std::uint32_t user_pd = driver.create_pd(uc);
    const PvDriver::Cq user_cq = driver.create_cq(16, uc);
    const PvQp user_qp = driver.create_qp(user_pd, user_cq.handle, {}, 3);
    EXPECT_NE(user_qp.handle, 0u);
    for (const auto& [command, handle] :
         {std::pair{PVRDMA_DESTROY_QP, user_qp.handle},
          std::pair{PVRDMA_DESTROY_CQ, user_cq.handle}, std::pair{PVRDMA_DESTROY_PD, user_pd},
          std::pair{PVRDMA_DESTROY_UC, uc}, std::pair{PVRDMA_DESTROY_QP, qp->handle}}) {
        EXPECT_EQ(driver.destroy(command, handle), 0u) << command;
    }
}

// Doorbells of a user context's page reach its QP, which had got its slot before.
TEST_F(PvrdmaState, DoorbellsOfPages) {
    set_up();
    const std::uint32_t uc = driver.create_uc(2);
    const std::uint32_t user_pd = driver.create_pd(uc);
    const PvDriver::Cq user_cq = driver.create_cq(16, uc);
    const PvQp user_qp = driver.create_qp(user_pd, user_cq.handle, {}, 2);
    const PvDriver::Mr memory = driver.create_mr(user_pd, 4096);
    ASSERT_EQ(driver.connect(user_qp.handle, ipv4_gid(1), user_qp.qpn), 0u); // to itself
    ASSERT_TRUE(bring_back(take_away()));
    for (int i = 0; i < 1000; ++i) {
        hca->poll(); // it sleeps
    }
    user_qp.post_recv(5, std::array{memory.sge(0, 64)});
    user_qp.post_send(test::send_wqe(6), std::array{memory.sge(64, 64)});
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(wait([&] { return user_cq.ring.poll(); }).status, std::uint32_t{IBV_WC_SUCCESS});
    }
}

// A request for an event that was open stays so. One that was lost on its way, between two
// mediators, is no reason to wait for ever: a CQ that has used events tells of its entries.
TEST_F(PvrdmaState, EventsAreNotLost) {
    set_up();
    driver.arm(*cq);
    hca->poll();
    ASSERT_TRUE(bring_back(take_away()));
    EXPECT_FALSE(driver.completions().poll());
    qp->post_recv(1, std::array{mr->sge(0, 8)});
    peer.qp->post_send({});
    expect_event();
    EXPECT_EQ(wait_peer().status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait_pv().wr_id, 1u);

    qp->post_recv(2, std::array{mr->sge(0, 8)});
    peer.qp->post_send({});
    EXPECT_EQ(wait_peer().status, IBV_WC_SUCCESS);
    for (int i = 0; i < 100; ++i) {
        hca->poll();
    }
    EXPECT_FALSE(driver.completions().poll()) << "it has not asked again";
    ASSERT_TRUE(bring_back(take_away()));
    expect_event();
}

// Where no doorbell gets lost, requests for events are as they were: an open one stays, for entries
// of before and after, and no event comes that nobody has asked for.
TEST_F(PvrdmaState, RequestsForEventsStayAsTheyWere) {
    port.keep_doorbells();
    set_up();
    const auto receive = [&](std::uint64_t number) {
        qp->post_recv(number, std::array{mr->sge(0, 8)});
        peer.qp->post_send({});
        EXPECT_EQ(wait_peer().status, IBV_WC_SUCCESS);
        for (int i = 0; i < 100; ++i) {
            hca->poll();
        }
    };
    driver.arm(*cq);
    hca->poll();
    receive(1);
    expect_event();
    receive(2); // the guest has taken neither entry, and has not asked again
    ASSERT_TRUE(bring_back(take_away()));
    hca->poll();
    EXPECT_FALSE(driver.completions().poll());
    driver.arm(*cq);
    expect_event(); // for the second one
    EXPECT_EQ(wait_pv().wr_id, 1u);
    EXPECT_EQ(wait_pv().wr_id, 2u);
    driver.arm(*cq);
    hca->poll();
    ASSERT_TRUE(bring_back(take_away()));
    hca->poll();
    EXPECT_FALSE(driver.completions().poll());
    receive(3);
    expect_event();
}

// The rings of events go on where they were, and so does the mask of interrupts.
TEST_F(PvrdmaState, EventRingsAndInterrupts) {
    set_up();
    const auto reach_limit = [&] {
        pvrdma_request request{};
        const Buffer buffer = driver.allocate(std::uint64_t{2} * PVRDMA_PAGE_SIZE);
        request.create_srq = {driver.directory(buffer), pd, 2, {16, 1, 0, 0}, 0, {}};
        const std::uint32_t srq = driver.create(PVRDMA_CREATE_SRQ, request);
        request = {};
        request.modify_srq = {srq, IBV_SRQ_LIMIT, {0, 0, 7, 0}};
        EXPECT_EQ(driver.run(PVRDMA_MODIFY_SRQ, request), 0u);
        EXPECT_EQ(wait([&] { return driver.async().poll(); }).id, srq);
    };
    reach_limit();
    device.write_register(PVRDMA_REG_MASK, 1u << PVRDMA_VECTOR_ASYNC);
    reach_limit();
    ASSERT_TRUE(bring_back(take_away()));
    const unsigned before = port.raised(PVRDMA_VECTOR_ASYNC);
    EXPECT_EQ(port.read(PVRDMA_REG_MASK), 1u << PVRDMA_VECTOR_ASYNC);
    device.write_register(PVRDMA_REG_MASK, 0);
    EXPECT_EQ(port.raised(PVRDMA_VECTOR_ASYNC), before + 1);
    reach_limit();
}

// A command that the device has taken, but not executed, comes along. Its answer is the only
// interrupt of that vector.
TEST_F(PvrdmaState, CommandsComeAlong) {
    set_up();
    const unsigned before = port.raised(PVRDMA_VECTOR_RESPONSE);
    device.freeze();
    driver.command_slot() = {};
    driver.command_slot().header = {1, PVRDMA_CREATE_PD, 0};
    device.write_register(PVRDMA_REG_REQUEST, 0);
    const auto image = device.save();
    device.reset();
    EXPECT_EQ(port.raised(PVRDMA_VECTOR_RESPONSE), before);
    ASSERT_TRUE(bring_back(image));
    EXPECT_EQ(port.raised(PVRDMA_VECTOR_RESPONSE), before + 1);
    EXPECT_EQ(device.report().pds.used, 2u);
}

// Between the two halves of its start, after a failure, and with nothing at all.
TEST_F(PvrdmaState, OfADeviceThatIsNotEnabled) {
    ASSERT_TRUE(bring_back(take_away()));
    ASSERT_TRUE(driver.offer_region());
    ASSERT_TRUE(bring_back(take_away()));
    EXPECT_TRUE(driver.activate());
    driver.remove();
    driver.region().command_slot = 0;
    EXPECT_FALSE(driver.probe());
    EXPECT_EQ(device.report().state, DeviceReport::State::failed);
    ASSERT_TRUE(bring_back(take_away()));
    EXPECT_EQ(device.report().state, DeviceReport::State::failed);
    EXPECT_NE(port.read(PVRDMA_REG_ERROR), 0u);
}

// Images that are cut off, of another personality, or for a driver with tables of other sizes, are
// refused. The device can be used afterwards.
TEST_F(PvrdmaState, WrongImagesAreRefused) {
    set_up();
    ASSERT_NE(driver.create_uc(2), 0u);
    const auto image = take_away();
    for (std::size_t size = 0; size < image.size(); ++size) {
        ASSERT_FALSE(device.restore(std::span{image}.first(size))) << size;
    }
    peer.device->freeze();
    EXPECT_FALSE(device.restore(peer.device->save()));

    auto other = image;
    constexpr std::size_t max_qp = 2 * sizeof(SectionState) + sizeof(DeviceState) +
                                   offsetof(pvrdma_shared_region, caps) +
                                   offsetof(pvrdma_caps, max_qp);
    other.at(max_qp) ^= std::byte{1};
    EXPECT_EQ(device.restore(other).error(), std::errc::invalid_argument);
    peer.device->reset();
    EXPECT_FALSE(peer.device->restore(image));
    EXPECT_TRUE(driver.probe());
}

// Any byte of the image may be wrong: the device restores another state, or none.
TEST_F(PvrdmaState, HostileImages) {
    set_up();
    ASSERT_NE(driver.create_uc(2), 0u);
    const auto image = take_away();
    unsigned restored = 0;
    const std::size_t own = 2 * sizeof(SectionState) + sizeof(DeviceState);
    for (std::size_t at = own; at < own + 400; ++at) {
        for (const std::uint8_t value : {0x01, 0x80, 0xff}) {
            auto other = image;
            other.at(at) ^= std::byte{value};
            if (device.restore(other)) {
                device.thaw();
                device.write_doorbell(PVRDMA_UAR_QP, qp->handle | PVRDMA_UAR_QP_SEND);
                driver.command_slot() = {};
                driver.command_slot().header.command = PVRDMA_DESTROY_QP;
                driver.command_slot().handle.handle = qp->handle;
                device.write_register(PVRDMA_REG_REQUEST, 0);
                let_run();
                ++restored;
            }
            device.reset();
        }
    }
    EXPECT_GT(restored, 100u);
    EXPECT_TRUE(driver.probe());
}

// A device announces itself to one of its own personality only.
TEST_F(PvrdmaState, Announcements) {
    set_up();
    const auto announcement = device.announce();
    take_away();
    EXPECT_TRUE(device.admit(announcement));
    EXPECT_EQ(device.admit(peer.device->announce()).error(), std::errc::invalid_argument);
}

} // namespace
} // namespace vrdma
