// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/tests/device_test.h"

#include <numeric>
#include <optional>

#include "mediator/base/tests/captured_log.h"
#include "mediator/tests/guest/heap.h"

namespace vrdma {
namespace {

TEST_F(DeviceTest, SaysWhoItIs) {
    EXPECT_EQ(port.read(VRDMA_REG_MAGIC), VRDMA_MAGIC);
    EXPECT_EQ(port.read(VRDMA_REG_VERSION), VRDMA_VERSION);
    EXPECT_EQ(port.read(VRDMA_REG_MAC_LOW), 0x01005452u);
    EXPECT_EQ(port.read(VRDMA_REG_MAC_HIGH), 0x0302u);
    EXPECT_EQ(port.read(VRDMA_REG_DOORBELL_PAGES), type.limits.doorbell_pages);
    EXPECT_EQ(port.read(VRDMA_REG_VECTORS), type.limits.vectors);
    EXPECT_EQ(guest.status(), VRDMA_STATUS_READY);
}

TEST_F(DeviceTest, EnableCarvesASlice) {
    ASSERT_TRUE(guest.enable());
    EXPECT_EQ(hca.carved, 1u);
    EXPECT_EQ(hca.spec.name, "test");
    EXPECT_EQ(hca.spec.memory, &port.memory());
    EXPECT_EQ(hca.spec.max_qp, type.limits.max_qp);
    EXPECT_EQ(hca.slice->status_page, guest.status_page());
    EXPECT_EQ(hca.spec.kick_fd, port.kick_fd());
    EXPECT_EQ(port.read(VRDMA_REG_CONTROL), VRDMA_CONTROL_ENABLE);
}

// Look at the device before, during and after a command; expect that it could not be saved in
// between.
TEST_F(DeviceTest, IsNotWholeDuringACommand) {
    EXPECT_TRUE(device.is_whole());
    ASSERT_TRUE(guest.enable());
    EXPECT_TRUE(device.is_whole());
    std::optional<bool> whole;
    hca.slice->during_create_eq = [&] { whole = device.is_whole(); };
    EXPECT_GE(guest.create(VRDMA_ADMIN_CREATE_EQ, eq_command()), 0);
    EXPECT_EQ(whole, false);
    EXPECT_TRUE(device.is_whole());
}

TEST_F(DeviceTest, ItsShareIsItsTypesFirst) {
    type.share = {.weight = 7};
    Device other{"other", type, verbs::Identity{{2, 0, 0, 0, 0, 9}, {}, true}, port, hca, gids};
    test::AdminClient{other, port, allocator}.enable();
    EXPECT_EQ(hca.spec.share, hca::Share{.weight = 7});
}

// Set a share of a device that is not in use, twice; expect one line in the log.
TEST_F(DeviceTest, ANewShareIsLoggedOnce) {
    const CapturedLog log;
    device.set_share({.weight = 7});
    device.set_share({.weight = 7});
    EXPECT_EQ(log.str(),
              "info test: weight 7, 0 bytes and 0 operations per second (0: unlimited)\n");
}

TEST_F(DeviceTest, ANewShareHoldsAtOnceAndOverResets) {
    const hca::Share share{.weight = 7, .bytes_per_second = 1000};
    ASSERT_TRUE(guest.enable());
    device.set_share(share);
    EXPECT_EQ(hca.slice->share, share);
    EXPECT_EQ(hca.carved, 1u);
    device.reset();
    ASSERT_TRUE(guest.enable());
    EXPECT_EQ(hca.spec.share, share);
}

// Give a device a sniffer before it is enabled, reset it, and stop the sniffer; expect each slice
// to have the sniffer until then, and the reader to be told.
TEST_F(DeviceTest, ASnifferOutlivesResets) {
    auto created = sniffer::Ring::create(sniffer::usual_payload);
    const auto reader = std::move(*sniffer::RingReader::open(created->file));
    EXPECT_FALSE(device.stop_sniffer());
    device.start_sniffer(std::move(created->ring));
    for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(guest.enable());
        EXPECT_NE(hca.slice->sniffer_ring, nullptr);
        device.reset();
    }
    ASSERT_TRUE(guest.enable());
    EXPECT_FALSE(reader.ended());
    EXPECT_TRUE(device.stop_sniffer());
    EXPECT_EQ(hca.slice->sniffer_ring, nullptr);
    EXPECT_FALSE(device.sniffed());
    EXPECT_TRUE(reader.ended());
}

TEST_F(DeviceTest, ASnifferEndsWithItsDevice) {
    auto created = sniffer::Ring::create(sniffer::usual_payload);
    const auto reader = std::move(*sniffer::RingReader::open(created->file));
    {
        Device other{"other", type, verbs::Identity{{2, 0, 0, 0, 0, 9}, {}, true}, port, hca, gids};
        test::AdminClient{other, port, allocator}.enable();
        other.start_sniffer(std::move(created->ring));
        EXPECT_FALSE(reader.ended());
    }
    EXPECT_TRUE(reader.ended());
}

// Take a protocol away before the device is enabled, and while an AH uses it; expect the first to
// hold over resets, and EBUSY for the second.
TEST_F(DeviceTest, MayUseSomeProtocols) {
    const verbs::Protocols v2{1u << VRDMA_GID_ROCE_V2};
    ASSERT_TRUE(device.set_protocols(~v2));
    ASSERT_TRUE(guest.enable());
    ASSERT_EQ(guest.run(VRDMA_ADMIN_SET_GID, gid_command(0)), 0);
    ASSERT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 1);
    vrdma_admin_cmd ah{};
    ah.create_ah.pd = 1;
    ah.create_ah.av.dgid[0] = 0xfd;
    ah.create_ah.av.port_num = 1;
    EXPECT_EQ(guest.create(VRDMA_ADMIN_CREATE_AH, ah), -EPROTONOSUPPORT);
    ASSERT_TRUE(device.set_protocols(v2));
    EXPECT_EQ(guest.create(VRDMA_ADMIN_CREATE_AH, ah), 1);
    EXPECT_EQ(device.set_protocols(~v2).error(), std::errc::device_or_resource_busy);
    EXPECT_EQ(device.protocols(), v2);
    EXPECT_EQ(device.users_of(v2).ahs, 1u);
    device.reset();
    EXPECT_EQ(device.protocols(), v2);
    EXPECT_TRUE(device.set_protocols(~v2));
}

