// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Every admin command as a guest sends it, right and wrong.
#include "mediator/device/vrdma/admin_commands.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "mediator/device/tests/device_test.h"
#include "mediator/device/version.h"

namespace vrdma {
namespace {

struct Named {
    std::uint32_t opcode;
    vrdma_admin_cmd cmd;
    std::size_t argument_size;
};

class AdminCommandTest : public DeviceTest {
  protected:
    void SetUp() override {
        ASSERT_TRUE(guest.enable());
        ASSERT_EQ(guest.run(VRDMA_ADMIN_SET_GID, gid_command(0)), 0);
        pd = make(VRDMA_ADMIN_ALLOC_PD);
        eq = make(VRDMA_ADMIN_CREATE_EQ, eq_command());
        cq = make(VRDMA_ADMIN_CREATE_CQ, cq_command(eq));
    }

    vrdma_admin_cmd ah_command() const {
        vrdma_admin_cmd cmd{};
        cmd.create_ah.pd = pd;
        cmd.create_ah.av.dgid[0] = 0xfd;
        cmd.create_ah.av.port_num = 1;
        return cmd;
    }

    vrdma_admin_cmd resize_command(std::uint32_t cqn, std::uint32_t depth = 64) {
        vrdma_admin_cmd cmd{};
        const auto size = VRDMA_QUEUE_CONTROL_SIZE + depth * sizeof(vrdma_cqe);
        cmd.resize_cq = {allocator.page_list(allocator.allocate(size), size), 0, depth, cqn, 0};
        return cmd;
    }

    vrdma_admin_cmd resize_srq_command(std::uint32_t srqn, std::uint32_t depth = 64) {
        vrdma_admin_cmd cmd{};
        const auto size = vrdma_srq_buffer_size(depth, 5);
        cmd.resize_srq = {
            allocator.page_list(allocator.allocate(size), size), 0, depth, srqn, 0, 0, 0};
        return cmd;
    }

    vrdma_admin_cmd on_demand_command() {
        vrdma_admin_cmd cmd = mr_command(pd);
        cmd.reg_mr.pages = {};
        cmd.reg_mr.access_flags |= IBV_ACCESS_ON_DEMAND;
        return cmd;
    }

    vrdma_admin_cmd map_command(std::uint32_t key) {
        vrdma_admin_cmd cmd{};
        cmd.map_pages.pages =
            allocator.page_list(allocator.allocate(VRDMA_PAGE_SIZE), VRDMA_PAGE_SIZE);
        cmd.map_pages.key = key;
        return cmd;
    }

    static vrdma_admin_cmd unmap_command(std::uint32_t key) {
        vrdma_admin_cmd cmd{};
        cmd.unmap_pages.count = 1;
        cmd.unmap_pages.key = key;
        return cmd;
    }

    static vrdma_admin_cmd modify_command(std::uint32_t qpn) {
        vrdma_admin_cmd cmd{};
        cmd.modify_qp.qpn = qpn;
        cmd.modify_qp.attr.attr_mask =
            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        cmd.modify_qp.attr.state = IBV_QPS_INIT;
        cmd.modify_qp.attr.port_num = 1;
        return cmd;
    }

    static vrdma_admin_cmd rereg_command(std::uint32_t key) {
        vrdma_admin_cmd cmd{};
        cmd.rereg_mr.key = key;
        cmd.rereg_mr.flags = VRDMA_REREG_ACCESS;
        cmd.rereg_mr.access_flags = IBV_ACCESS_LOCAL_WRITE;
        return cmd;
    }

    vrdma_admin_cmd mw_command() const {
        vrdma_admin_cmd cmd{};
        cmd.alloc_mw = {pd, IBV_MW_TYPE_2};
        return cmd;
    }

    vrdma_admin_cmd fast_mr_command() const {
        vrdma_admin_cmd cmd{};
        cmd.alloc_mr = {pd, VRDMA_MAX_FAST_PAGES};
        return cmd;
    }

