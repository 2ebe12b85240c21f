// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device with PVRDMA's personality: what its driver sees of it.
#include "mediator/device/pvrdma/tests/pvrdma_device.h"

namespace vrdma {
namespace {

using test::Buffer;
using test::ipv4_gid;
using test::PvDriver;
using test::PvQp;
using test::PvShape;

class PvrdmaTest : public test::PvrdmaDevice {};

// The driver reads version and MAC, and finds in its shared region what the type allows. It cannot
// use the device before it has offered the region.
TEST_F(PvrdmaTest, ShowsItselfToTheDriver) {
    EXPECT_EQ(port.read(PVRDMA_REG_VERSION), std::uint32_t{PVRDMA_VERSION});
    EXPECT_EQ(port.read(PVRDMA_REG_MAC_LOW), 2u);
    EXPECT_EQ(port.read(PVRDMA_REG_MAC_HIGH), 0x100u);
    EXPECT_FALSE(driver.activate());
    EXPECT_TRUE(driver.probe());
    const pvrdma_caps& caps = driver.region().caps;
    EXPECT_EQ(caps.max_qp, type.limits.max_qp + 1);
    EXPECT_EQ(caps.max_uar, type.limits.doorbell_pages);
    EXPECT_EQ(caps.gid_types, PVRDMA_GID_ROCE_V2);
    EXPECT_EQ(caps.max_sge, 16u);
    EXPECT_EQ(caps.node_guid[3], 0xff); // of the EUI-64
    EXPECT_TRUE(device.enabled());
    EXPECT_EQ(device.report().state, DeviceReport::State::active);
}

// Messages cross between a guest of PVRDMA and one with vrdma's driver, both ways.
TEST_F(PvrdmaTest, PingPongWithOurOwnDevice) {
    set_up();
    mr->buffer.fill(3);
    for (std::uint64_t i = 0; i < 100; ++i) {
        const vrdma_sge to = peer.sge(4096);
        peer.qp->post_recv({&to, 1});
        qp->post_recv(i, std::array{mr->sge(8192, 4096)});
        qp->post_send(test::send_wqe(1000 + i), std::array{mr->sge(i, 3000)});
        const pvrdma_cqe sent = wait_pv();
        ASSERT_EQ(sent.status, std::uint32_t{IBV_WC_SUCCESS}) << sent.vendor_err;
        EXPECT_EQ(sent.wr_id, 1000 + i);
        EXPECT_EQ(wait_peer().byte_len, 3000u);
        EXPECT_EQ(peer.data.read(0, 3000), mr->buffer.read(i, 3000));
        const vrdma_sge from = peer.sge(3000);
        peer.qp->post_send({.sges = {&from, 1}});
        const pvrdma_cqe received = wait_pv();
        EXPECT_EQ(received.wr_id, i);
        EXPECT_EQ(received.byte_len, 3000u);
        EXPECT_EQ(received.qp, qp->handle);
        EXPECT_EQ(wait_peer().status, IBV_WC_SUCCESS);
    }
}

// An event comes after the doorbell that asks for it, on the third vector, but not through the UAR
// page of another user context.
TEST_F(PvrdmaTest, CompletionEvents) {
    set_up();
    const std::uint32_t uc = driver.create_uc(3);
    ASSERT_NE(uc, 0u);
    const auto receive = [&] {
        qp->post_recv(1, std::array{mr->sge(0, 8)});
        peer.qp->post_send({});
        EXPECT_EQ(wait_peer().status, IBV_WC_SUCCESS);
        EXPECT_EQ(wait_pv().wr_id, 1u);
        for (int i = 0; i < 100; ++i) {
            hca->poll();
        }
    };
    for (const std::uint32_t foreign : {3u, 5u, 4000u}) {
        driver.arm(*cq, foreign);
        receive();
        EXPECT_FALSE(driver.completions().poll()) << foreign;
    }
    driver.arm(*cq);
    qp->post_recv(1, std::array{mr->sge(0, 8)});
    peer.qp->post_send({});
    const auto event = wait([&] { return driver.completions().poll(); });
    EXPECT_EQ(event.cq, cq->handle);
    EXPECT_EQ(port.raised(PVRDMA_VECTOR_COMPLETION), 1u);
}

// Interrupts wait while their vectors are masked.
TEST_F(PvrdmaTest, MaskedInterruptsWait) {
    set_up();
    const unsigned before = port.raised(PVRDMA_VECTOR_RESPONSE);
    device.write_register(PVRDMA_REG_MASK, ~0u);
    driver.command_slot().header = {1, PVRDMA_QUERY_PORT, 0};
    driver.command_slot().query_port.port = 1;
    device.write_register(PVRDMA_REG_REQUEST, 0);
    EXPECT_EQ(port.raised(PVRDMA_VECTOR_RESPONSE), before);
    device.write_register(PVRDMA_REG_MASK, 0);
    EXPECT_EQ(port.raised(PVRDMA_VECTOR_RESPONSE), before + 1);
}

// What the queries answer.
TEST_F(PvrdmaTest, Queries) {
    set_up();
    pvrdma_request request{};
    request.query_port.port = 1;
    const auto port_attr = driver.execute(PVRDMA_QUERY_PORT, request);
    ASSERT_TRUE(port_attr);
    EXPECT_EQ(port_attr->port.state, std::uint32_t{IBV_PORT_ACTIVE});
    EXPECT_EQ(port_attr->port.gid_table_len, type.limits.gid_table_len);
    const auto pkey = driver.execute(PVRDMA_QUERY_PKEY, request);
    ASSERT_TRUE(pkey);
    EXPECT_EQ(pkey->pkey.pkey, 0xffff);
    request.query_port.port = 2;
    EXPECT_FALSE(driver.execute(PVRDMA_QUERY_PORT, request));
    request = {};
    request.modify_qp.handle = qp->handle;
    const auto attr = driver.execute(PVRDMA_QUERY_QP, request);
    ASSERT_TRUE(attr);
    EXPECT_EQ(attr->qp_attr.state, std::uint32_t{IBV_QPS_RTS});
    EXPECT_EQ(attr->qp_attr.dest_qpn, peer.qp->id().value);
    EXPECT_EQ(attr->qp_attr.sizes.sq_depth, 16u);
    EXPECT_EQ(attr->qp_attr.path.dgid[15], 2);
}

// A command that fails is answered so that the driver sees it: one that creates by a number that it
// does not expect, MODIFY_QP by an error, one without a response by a register.
TEST_F(PvrdmaTest, FailuresReachTheDriver) {
    set_up();
    EXPECT_EQ(driver.create_pd(77), 0u);
    EXPECT_EQ(driver.modify(qp->handle, IBV_QP_STATE, {}), 0u) << "RTS to RESET is legal";
    pvrdma_qp_attr attr{};
    attr.state = IBV_QPS_RTS;
    EXPECT_EQ(driver.modify(qp->handle, IBV_QP_STATE, attr), std::uint32_t{EINVAL});
    attr.state = 0x100 + IBV_QPS_INIT;
    EXPECT_EQ(driver.modify(qp->handle, IBV_QP_STATE, attr), std::uint32_t{EINVAL});
    EXPECT_EQ(driver.destroy(PVRDMA_DESTROY_PD, pd), std::uint32_t{EBUSY});
    EXPECT_EQ(driver.destroy(PVRDMA_DESTROY_CQ, 77), std::uint32_t{EINVAL});
    EXPECT_EQ(driver.bind(1, peer.gid), std::uint32_t{EADDRINUSE});
    EXPECT_FALSE(driver.execute(PVRDMA_RESIZE_CQ, {}));
    EXPECT_EQ(driver.run(PVRDMA_COMMANDS, {}), std::uint32_t{EOPNOTSUPP});
    EXPECT_EQ(driver.run(0xffffffff, {}), std::uint32_t{EOPNOTSUPP});
}

// All objects go again in the driver's order, and many come and go: their handles stay below what
// the driver's tables have.
TEST_F(PvrdmaTest, ObjectsComeAndGo) {
    set_up();
    const std::uint32_t uc = driver.create_uc(1);
    ASSERT_NE(uc, 0u);
    EXPECT_EQ(driver.create_uc(1), 0u) << "the page has a user context";
    EXPECT_EQ(driver.create_uc(type.limits.doorbell_pages), 0u);
    for (unsigned i = 0; i < 2 * type.limits.max_qp; ++i) {
        const std::uint32_t user_pd = driver.create_pd(uc);
        const PvDriver::Cq user_cq = driver.create_cq(16, uc);
        EXPECT_LT(user_cq.handle, driver.region().caps.max_cq);
        const PvQp user_qp = driver.create_qp(user_pd, user_cq.handle, {.max_send_sge = 1}, 1);
        ASSERT_NE(user_qp.handle, 0u) << i;
        EXPECT_EQ(driver.destroy(PVRDMA_DESTROY_UC, uc), std::uint32_t{EBUSY});
        EXPECT_EQ(driver.destroy(PVRDMA_DESTROY_QP, user_qp.handle), 0u);
        EXPECT_EQ(driver.destroy(PVRDMA_DESTROY_CQ, user_cq.handle), 0u);
        EXPECT_EQ(driver.destroy(PVRDMA_DESTROY_PD, user_pd), 0u);
    }
    EXPECT_EQ(driver.destroy(PVRDMA_DESTROY_UC, uc), 0u);
    EXPECT_NE(driver.create_uc(1), 0u);
    EXPECT_EQ(driver.destroy(PVRDMA_DESTROY_MR, mr->handle), 0u);
    pvrdma_request dma{};
    dma.create_mr.pd = pd;
    dma.create_mr.access_flags = IBV_ACCESS_LOCAL_WRITE;
    dma.create_mr.flags = PVRDMA_MR_DMA;
    EXPECT_TRUE(driver.execute(PVRDMA_CREATE_MR, dma));
    dma.create_mr = {};
    dma.create_mr.pd = pd;
    dma.create_mr.flags = PVRDMA_MR_FAST;
    dma.create_mr.pages = 128;
    EXPECT_TRUE(driver.execute(PVRDMA_CREATE_MR, dma));
}

// The GSI QP has its number, and takes the steps that Linux's MAD layer takes with it.
TEST_F(PvrdmaTest, GsiQp) {
    constexpr std::uint8_t gsi = 1;
    set_up();
    const PvShape shape;
    const auto made = driver.execute(
        PVRDMA_CREATE_QP,
        driver.qp_request(pd, cq->handle, driver.allocate(shape.size()), shape, gsi));
    ASSERT_TRUE(made);
    EXPECT_EQ(made->qp.qpn, hca::gsi_qpn.value);
    const std::uint32_t handle = made->qp.handle;
    pvrdma_qp_attr attr{};
    attr.state = IBV_QPS_INIT;
    attr.qkey = 0x80010000;
    EXPECT_EQ(driver.modify(handle, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_QKEY, attr), 0u);
    attr.state = IBV_QPS_RTR;
    EXPECT_EQ(driver.modify(handle, IBV_QP_STATE, attr), 0u);
    attr.state = IBV_QPS_RTS;
    EXPECT_EQ(driver.modify(handle, IBV_QP_STATE | IBV_QP_SQ_PSN, attr), 0u);
}

// An SRQ, whose buffer the provider makes larger than it needs, and its limit.
TEST_F(PvrdmaTest, SharedReceiveQueues) {
    set_up();
    const Buffer buffer = driver.allocate(std::uint64_t{5} * PVRDMA_PAGE_SIZE);
    pvrdma_request request{};
    request.create_srq.directory = driver.directory(buffer);
    request.create_srq.pd = pd;
    request.create_srq.pages = 5;
    request.create_srq.attr = {32, 3, 0, 0};
    const std::uint32_t srq = driver.create(PVRDMA_CREATE_SRQ, request);
    ASSERT_NE(srq, 0u);
    request = {};
    request.modify_srq = {srq, IBV_SRQ_LIMIT, {0, 0, 7, 0}};
    EXPECT_EQ(driver.run(PVRDMA_MODIFY_SRQ, request), 0u);
    const auto event = wait([&] { return driver.async().poll(); }); // it is empty
    EXPECT_EQ(event.type, std::uint32_t{IBV_EVENT_SRQ_LIMIT_REACHED});
    EXPECT_EQ(event.id, srq);
    request = {};
    request.handle.handle = srq;
    const auto attr = driver.execute(PVRDMA_QUERY_SRQ, request);
    ASSERT_TRUE(attr);
    EXPECT_EQ(attr->srq.depth, 32u);
    EXPECT_TRUE(creates_qp(
        [&](pvrdma_create_qp& cmd) {
            cmd.has_srq = 1;
            cmd.srq = srq;
            cmd.rq_depth = cmd.max_recv_sge = 0;
        },
        {.rq_depth = 0}));
    EXPECT_EQ(driver.destroy(PVRDMA_DESTROY_SRQ, srq), std::uint32_t{EBUSY});
}

// The driver goes and comes back, by its own reset, and without one after a crash of its kernel.
TEST_F(PvrdmaTest, DriversComeBack) {
    set_up();
    driver.remove();
    EXPECT_FALSE(device.enabled());
    EXPECT_EQ(driver.run(PVRDMA_DESTROY_PD, {}), std::uint32_t{ENODEV});
    ASSERT_TRUE(driver.probe());
    EXPECT_NE(driver.create_pd(), 0u);
    ASSERT_TRUE(driver.probe());
    EXPECT_NE(driver.create_pd(), 0u);
    EXPECT_EQ(device.report().pds.used, 1u);
}

// A driver of another age, and regions that are none, are refused; the next driver is not.
TEST_F(PvrdmaTest, BadRegionsAreRefused) {
    const pvrdma_shared_region good = driver.region();
    const auto refuses = [&](auto&& change) {
        driver.region() = good;
        change(driver.region());
        return !driver.probe() && !device.enabled();
    };
    EXPECT_TRUE(refuses([](auto& region) { region.driver_version = 19; }));
    for (const std::uint64_t address :
         {std::uint64_t{0}, memory_size, memory_size - 8, UINT64_MAX - 7, std::uint64_t{4097}}) {
        EXPECT_TRUE(refuses([&](auto& region) { region.command_slot = address; })) << address;
        EXPECT_TRUE(refuses([&](auto& region) { region.response_slot = address; })) << address;
        EXPECT_TRUE(refuses([&](auto& region) { region.async_events.directory = address; }));
        EXPECT_TRUE(refuses([&](auto& region) { region.completion_events.directory = address; }));
        device.write_register(PVRDMA_REG_SHARED_LOW, static_cast<std::uint32_t>(address));
        device.write_register(PVRDMA_REG_SHARED_HIGH, static_cast<std::uint32_t>(address >> 32));
        EXPECT_NE(port.read(PVRDMA_REG_ERROR), 0u) << address;
    }
    for (const std::uint32_t pages : {0u, 1u, 3u, 5u, 65u, 0xffffffffu}) {
        EXPECT_TRUE(refuses([&](auto& region) { region.async_events.pages = pages; })) << pages;
        EXPECT_TRUE(refuses([&](auto& region) { region.completion_events.pages = pages; }));
    }
    driver.region() = good;
    EXPECT_TRUE(driver.probe());
}

// CVE-2022-1050: a command came before the shared region. Expect an error, and nothing else.
TEST_F(PvrdmaTest, Cve20221050CommandsBeforeTheRegion) {
    EXPECT_EQ(driver.run(PVRDMA_CREATE_BIND, {}), std::uint32_t{ENODEV});
    EXPECT_TRUE(driver.offer_region());
    EXPECT_EQ(driver.run(PVRDMA_CREATE_BIND, {}), std::uint32_t{ENODEV});
    EXPECT_TRUE(driver.activate());
}

// CVE-2018-20191: reads of the doorbell page had no function. CVE-2018-20216: an index kept the
// device in a loop. Ring doorbells of any value and place; expect the device to live on.
TEST_F(PvrdmaTest, Cve201820216Doorbells) {
    device.write_doorbell(0, ~0u); // before there is a driver
    set_up();
    for (const std::uint64_t offset :
         {0ull, 1ull, 4ull, 8ull, 12ull, 4095ull, 4096ull, 1ull << 40}) {
        for (const std::uint32_t value : {0u, 1u, 0x3fffffffu, 0x40000000u, 0xffffffffu}) {
            device.write_doorbell(offset, value);
        }
    }
    qp->sends.indices().ring().tail = 0xffffffff;
    device.write_doorbell(PVRDMA_UAR_QP, qp->handle | PVRDMA_UAR_QP_SEND);
    for (int i = 0; i < 1000; ++i) {
        hca->poll();
    }
    EXPECT_TRUE(device.enabled());
}

// CVE-2018-20125 and CVE-2021-3607: page counts of rings were not bounded, or not those of the
// ring. CVE-2018-20126 and CVE-2021-3608: what a failed command had made stayed, or was freed
// although it was never made. Make queues of wrong sizes and pages; expect each to be refused, and
// all that they would have used to be free afterwards.
TEST_F(PvrdmaTest, Cve201820125SizesOfRings) {
    set_up();
    const std::uint64_t used = device.report().memory.used;
    for (const std::uint32_t number : {0u, 3u, 17u, 0x8000u, 0x10000u, 1u << 27, 0xffffffffu}) {
        EXPECT_FALSE(creates_qp([&](auto& cmd) { cmd.sq_depth = number; })) << number;
        EXPECT_FALSE(creates_qp([&](auto& cmd) { cmd.rq_depth = number; })) << number;
        EXPECT_FALSE(creates_qp([&](auto& cmd) { cmd.pd = number; })) << number;
        EXPECT_FALSE(creates_qp([&](auto& cmd) { cmd.send_cq = number; })) << number;
        EXPECT_FALSE(
            creates_qp([&](auto& cmd) { cmd.pages = static_cast<std::uint16_t>(number + 1); }));
        EXPECT_FALSE(creates_qp([&](auto& cmd) { cmd.type = static_cast<std::uint8_t>(number); }));
    }
    for (const std::uint32_t sges : {31u, 254u, 4096u, 0x10000001u, 0xffffffffu}) {
        EXPECT_FALSE(creates_qp([&](auto& cmd) { cmd.max_send_sge = sges; })) << sges;
        EXPECT_FALSE(creates_qp([&](auto& cmd) { cmd.max_recv_sge = sges; })) << sges;
    }
    for (const std::uint64_t directory :
         {std::uint64_t{0}, std::uint64_t{8}, memory_size, UINT64_MAX}) {
        EXPECT_FALSE(creates_qp([&](auto& cmd) { cmd.directory = directory; }));
        pvrdma_request request{};
        request.create_cq = {directory, 0, 64, 2, {}};
        EXPECT_FALSE(driver.execute(PVRDMA_CREATE_CQ, request));
    }
    for (const std::uint32_t depth : {0u, 65u, 1u << 23, 1u << 31}) {
        pvrdma_request request{};
        const Buffer buffer = driver.allocate(std::uint64_t{2} * PVRDMA_PAGE_SIZE);
        request.create_cq = {driver.directory(buffer), 0, depth, 2, {}};
        EXPECT_FALSE(driver.execute(PVRDMA_CREATE_CQ, request)) << depth;
        request = {};
        request.create_srq = {driver.directory(buffer), pd, 2, {depth, 1, 0, 0}, 0, {}};
        EXPECT_FALSE(driver.execute(PVRDMA_CREATE_SRQ, request)) << depth;
    }
    EXPECT_EQ(device.report().memory.used, used);
    EXPECT_TRUE(creates_qp([](auto&) {}));
}

// CVE-2021-3582: the length of a region did not match its directory. CVE-2018-20124: the SGEs of a
// WQE were not bounded. Register regions with other page counts, and post more SGEs than a QP has;
// expect each to be refused, and the WQE to complete in error.
TEST_F(PvrdmaTest, Cve20213582RegionsAndSges) {
    set_up();
    const Buffer buffer = driver.allocate(std::uint64_t{3} * PVRDMA_PAGE_SIZE);
    pvrdma_request good{};
    good.create_mr = {0, std::uint64_t{3} * PVRDMA_PAGE_SIZE, driver.directory(buffer), pd, 0, 0,
                      3};
    for (const std::uint32_t pages : {0u, 2u, 4u, 0xffffffffu}) {
        pvrdma_request request = good;
        request.create_mr.pages = pages;
        EXPECT_FALSE(driver.execute(PVRDMA_CREATE_MR, request)) << pages;
    }
    for (const std::uint64_t length :
         {std::uint64_t{0}, std::uint64_t{std::uint64_t{3} * PVRDMA_PAGE_SIZE + 1}, UINT64_MAX}) {
        pvrdma_request request = good;
        request.create_mr.length = length;
        EXPECT_FALSE(driver.execute(PVRDMA_CREATE_MR, request)) << length;
    }
    pvrdma_request flags = good;
    flags.create_mr.flags = PVRDMA_MR_DMA | PVRDMA_MR_FAST;
    EXPECT_FALSE(driver.execute(PVRDMA_CREATE_MR, flags));
    EXPECT_TRUE(driver.execute(PVRDMA_CREATE_MR, good));

    const std::vector<vrdma_sge> many(4, mr->sge(0, 8)); // a stride has room for one more
    qp->post_send(test::send_wqe(9), many);
    EXPECT_EQ(wait_pv().status, std::uint32_t{IBV_WC_LOC_QP_OP_ERR});
}

} // namespace
} // namespace vrdma