TEST_F(DeviceTest, HasQuotas) {
    ASSERT_TRUE(device.set_quotas({.pds = 2, .cqs = 0}));
    ASSERT_TRUE(guest.enable());
    ASSERT_EQ(guest.create(VRDMA_ADMIN_CREATE_EQ, eq_command()), 1);
    EXPECT_EQ(guest.create(VRDMA_ADMIN_CREATE_CQ, cq_command(1)), -ENOMEM);
    EXPECT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 1);
    EXPECT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 2);
    EXPECT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), -ENOMEM);
    EXPECT_EQ(device.set_quotas({.pds = 1}).error(), std::errc::device_or_resource_busy);
    EXPECT_EQ(device.quotas(), (verbs::Quotas{.pds = 2, .cqs = 0}));
    ASSERT_TRUE(device.set_quotas({.pds = 3}));
    EXPECT_GT(guest.create(VRDMA_ADMIN_ALLOC_PD), 0);
    EXPECT_EQ(guest.create(VRDMA_ADMIN_CREATE_CQ, cq_command(1)), 1);
    EXPECT_EQ(device.report().pds.max, 3u);
    EXPECT_EQ(device.report().pds.limit, type.limits.max_pd);
    EXPECT_EQ(device.report().cqs.max, type.limits.max_cq);
    device.reset();
    ASSERT_TRUE(device.set_quotas({.pds = 1}));
    ASSERT_TRUE(guest.enable());
    EXPECT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 1);
    EXPECT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), -ENOMEM);
}