    static vrdma_admin_cmd handle_command(std::uint32_t handle) {
        vrdma_admin_cmd cmd{};
        cmd.handle.handle = handle;
        return cmd;
    }

    std::uint32_t make(std::uint32_t opcode, const vrdma_admin_cmd& cmd = {}) {
        return static_cast<std::uint32_t>(guest.create(opcode, cmd));
    }

    // A valid instance of each command, in an order in which all of them succeed.
    std::vector<Named> all_commands() {
        constexpr std::size_t handle = sizeof(vrdma_cmd_handle);
        const auto qpn = make(VRDMA_ADMIN_CREATE_QP, qp_command(pd, cq));
        const auto key = make(VRDMA_ADMIN_REG_MR, mr_command(pd));
        const auto on_demand = make(VRDMA_ADMIN_REG_MR, on_demand_command());
        const auto window = make(VRDMA_ADMIN_ALLOC_MW, mw_command());
        const auto ah = make(VRDMA_ADMIN_CREATE_AH, ah_command());
        const auto user = make(VRDMA_ADMIN_ALLOC_UCONTEXT);
        const auto unused_pd = make(VRDMA_ADMIN_ALLOC_PD);
        const auto unused_eq = make(VRDMA_ADMIN_CREATE_EQ, eq_command());
        const auto srqn = make(VRDMA_ADMIN_CREATE_SRQ, srq_command(pd));
        const auto unused_cq = make(VRDMA_ADMIN_CREATE_CQ, cq_command(eq));
        const auto xrcd = make(VRDMA_ADMIN_ALLOC_XRCD);
        const auto counter_set = make(VRDMA_ADMIN_ALLOC_COUNTER_SET);
        vrdma_admin_cmd bind{};
        bind.bind_counter_set = {qpn, counter_set};
        auto datagrams = qp_command(pd, cq);
        datagrams.create_qp.qp_type = static_cast<std::uint8_t>(hca::QpType::ud);
        vrdma_admin_cmd multicast{};
        multicast.multicast.qpn = make(VRDMA_ADMIN_CREATE_QP, datagrams);
        multicast.multicast.gid[0] = 0xff;
        return {
            {VRDMA_ADMIN_QUERY_DEVICE, {}, 0},
            {VRDMA_ADMIN_QUERY_PORT, {}, 0},
            {VRDMA_ADMIN_QUERY_COUNTERS, {}, sizeof(vrdma_cmd_query_counters)},
            {VRDMA_ADMIN_CREATE_EQ, eq_command(), sizeof(vrdma_cmd_create_eq)},
            {VRDMA_ADMIN_ALLOC_UCONTEXT, {}, 0},
            {VRDMA_ADMIN_ALLOC_PD, {}, sizeof(vrdma_cmd_alloc_pd)},
            {VRDMA_ADMIN_REG_MR, mr_command(pd), sizeof(vrdma_cmd_reg_mr)},
            {VRDMA_ADMIN_MAP_PAGES, map_command(on_demand), sizeof(vrdma_cmd_map_pages)},
            {VRDMA_ADMIN_UNMAP_PAGES, unmap_command(on_demand), sizeof(vrdma_cmd_unmap_pages)},
            {VRDMA_ADMIN_CREATE_CQ, cq_command(eq), sizeof(vrdma_cmd_create_cq)},
            {VRDMA_ADMIN_RESIZE_CQ, resize_command(unused_cq), sizeof(vrdma_cmd_resize_cq)},
            {VRDMA_ADMIN_MODIFY_CQ, handle_command(unused_cq), sizeof(vrdma_cmd_modify_cq)},
            {VRDMA_ADMIN_QUERY_CLOCK, {}, 0},
            {VRDMA_ADMIN_CREATE_SRQ, srq_command(pd), sizeof(vrdma_cmd_create_srq)},
            {VRDMA_ADMIN_MODIFY_SRQ, handle_command(srqn), sizeof(vrdma_cmd_modify_srq)},
            {VRDMA_ADMIN_RESIZE_SRQ, resize_srq_command(srqn), sizeof(vrdma_cmd_resize_srq)},
            {VRDMA_ADMIN_QUERY_SRQ, handle_command(srqn), handle},
            {VRDMA_ADMIN_DESTROY_SRQ, handle_command(srqn), handle},
            {VRDMA_ADMIN_CREATE_QP, qp_command(pd, cq), sizeof(vrdma_cmd_create_qp)},
            {VRDMA_ADMIN_MODIFY_QP, modify_command(qpn), sizeof(vrdma_cmd_modify_qp)},
            {VRDMA_ADMIN_QUERY_QP, handle_command(qpn), handle},
            {VRDMA_ADMIN_CREATE_AH, ah_command(), sizeof(vrdma_cmd_create_ah)},
            {VRDMA_ADMIN_SET_GID, gid_command(1), sizeof(vrdma_cmd_set_gid)},
            {VRDMA_ADMIN_ALLOC_COUNTER_SET, {}, 0},
            {VRDMA_ADMIN_BIND_COUNTER_SET, bind, sizeof(vrdma_cmd_bind_counter_set)},
            {VRDMA_ADMIN_DESTROY_QP, handle_command(qpn), handle},
            {VRDMA_ADMIN_DEALLOC_COUNTER_SET, handle_command(counter_set), handle},
            {VRDMA_ADMIN_DESTROY_AH, handle_command(ah), handle},
            {VRDMA_ADMIN_REREG_MR, rereg_command(key), sizeof(vrdma_cmd_rereg_mr)},
            {VRDMA_ADMIN_ALLOC_MW, mw_command(), sizeof(vrdma_cmd_alloc_mw)},
            {VRDMA_ADMIN_DEALLOC_MW, handle_command(window), handle},
            {VRDMA_ADMIN_ALLOC_MR, fast_mr_command(), sizeof(vrdma_cmd_alloc_mr)},
            {VRDMA_ADMIN_DEREG_MR, handle_command(key), handle},
            {VRDMA_ADMIN_DESTROY_CQ, handle_command(unused_cq), handle},
            {VRDMA_ADMIN_DESTROY_EQ, handle_command(unused_eq), handle},
            {VRDMA_ADMIN_DEALLOC_PD, handle_command(unused_pd), handle},
            {VRDMA_ADMIN_DEALLOC_UCONTEXT, handle_command(user), handle},
            {VRDMA_ADMIN_ALLOC_XRCD, {}, 0},
            {VRDMA_ADMIN_DEALLOC_XRCD, handle_command(xrcd), handle},
            {VRDMA_ADMIN_ATTACH_MCAST, multicast, sizeof(vrdma_cmd_multicast)},
            {VRDMA_ADMIN_DETACH_MCAST, multicast, sizeof(vrdma_cmd_multicast)},
        };
    }

    std::uint32_t pd = 0;
    std::uint32_t eq = 0;
    std::uint32_t cq = 0;
};

// Run commands that find no memory. Expect ENOMEM each time, and a device that continues.
TEST_F(AdminCommandTest, WithoutMemoryACommandFailsAndNothingElse) {
    hca.slice->out_of_memory = true;
    EXPECT_EQ(guest.run(VRDMA_ADMIN_CREATE_CQ, cq_command(eq)), ENOMEM);
    hca.slice->out_of_memory = true;
    EXPECT_EQ(guest.run(VRDMA_ADMIN_REG_MR, mr_command(pd)), ENOMEM);
    EXPECT_GE(guest.create(VRDMA_ADMIN_CREATE_CQ, cq_command(eq)), 0);
    EXPECT_GE(guest.create(VRDMA_ADMIN_REG_MR, mr_command(pd)), 0);
}

// Run such commands more often than there are ids. Expect that objects which were not made use
// neither ids nor other objects.
TEST_F(AdminCommandTest, WhatFoundNoMemoryUsesNothing) {
    const auto unused_eq = make(VRDMA_ADMIN_CREATE_EQ, eq_command());
    hca.slice->out_of_memory = true;
    EXPECT_EQ(guest.run(VRDMA_ADMIN_CREATE_CQ, cq_command(unused_eq)), ENOMEM);
    EXPECT_EQ(guest.run(VRDMA_ADMIN_DESTROY_EQ, handle_command(unused_eq)), 0);
    for (std::uint32_t i = 0; i < 2 * verbs::Limits{}.max_eq; ++i) {
        hca.slice->out_of_memory = true;
        EXPECT_EQ(guest.run(VRDMA_ADMIN_CREATE_EQ, eq_command()), ENOMEM);
    }
}

// An administrator has to know which address a guest asked for in vain.
TEST_F(AdminCommandTest, ARefusedAddressIsNamed) {
    vrdma_admin_cmd cmd = gid_command(2);
    cmd.header = VRDMA_SET(VRDMA_ADMIN_OPCODE, VRDMA_ADMIN_SET_GID);
    vrdma_admin_cpl cpl{};
    cpl.status = EACCES;
    EXPECT_EQ(describe(cmd, cpl), "set_gid fd00::1: Permission denied");
    cmd.set_gid.vlan = 7;
    EXPECT_EQ(describe(cmd, cpl), "set_gid fd00::1 in VLAN 7: Permission denied");
}

TEST_F(AdminCommandTest, EachSucceedsAndThereAreNoOthers) {
    std::vector<bool> known(VRDMA_ADMIN_OPCODE_END);
    for (const auto& [opcode, cmd, size] : all_commands()) {
        EXPECT_EQ(guest.run(opcode, cmd), 0) << opcode;
        known.at(opcode) = true;
    }
    for (std::uint32_t opcode = 0; opcode < VRDMA_ADMIN_OPCODE_END; ++opcode) {
        if (!known[opcode]) {
            EXPECT_EQ(guest.run(opcode, {}), EOPNOTSUPP) << opcode;
        }
    }
}

TEST_F(AdminCommandTest, ReservedBytesBehindTheArgumentAreRefused) {
    for (const auto& [opcode, cmd, size] : all_commands()) {
        for (const std::size_t at : {size, sizeof(cmd.bytes) - 1}) {
            vrdma_admin_cmd bad = cmd;
            bad.bytes[at] = 1;
            EXPECT_EQ(guest.run(opcode, bad), EINVAL) << opcode << " byte " << at;
        }
    }
}

TEST_F(AdminCommandTest, ReservedWordsOfTheHeaderAreRefused) {
    for (const auto& [opcode, cmd, size] : all_commands()) {
        vrdma_admin_cmd bad = cmd;
        bad.reserved = 1;
        EXPECT_EQ(guest.run(opcode, bad), EINVAL) << opcode;
        bad = cmd;
        bad.header = 1u << 24;
        EXPECT_EQ(guest.run(opcode, bad), EINVAL) << opcode;
    }
}

TEST_F(AdminCommandTest, ReservedFieldsOfArgumentsAreRefused) {
    for (const auto& [opcode, cmd, size] : all_commands()) {
        // These commands have the same size, but no reserved word.
        const std::set<std::uint32_t> others{VRDMA_ADMIN_MODIFY_SRQ, VRDMA_ADMIN_MODIFY_CQ,
                                             VRDMA_ADMIN_ALLOC_MW, VRDMA_ADMIN_ALLOC_MR,
                                             VRDMA_ADMIN_BIND_COUNTER_SET};
        if (size == sizeof(vrdma_cmd_handle) && !others.contains(opcode)) {
            vrdma_admin_cmd bad = cmd;
            bad.handle.reserved = 1;
            EXPECT_EQ(guest.run(opcode, bad), EINVAL) << opcode;
        }
    }
}

TEST_F(AdminCommandTest, UnknownHandlesAreRefused) {
    for (const std::uint32_t opcode :
         {VRDMA_ADMIN_DESTROY_EQ, VRDMA_ADMIN_DEALLOC_UCONTEXT, VRDMA_ADMIN_DEALLOC_PD,
          VRDMA_ADMIN_DEREG_MR, VRDMA_ADMIN_DESTROY_CQ, VRDMA_ADMIN_QUERY_QP,
          VRDMA_ADMIN_DESTROY_QP, VRDMA_ADMIN_DESTROY_AH, VRDMA_ADMIN_MODIFY_SRQ,
          VRDMA_ADMIN_QUERY_SRQ, VRDMA_ADMIN_DESTROY_SRQ, VRDMA_ADMIN_DEALLOC_MW}) {
        for (const std::uint32_t handle : {0u, 0x12345u, 0xffffffffu}) {
            EXPECT_EQ(guest.destroy(opcode, handle), EINVAL) << opcode << " " << handle;
        }
    }
}

// Use the third of three functions of an endport. Expect it to know its number, and to listen.
TEST_F(AdminCommandTest, AFunctionListens) {
    const auto endport =
        std::make_shared<verbs::Endport>(verbs::Identity{{2, 0, 0, 0, 0, 9}, {}, true}, 3);
    test::GuestPort other_port{ArenaMemory::create(1 << 20).value(), type};
    test::GuestAllocator other_allocator{other_port.memory()};
    Device other{"other", type, {endport, 2}, other_port, hca, gids};
    test::AdminClient driver{other, other_port, other_allocator};
    ASSERT_TRUE(driver.enable());
    const vrdma_cpl_query_device told = driver.execute(VRDMA_ADMIN_QUERY_DEVICE, {}).query_device;
    EXPECT_EQ(told.function_bits, 2);
    EXPECT_EQ(told.function, 2);
    EXPECT_EQ(hca.spec.qpns.first, 2u << 22);
    vrdma_admin_cmd listen{};
    listen.listen.service_id = 0x01061234;
    EXPECT_EQ(driver.run(VRDMA_ADMIN_LISTEN, listen), 0);
    EXPECT_TRUE(hca.slice->services.contains(0x01061234));
    EXPECT_EQ(driver.run(VRDMA_ADMIN_UNLISTEN, listen), 0);
    EXPECT_EQ(driver.run(VRDMA_ADMIN_UNLISTEN, listen), EINVAL);
    listen.bytes[sizeof(vrdma_cmd_listen)] = 1;
    EXPECT_EQ(driver.run(VRDMA_ADMIN_LISTEN, listen), EINVAL);
}

TEST_F(AdminCommandTest, UnknownOpcodesAreRefused) {
    for (const std::uint32_t opcode : {0u, VRDMA_ADMIN_OPCODE_END + 0u, 255u}) {
        EXPECT_EQ(guest.run(opcode), EOPNOTSUPP) << opcode;
    }
}

TEST_F(AdminCommandTest, AFailedCommandReturnsNothingElse) {
    const auto cpl = guest.execute(VRDMA_ADMIN_REG_MR, mr_command(99));
    EXPECT_EQ(cpl.status, static_cast<std::uint32_t>(EINVAL));
    const vrdma_admin_cpl zero{};
    EXPECT_EQ(std::memcmp(cpl.bytes, zero.bytes, sizeof(zero.bytes)), 0);
}

TEST_F(AdminCommandTest, QueryDeviceSaysTheLimits) {
    const auto cpl = guest.execute(VRDMA_ADMIN_QUERY_DEVICE);
    const auto& out = cpl.query_device;
    EXPECT_EQ(out.max_qp, type.limits.max_qp);
    EXPECT_EQ(out.max_srq, type.limits.max_srq);
    EXPECT_EQ(out.max_srq_wr, type.limits.max_qp_wr);
    EXPECT_EQ(out.max_srq_sge, type.limits.max_sge);
    EXPECT_EQ(out.max_mr, type.limits.max_mr);
    EXPECT_EQ(out.max_ucontext, type.limits.doorbell_pages - 1);
    EXPECT_EQ(out.page_size_cap, 0x7ffff000u);
    EXPECT_EQ(out.max_send_sge, VRDMA_MAX_SGE);
    EXPECT_EQ(out.pkey_table_len, 1);
    EXPECT_EQ(out.firmware_version, firmware_version);
    const std::uint8_t guid[] = {0x50, 0x54, 0, 0xff, 0xfe, 1, 2, 3};
    EXPECT_EQ(std::memcmp(out.node_guid, guid, sizeof(guid)), 0);
}

TEST_F(AdminCommandTest, QueryPortSaysActive) {
    const auto cpl = guest.execute(VRDMA_ADMIN_QUERY_PORT);
    EXPECT_EQ(cpl.query_port.state, IBV_PORT_ACTIVE);
    EXPECT_EQ(cpl.query_port.active_mtu, IBV_MTU_4096);
    EXPECT_EQ(cpl.query_port.max_message_size, hca::max_message_size);
}

TEST_F(AdminCommandTest, QueryPortSaysDownWithoutACarrier) {
    hca.slice->up = false;
    EXPECT_EQ(guest.execute(VRDMA_ADMIN_QUERY_PORT).query_port.state, IBV_PORT_DOWN);
}

TEST_F(AdminCommandTest, ThePortsMtuIsThatOfTheSlice) {
    hca.slice->mtu = IBV_MTU_1024;
    EXPECT_EQ(guest.execute(VRDMA_ADMIN_QUERY_PORT).query_port.active_mtu, IBV_MTU_1024);
}

TEST_F(AdminCommandTest, ThePortsSpeedIsThatOfTheSlice) {
    const auto speed = [&] {
        const auto port = guest.execute(VRDMA_ADMIN_QUERY_PORT).query_port;
        return verbs::PortSpeed{port.active_speed, port.active_width};
    };
    EXPECT_EQ(speed(), verbs::as_memory);
    hca.slice->mbps = 10'000;
    EXPECT_EQ(speed(), verbs::port_speed(10'000));
}

// If the slice knows no speed, the port has the speed that its administrator set.
TEST_F(DeviceTest, ThePortsSpeedIsGiven) {
    verbs::Identity identity{{2, 0, 0, 0, 0, 9}, {}, true};
    identity.port_speed = {.speed = 128, .width = 4};
    device.set_identity(identity);
    ASSERT_TRUE(guest.enable());
    const auto speed = [&] {
        const auto port = guest.execute(VRDMA_ADMIN_QUERY_PORT).query_port;
        return verbs::PortSpeed{port.active_speed, port.active_width};
    };
    EXPECT_EQ(speed(), identity.port_speed);
    hca.slice->mbps = 10'000;
    EXPECT_EQ(speed(), verbs::port_speed(10'000));
}

TEST_F(AdminCommandTest, AUserContextHasItsDoorbellPage) {
    const auto cpl = guest.execute(VRDMA_ADMIN_ALLOC_UCONTEXT);
    EXPECT_EQ(cpl.alloc_ucontext.handle, cpl.alloc_ucontext.doorbell_page);
    EXPECT_GT(cpl.alloc_ucontext.doorbell_page, 0u);
    EXPECT_LT(cpl.alloc_ucontext.doorbell_page, type.limits.doorbell_pages);
}

TEST_F(AdminCommandTest, AQpHasItsDoorbellSlotAndItsState) {
    const auto made = guest.execute(VRDMA_ADMIN_CREATE_QP, qp_command(pd, cq));
    ASSERT_EQ(made.status, 0u);
    EXPECT_EQ(made.create_qp.doorbell_slot,
              hca.slice->qp_states.at(Qpn{made.create_qp.qpn}).doorbell_slot);
    ASSERT_EQ(guest.run(VRDMA_ADMIN_MODIFY_QP, modify_command(made.create_qp.qpn)), 0);
    const auto cpl = guest.execute(VRDMA_ADMIN_QUERY_QP, handle_command(made.create_qp.qpn));
    EXPECT_EQ(cpl.query_qp.state, IBV_QPS_INIT);
}

// Read the counters of the device, of a QP, of a set and of all sets, from the first counter on and
// from the last. Then read from beyond the last, from a QP or a set that does not exist, and from
// both a QP and a set.
TEST_F(AdminCommandTest, CountersAreTheDevicesOrAQpsOrASets) {
    constexpr std::uint32_t last = VRDMA_NUM_COUNTERS - 1;
    hca.slice->counted.value[0] = 5;
    hca.slice->counted_of_qp.value[0] = 3;
    hca.slice->counted_of_qp.value[last] = 4;
    const auto qpn =
        static_cast<std::uint32_t>(guest.create(VRDMA_ADMIN_CREATE_QP, qp_command(pd, cq)));
    hca.slice->counted_of_set.value[0] = 2;
    hca.slice->counted_of_sets.value[0] = 6;
    const auto set = make(VRDMA_ADMIN_ALLOC_COUNTER_SET);
    const auto ask = [&](std::uint32_t first, std::uint32_t of, std::uint32_t of_set = 0,
                         std::uint32_t reserved = 0) {
        vrdma_admin_cmd cmd{};
        cmd.query_counters = {
            .first = first, .qpn = of, .counter_set = of_set, .reserved = reserved};
        return guest.execute(VRDMA_ADMIN_QUERY_COUNTERS, cmd);
    };
    EXPECT_EQ(ask(0, 0).query_counters.value[0], 5u);
    EXPECT_EQ(ask(0, qpn).query_counters.value[0], 3u);
    EXPECT_EQ(ask(last, qpn).query_counters.value[0], 4u);
    EXPECT_EQ(ask(last, qpn).query_counters.value[1], 0u);
    EXPECT_EQ(ask(last + 1, 0).status, EINVAL);
    EXPECT_EQ(ask(0, qpn ^ 1).status, EINVAL);
    EXPECT_EQ(ask(0, 0, set).query_counters.value[0], 2u);
    EXPECT_EQ(ask(0, 0, VRDMA_ALL_COUNTER_SETS).query_counters.value[0], 6u);
    EXPECT_EQ(ask(0, 0, set + 1).status, EINVAL);
    EXPECT_EQ(ask(0, qpn, set).status, EINVAL);
    EXPECT_EQ(ask(0, 0, set, 1).status, EINVAL);
}

TEST_F(AdminCommandTest, WhatIsInUseIsBusy) {
    ASSERT_GT(guest.create(VRDMA_ADMIN_CREATE_QP, qp_command(pd, cq)), 0);
    EXPECT_EQ(guest.destroy(VRDMA_ADMIN_DEALLOC_PD, pd), EBUSY);
    EXPECT_EQ(guest.destroy(VRDMA_ADMIN_DESTROY_CQ, cq), EBUSY);
    EXPECT_EQ(guest.destroy(VRDMA_ADMIN_DESTROY_EQ, eq), EBUSY);
}

TEST_F(AdminCommandTest, AnErrorOfTheSliceIsTheGuests) {
    hca.slice->next_error = std::errc::not_enough_memory;
    EXPECT_EQ(guest.run(VRDMA_ADMIN_CREATE_QP, qp_command(pd, cq)), ENOMEM);
}

} // namespace
} // namespace vrdma