TEST_F(DeviceTest, HasQuotasOfMemory) {
    constexpr std::uint64_t page = VRDMA_PAGE_SIZE;
    ASSERT_TRUE(guest.enable());
    ASSERT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 1);
    const std::uint64_t unbounded = device.report().memory.max;
    const auto key = guest.create(VRDMA_ADMIN_REG_MR, mr_command(1, 3 * page));
    ASSERT_GT(key, 0);
    EXPECT_EQ(device.report().blocks.used, 3u);
    EXPECT_EQ(device.set_quotas({.blocks = 2}).error(), std::errc::device_or_resource_busy);
    ASSERT_TRUE(device.set_quotas({.blocks = 4}));
    EXPECT_EQ(guest.create(VRDMA_ADMIN_REG_MR, mr_command(1, 2 * page)), -ENOMEM);
    EXPECT_GT(guest.create(VRDMA_ADMIN_REG_MR, mr_command(1, page)), 0);
    const std::uint64_t used = device.report().memory.used;
    EXPECT_EQ(device.set_quotas({.memory = used - 1}).error(), std::errc::device_or_resource_busy);
    ASSERT_TRUE(device.set_quotas({.memory = used}));
    EXPECT_EQ(device.report().memory.max, used);
    EXPECT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), -ENOMEM);
    ASSERT_TRUE(device.set_quotas({}));
    EXPECT_EQ(device.report().memory.max, unbounded);
    EXPECT_GT(guest.create(VRDMA_ADMIN_ALLOC_PD), 0);
}

TEST_F(DeviceTest, ReportsItsStateAndWhatItUses) {
    using State = DeviceReport::State;
    EXPECT_EQ(device.report().name, "test");
    EXPECT_EQ(device.report().mac, mac);
    EXPECT_EQ(device.report().state, State::unused);
    EXPECT_EQ(device.report().qps.max, type.limits.max_qp);
    EXPECT_FALSE(device.counters());
    ASSERT_TRUE(guest.enable());
    const auto pds = device.report().pds.used;
    EXPECT_EQ(guest.run(VRDMA_ADMIN_ALLOC_PD), 0);
    const DeviceReport report = device.report();
    EXPECT_EQ(report.state, State::active);
    EXPECT_EQ(report.mtu, hca::max_mtu);
    EXPECT_EQ(report.pds.used, pds + 1);
    EXPECT_GT(report.memory.used, 0u);
    EXPECT_GT(report.memory.max, report.memory.used);
    EXPECT_TRUE(device.counters());
    hca.slice->up = false;
    EXPECT_EQ(device.report().state, State::down);
    device.fatal("a test");
    device.service();
    EXPECT_EQ(device.report().state, State::failed);
}

TEST_F(DeviceTest, TheSliceIsBoundToTheDevicesUplink) {
    const verbs::Mac own{2, 0, 0, 0, 0, 9};
    verbs::Identity identity{own, {}, true, "wan"};
    identity.traffic_classes.set(26);
    identity.service_levels.set(5);
    identity.pkeys = {0x8001, 0xffff};
    device.set_identity(identity);
    ASSERT_TRUE(guest.enable());
    EXPECT_EQ(hca.spec.uplink, "wan");
    EXPECT_EQ(hca.spec.mac, own);
    EXPECT_EQ(hca.spec.traffic_classes, identity.traffic_classes);
    EXPECT_EQ(hca.spec.service_levels, identity.service_levels);
    EXPECT_EQ(hca.spec.pkeys, identity.pkeys);
    EXPECT_EQ(guest.execute(VRDMA_ADMIN_QUERY_DEVICE).query_device.pkey_table_len, 2);
    const auto port_of_guest = guest.execute(VRDMA_ADMIN_QUERY_PORT).query_port;
    EXPECT_EQ(port_of_guest.pkeys[0], 0x8001);
    EXPECT_EQ(port_of_guest.pkeys[1], 0xffff);
    EXPECT_EQ(port_of_guest.pkeys[2], 0);
}

// This happens when vrdmad was restarted with another configuration.
TEST_F(DeviceTest, AnUplinkThatIsGoneIsFatal) {
    device.set_identity({{2, 0, 0, 0, 0, 9}, {}, true, "gone"});
    hca.next_error = std::errc::no_such_device;
    EXPECT_FALSE(guest.enable());
    EXPECT_EQ(guest.status(), VRDMA_STATUS_FATAL);
    guest.reset();
    device.set_identity({{2, 0, 0, 0, 0, 9}, {}, true, "wan"});
    EXPECT_TRUE(guest.enable());
}

// Post two commands while pages of an earlier one are still to be given back. Expect one step of
// that per turn, a request for another turn each time, and the two commands to run after the last
// step.
TEST_F(DeviceTest, GivingPagesBackHoldsUpItsOwnCommandsOnly) {
    ASSERT_TRUE(guest.enable());
    hca.slice->unused = 3;
    guest.post(VRDMA_ADMIN_ALLOC_PD, {});
    guest.post(VRDMA_ADMIN_ALLOC_PD, {});
    guest.ring();
    EXPECT_EQ(hca.slice->unused, 2);
    EXPECT_TRUE(port.take_wake());
    device.service();
    EXPECT_EQ(hca.slice->unused, 1);
    EXPECT_TRUE(port.take_wake());
    EXPECT_FALSE(guest.poll());
    device.service();
    guest.run_device();
    EXPECT_TRUE(guest.poll());
    EXPECT_TRUE(guest.poll());
}

// Register a region of a million blocks, and post a command behind it. Another device of the same
// mediator has a command as well. Expect the list to be read in steps, one per turn, the other
// device's command to be done between them, and then both commands.
TEST_F(DeviceTest, ALongPageListHoldsUpItsOwnCommandsOnly) {
    ASSERT_TRUE(guest.enable());
    ASSERT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 1);
    hca::FakeHca other_hca;
    test::GuestPort other_port{ArenaMemory::create(1 << 20).value(), type};
    test::GuestAllocator other_allocator{other_port.memory()};
    verbs::GidRegistry other_gids;
    Device other{"other", type, verbs::Identity{mac, {}, true}, other_port, other_hca, other_gids};
    test::AdminClient other_guest{other, other_port, other_allocator};
    ASSERT_TRUE(other_guest.enable());

    guest.post(VRDMA_ADMIN_REG_MR, large_mr_command(1));
    guest.post(VRDMA_ADMIN_ALLOC_PD, {});
    guest.ring();
    unsigned turns = 1;
    auto made = guest.poll();
    for (; !made && port.take_wake(); ++turns) {
        ASSERT_EQ(other_guest.execute(VRDMA_ADMIN_QUERY_PORT).status, 0u);
        device.service();
        made = guest.poll();
    }
    EXPECT_GE(turns, (1u << 20) / verbs::PageListReader::step_blocks); // more on a slow machine
    ASSERT_TRUE(made);
    EXPECT_EQ(made->status, 0u);
    EXPECT_EQ(hca.slice->mrs.at(Key{made->handle.handle}).pages.blocks.size(), 1u << 20);
    guest.run_device(); // the last step may have taken its turn's time
    EXPECT_TRUE(guest.poll());
}

// Post several commands. Expect the page faults to be noted after each.
TEST_F(DeviceTest, FaultsAreLookedAtAfterEachCommand) {
    constexpr unsigned commands = 8;
    ASSERT_TRUE(guest.enable());
    for (unsigned i = 0; i < commands; ++i) {
        guest.post(VRDMA_ADMIN_ALLOC_PD, {});
    }
    guest.ring();
    guest.run_device();
    EXPECT_EQ(port.looks_at_faults(), commands);
}

// A command of several steps and one of a single step. Expect both to be counted once, when they
// are complete.
TEST_F(DeviceTest, CommandsAreTimed) {
    const auto counted = [this] {
        const auto& counts = port.activity()->command_times.counts;
        return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    };
    ASSERT_TRUE(guest.enable());
    ASSERT_EQ(guest.create(VRDMA_ADMIN_CREATE_EQ, eq_command()), 1);
    EXPECT_EQ(counted(), 1u);
    EXPECT_GT(port.activity()->command_times.sum.count(), 0);
    hca.slice->steps_to_touch = 3;
    guest.post(VRDMA_ADMIN_CREATE_CQ, cq_command(1));
    guest.ring();
    EXPECT_EQ(counted(), 1u);
    guest.run_device();
    EXPECT_EQ(counted(), 2u);
}

TEST(CommandTimes, HaveClassesByTheirUpperBounds) {
    using namespace std::chrono_literals;
    CommandTimes times;
    times.add(1us);
    times.add(1001ns);
    times.add(100ms);
    times.add(1s);
    EXPECT_EQ(times.counts[0], 1u);
    EXPECT_EQ(times.counts[1], 1u);
    EXPECT_EQ(times.counts[15], 1u);
    EXPECT_EQ(times.counts[16], 1u);
    EXPECT_EQ(times.sum, 1100ms + 2001ns);
}

// The pages of a ring are touched in steps. Expect one step per turn, and the error of the first
// step that fails as the answer.
TEST_F(DeviceTest, ALargeRingIsTouchedInSteps) {
    ASSERT_TRUE(guest.enable());
    ASSERT_EQ(guest.create(VRDMA_ADMIN_CREATE_EQ, eq_command()), 1);
    hca.slice->steps_to_touch = 3;
    guest.post(VRDMA_ADMIN_CREATE_CQ, cq_command(1));
    guest.ring();
    EXPECT_EQ(hca.slice->steps_to_touch, 2);
    EXPECT_EQ(guest.admin_steps(), 1u);
    device.service();
    EXPECT_EQ(guest.admin_steps(), 2u);
    EXPECT_FALSE(guest.poll());
    device.service();
    EXPECT_TRUE(guest.poll());
    EXPECT_TRUE(hca.slice->cqs.at(Cqn{1}).pages.touched);

    hca.slice->steps_to_touch = 3;
    guest.post(VRDMA_ADMIN_CREATE_CQ, cq_command(1));
    guest.ring();
    hca.slice->touch_error = std::errc::bad_address;
    device.service();
    const auto failed = guest.poll();
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->status, static_cast<std::uint32_t>(EFAULT));
    EXPECT_EQ(hca.slice->cqs.size(), 1u);
}

// The end of a standstill takes steps. Expect one step per turn, and commands to run after the
// last.
TEST_F(DeviceTest, AStandstillEndsInSteps) {
    ASSERT_TRUE(guest.enable());
    device.suspend();
    hca.slice->steps_to_thaw = 3;
    guest.post(VRDMA_ADMIN_ALLOC_PD, {});
    device.resume();
    EXPECT_EQ(hca.slice->steps_to_thaw, 2);
    guest.ring();
    EXPECT_EQ(hca.slice->steps_to_thaw, 1);
    EXPECT_FALSE(guest.poll());
    EXPECT_TRUE(port.take_wake());
    device.service();
    EXPECT_TRUE(guest.poll());
}

// Suspend the device again, or reset it, before its standstill has ended. Expect no more steps.
TEST_F(DeviceTest, AStandstillsEndCanBeInterrupted) {
    ASSERT_TRUE(guest.enable());
    for (const bool resets : {false, true}) {
        device.suspend();
        hca.slice->steps_to_thaw = 3;
        device.resume();
        if (resets) {
            guest.reset();
            device.service();
            break;
        }
        device.suspend();
        EXPECT_TRUE(hca.slice->frozen);
        device.service();
        EXPECT_TRUE(hca.slice->frozen);
        device.resume();
    }
    EXPECT_TRUE(guest.enable());
    EXPECT_GT(guest.create(VRDMA_ADMIN_ALLOC_PD), 0);
}

// Reset the device while a list is read. Expect no answer and no new object, and all blocks to be
// available.
TEST_F(DeviceTest, AResetEndsACommandThatIsUnderWay) {
    const auto begin = [&] {
        ASSERT_TRUE(guest.enable());
        ASSERT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 1);
        guest.post(VRDMA_ADMIN_REG_MR, large_mr_command(1));
        guest.ring();
        ASSERT_FALSE(guest.poll());
    };
    begin();
    guest.reset();
    guest.run_device();
    EXPECT_FALSE(guest.poll());
    begin();
    guest.run_device();
    const auto made = guest.poll();
    ASSERT_TRUE(made);
    EXPECT_EQ(made->status, 0u);
    EXPECT_EQ(hca.slice->mrs.size(), 1u);
}

// Run a command that leaves more than one step of pages to be given back. Expect its answer, and no
// other command in that turn.
TEST_F(DeviceTest, ACommandIsAnsweredBeforeItsPagesAreGivenBack) {
    ASSERT_TRUE(guest.enable());
    const auto pd = guest.create(VRDMA_ADMIN_ALLOC_PD);
    const auto key = guest.create(VRDMA_ADMIN_REG_MR, mr_command(static_cast<std::uint32_t>(pd)));
    ASSERT_GE(key, 0);
    hca.slice->unused_of_a_region = 4;
    vrdma_admin_cmd cmd{};
    cmd.handle.handle = static_cast<std::uint32_t>(key);
    guest.post(VRDMA_ADMIN_DEREG_MR, cmd);
    guest.post(VRDMA_ADMIN_ALLOC_PD, {});
    guest.ring();
    EXPECT_TRUE(guest.poll());
    EXPECT_FALSE(guest.poll());
    EXPECT_EQ(hca.slice->unused, 3);
    guest.run_device();
    EXPECT_TRUE(guest.poll());
    EXPECT_EQ(hca.slice->unused, 0);
}

TEST_F(DeviceTest, EnableTwiceIsOnce) {
    ASSERT_TRUE(guest.enable());
    guest.write(VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
    EXPECT_EQ(hca.carved, 1u);
}

TEST_F(DeviceTest, RegistersThatAreWrittenReadBack) {
    guest.set_queue_registers();
    EXPECT_EQ(port.read(VRDMA_REG_ASQ_LOW), raw(guest.submissions()));
    EXPECT_EQ(port.read(VRDMA_REG_AQ_DEPTH), test::AdminClient::depth);
    EXPECT_EQ(port.read(VRDMA_REG_STATUS_PAGE_LOW), raw(guest.status_page()));
}

TEST_F(DeviceTest, ResetForgetsEverything) {
    ASSERT_TRUE(guest.enable());
    ASSERT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 1);
    ASSERT_EQ(guest.run(VRDMA_ADMIN_SET_GID, gid_command(0)), 0);
    guest.reset();
    EXPECT_EQ(guest.status(), VRDMA_STATUS_READY);
    EXPECT_EQ(port.read(VRDMA_REG_ASQ_LOW), 0u);
    EXPECT_EQ(port.read(VRDMA_REG_CONTROL), 0u);
    ASSERT_TRUE(guest.enable());
    EXPECT_EQ(hca.carved, 2u);
    EXPECT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 1);
    EXPECT_EQ(guest.run(VRDMA_ADMIN_SET_GID, gid_command(0)), 0);
}

TEST_F(DeviceTest, ReadOnlyAndUnknownRegistersIgnoreWrites) {
    for (const std::uint32_t offset :
         {0u, 4u, 8u, 0x10u, 0x18u, 0x1cu, 0x44u, 0x41u, 0xffcu, 0x1000u, 0xfffffffcu}) {
        guest.write(offset, 0xffffffff);
    }
    EXPECT_EQ(port.read(VRDMA_REG_MAGIC), VRDMA_MAGIC);
    EXPECT_EQ(guest.status(), VRDMA_STATUS_READY);
    EXPECT_TRUE(guest.enable());
}

// Write a value that no queue can have into each register. Expect FATAL, and a device that works
// after a reset.
TEST_F(DeviceTest, BadQueueRegistersAreFatal) {
    const struct {
        std::uint32_t offset;
        std::uint32_t value;
    } bad[] = {
        {VRDMA_REG_ASQ_LOW, 0x1004},
        {VRDMA_REG_ASQ_LOW, 0},
        {VRDMA_REG_ASQ_HIGH, 0xffffffff},
        {VRDMA_REG_ACQ_LOW, 0x1800},
        {VRDMA_REG_ACQ_LOW, 0},
        {VRDMA_REG_ACQ_HIGH, 1},
        {VRDMA_REG_AQ_DEPTH, 0},
        {VRDMA_REG_AQ_DEPTH, 1},
        {VRDMA_REG_AQ_DEPTH, 3},
        {VRDMA_REG_AQ_DEPTH, 512},
        {VRDMA_REG_AQ_VECTOR, 4},
        {VRDMA_REG_STATUS_PAGE_LOW, 0},
        {VRDMA_REG_STATUS_PAGE_LOW, 0x1001},
        {VRDMA_REG_STATUS_PAGE_HIGH, 1},
        {VRDMA_REG_CONTROL, 0x80},
    };
    unsigned interrupts = 0;
    for (const auto& [offset, value] : bad) {
        guest.set_queue_registers();
        guest.write(offset, value);
        guest.write(VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
        EXPECT_EQ(guest.status(), VRDMA_STATUS_FATAL) << offset << " " << value;
        EXPECT_EQ(port.raised(0), ++interrupts);
        guest.reset();
        EXPECT_EQ(guest.status(), VRDMA_STATUS_READY);
    }
    EXPECT_TRUE(guest.enable());
}

TEST_F(DeviceTest, InFatalOnlyAResetHelps) {
    guest.write(VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
    ASSERT_EQ(guest.status(), VRDMA_STATUS_FATAL);
    guest.set_queue_registers();
    guest.write(VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
    guest.ring();
    EXPECT_EQ(guest.status(), VRDMA_STATUS_FATAL);
    EXPECT_EQ(hca.carved, 0u);
    guest.reset();
    EXPECT_TRUE(guest.enable());
}

TEST_F(DeviceTest, QueueRegistersStandWhileEnabled) {
    ASSERT_TRUE(guest.enable());
    guest.write(VRDMA_REG_ASQ_LOW, 0);
    EXPECT_EQ(port.read(VRDMA_REG_ASQ_LOW), raw(guest.submissions()));
    EXPECT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 1);
}

TEST_F(DeviceTest, WithoutASliceEnableIsFatal) {
    hca.next_error = std::errc::not_enough_memory;
    EXPECT_FALSE(guest.enable());
    EXPECT_EQ(guest.status(), VRDMA_STATUS_FATAL);
}

TEST_F(DeviceTest, WithoutMemoryEnableIsFatal) {
    hca.out_of_memory = true;
    EXPECT_FALSE(guest.enable());
    EXPECT_EQ(guest.status(), VRDMA_STATUS_FATAL);
    guest.write(VRDMA_REG_CONTROL, VRDMA_CONTROL_RESET);
    EXPECT_TRUE(guest.enable());
}

// Run a command whose refusal is logged, without memory for the log line. Expect the device to be
// FATAL, and to work again after a reset.
TEST_F(DeviceTest, ATurnWithoutMemoryIsFatal) {
    const verbs::Identity other;
    ASSERT_TRUE(guest.enable());
    ASSERT_TRUE(gids.claim({0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, &other));
    guest.post(VRDMA_ADMIN_SET_GID, gid_command(0));
    {
        const test::NoMemory no_memory;
        guest.ring();
    }
    EXPECT_EQ(guest.status(), VRDMA_STATUS_FATAL);
    guest.reset();
    ASSERT_TRUE(guest.enable());
    EXPECT_EQ(guest.run(VRDMA_ADMIN_SET_GID, gid_command(0)), EADDRINUSE);
}

TEST_F(DeviceTest, ASliceThatStopsIsFatal) {
    ASSERT_TRUE(guest.enable());
    hca.host->fatal("a test says so");
    EXPECT_EQ(guest.status(), VRDMA_STATUS_ENABLED); // the control thread has not seen it yet
    guest.run_device();
    EXPECT_EQ(guest.status(), VRDMA_STATUS_FATAL);
    EXPECT_EQ(port.raised(0), 1u);
    guest.reset();
    EXPECT_TRUE(guest.enable());
}

TEST_F(DeviceTest, ADoorbellBeforeEnableIsNothing) {
    guest.ring();
    EXPECT_EQ(guest.status(), VRDMA_STATUS_READY);
    EXPECT_TRUE(guest.enable());
}

TEST_F(DeviceTest, TheSlicesInterruptsReachTheGuest) {
    ASSERT_TRUE(guest.enable());
    hca.host->raise(3);
    EXPECT_EQ(port.raised(3), 1u);
}

TEST_F(DeviceTest, ItsLinkLocalAddressIsReserved) {
    test::GuestPort other_port{ArenaMemory::create(1 << 20).value(), type};
    test::GuestAllocator other_allocator{other_port.memory()};
    Device other{"other",    type, verbs::Identity{{2, 0, 0, 0, 0, 9}, {}, true},
                 other_port, hca,  gids};
    test::AdminClient other_guest{other, other_port, other_allocator};
    ASSERT_TRUE(other_guest.enable());
    vrdma_admin_cmd cmd = gid_command(0);
    const auto address = verbs::link_local(mac);
    std::copy(address.begin(), address.end(), cmd.set_gid.gid);
    EXPECT_EQ(other_guest.run(VRDMA_ADMIN_SET_GID, cmd), EADDRINUSE);
    ASSERT_TRUE(guest.enable());
    EXPECT_EQ(guest.run(VRDMA_ADMIN_SET_GID, cmd), 0);
}

TEST_F(DeviceTest, ANewIdentityTakesEffect) {
    device.reset();
    device.set_identity({{2, 0, 0, 0, 0, 7}, {}, true});
    EXPECT_EQ(port.read(VRDMA_REG_MAC_LOW), 2u);
    EXPECT_EQ(port.read(VRDMA_REG_MAC_HIGH), 0x0700u);
    EXPECT_TRUE(gids.claim(verbs::link_local(mac), nullptr));
    EXPECT_FALSE(gids.claim(verbs::link_local({2, 0, 0, 0, 0, 7}), nullptr));
}

} // namespace
} // namespace vrdma
