// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The messages by which a client moves its device from one mediator to another, and each wrong one.
#include "mediator/frontend/vfio_user/migration.h"

#include <sys/eventfd.h>

#include "mediator/frontend/vfio_user/tests/driver.h"

namespace vrdma::vfio_user::test {
namespace {

constexpr auto invalid = std::errc::invalid_argument;
constexpr std::uint32_t head = sizeof(vfio_user_device_feature);
constexpr std::uint32_t get = VFIO_DEVICE_FEATURE_GET;
constexpr std::uint32_t set = VFIO_DEVICE_FEATURE_SET;
constexpr std::uint32_t probe = VFIO_DEVICE_FEATURE_PROBE;

using State = vfio_device_mig_state;

class MigrationTest : public ::testing::Test {
  protected:
    MigrationTest() {
        Message message = version_command();
        EXPECT_TRUE(session_.execute(message));
    }

    Result<Answer> run(Message message) { return session_.execute(message); }

    template <typename... Data>
    Result<Answer> feature(std::uint32_t argsz, std::uint32_t flags, const Data&... data) {
        return run(
            command(VFIO_USER_DEVICE_FEATURE, vfio_user_device_feature{argsz, flags}, data...));
    }

    Result<Answer> go_to(std::uint32_t state) {
        return feature(head + sizeof(vfio_user_mig_state),
                       set | VFIO_DEVICE_FEATURE_MIG_DEVICE_STATE, vfio_user_mig_state{state, 0});
    }

    State state() {
        const auto answer =
            feature(head + sizeof(vfio_user_mig_state), get | VFIO_DEVICE_FEATURE_MIG_DEVICE_STATE);
        EXPECT_TRUE(answer);
        return static_cast<State>(part_of<vfio_user_mig_state>(*answer, head).device_state);
    }

    // Reads the whole state, in pieces of that size.
    std::vector<std::byte> read_all(std::uint32_t size) {
        std::vector<std::byte> all;
        for (std::uint32_t got = size; got == size;) {
            const auto answer =
                run(command(VFIO_USER_MIG_DATA_READ, vfio_user_mig_data{8 + size, size}));
            EXPECT_TRUE(answer);
            got = part_of<vfio_user_mig_data>(*answer).size;
            EXPECT_EQ(answer->payload.size(), 8 + got);
            EXPECT_EQ(part_of<vfio_user_mig_data>(*answer).argsz, 8 + got);
            all.insert(all.end(), answer->payload.begin() + 8, answer->payload.end());
        }
        return all;
    }

    Result<Answer> write(std::span<const std::byte> piece) {
        const auto size = static_cast<std::uint32_t>(piece.size());
        Message message = command(VFIO_USER_MIG_DATA_WRITE, vfio_user_mig_data{8, size});
        message.payload.insert(message.payload.end(), piece.begin(), piece.end());
        return run(std::move(message));
    }

    void reset() {
        function_.reset();
        driver_.command(PCI_COMMAND_MASTER);
    }

    std::vector<std::byte> save() {
        EXPECT_TRUE(go_to(VFIO_DEVICE_STATE_STOP_COPY));
        return read_all(1000);
    }

    // Lets the loop handle what is ready.
    void turn() {
        const auto end =
            bench_.loop.after(std::chrono::milliseconds{0}, [&] { bench_.loop.stop(); });
        ASSERT_TRUE(bench_.loop.run());
    }

    UniqueFd set_vector(std::uint32_t index, std::uint32_t vector = 0) {
        UniqueFd event{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
        Message message =
            command(VFIO_USER_DEVICE_SET_IRQS,
                    vfio_user_irq_set{20, VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_EVENTFD,
                                      index, vector, 1});
        message.fds.push_back(copy_of(event));
        EXPECT_TRUE(run(std::move(message)));
        return event;
    }

    static bool signalled(const UniqueFd& event) {
        eventfd_t count = 0;
        return ::eventfd_read(event.get(), &count) == 0;
    }

    Bench bench_;
    Driver driver_{bench_.make_function()};
    Function& function_ = driver_.function();
    DeviceLog log_{"test"};
    Session session_{function_, log_};
};

// Ask for the feature and probe for both; expect STOP_COPY, and probes to be repeated. Ask in wrong
// ways; expect EINVAL, and ENOTTY for features that the device does not have.
TEST_F(MigrationTest, IsAFeature) {
    const auto offer = feature(head + 8, get | VFIO_DEVICE_FEATURE_MIGRATION);
    ASSERT_TRUE(offer);
    EXPECT_EQ(offer->payload.size(), head + 8);
    EXPECT_EQ(part_of<vfio_user_device_feature>(*offer).argsz, head + 8);
    EXPECT_EQ(part_of<vfio_user_migration>(*offer, head).flags,
              std::uint64_t{VFIO_MIGRATION_STOP_COPY});
    const auto probed = feature(head, probe | get | set | VFIO_DEVICE_FEATURE_MIG_DEVICE_STATE);
    ASSERT_TRUE(probed);
    EXPECT_EQ(probed->payload.size(), head);
    EXPECT_TRUE(feature(head, probe | VFIO_DEVICE_FEATURE_MIGRATION));

    const vfio_user_mig_state stop{VFIO_DEVICE_STATE_STOP, 0};
    const std::uint32_t number = VFIO_DEVICE_FEATURE_MIG_DEVICE_STATE;
    EXPECT_EQ(feature(head + 7, get | VFIO_DEVICE_FEATURE_MIGRATION).error(), invalid);
    EXPECT_EQ(feature(head - 1, probe | VFIO_DEVICE_FEATURE_MIGRATION).error(), invalid);
    EXPECT_EQ(feature(64, set | VFIO_DEVICE_FEATURE_MIGRATION).error(), invalid);
    EXPECT_EQ(feature(64, probe | set | VFIO_DEVICE_FEATURE_MIGRATION).error(), invalid);
    EXPECT_EQ(feature(64, VFIO_DEVICE_FEATURE_MIGRATION).error(), invalid);
    EXPECT_EQ(feature(64, 1u << 19 | get | VFIO_DEVICE_FEATURE_MIGRATION).error(), invalid);
    EXPECT_EQ(feature(64, get | set | number, stop).error(), invalid);
    EXPECT_EQ(feature(head + 7, get | number).error(), invalid);
    EXPECT_EQ(feature(head + 7, set | number, stop).error(), invalid);
    EXPECT_EQ(feature(64, set | number).error(), invalid);
    EXPECT_EQ(feature(64, set | number, stop, stop).error(), invalid);
    EXPECT_EQ(run(command(VFIO_USER_DEVICE_FEATURE, std::uint32_t{64})).error(), invalid);
    for (const std::uint32_t other : {0u, 3u, 6u, 0xffffu}) {
        EXPECT_EQ(feature(64, get | other).error(), std::errc::inappropriate_io_control_operation);
    }
    EXPECT_EQ(state(), VFIO_DEVICE_STATE_RUNNING);
}

// Go to each state that is not offered or does not exist; expect EINVAL and no change.
TEST_F(MigrationTest, UnknownStatesAreRefused) {
    for (const State from : {VFIO_DEVICE_STATE_RUNNING, VFIO_DEVICE_STATE_STOP}) {
        ASSERT_TRUE(go_to(from));
        for (const std::uint32_t to :
             {std::uint32_t{VFIO_DEVICE_STATE_ERROR}, std::uint32_t{VFIO_DEVICE_STATE_RUNNING_P2P},
              6u, 7u, 8u, ~0u}) {
            EXPECT_EQ(go_to(to).error(), invalid) << to;
            EXPECT_EQ(state(), from);
        }
    }
}

// Go from each state to each other; expect every way to exist. A state that was never written is
// no state of a device.
TEST_F(MigrationTest, StatesLeadToEachOther) {
    const auto all = {VFIO_DEVICE_STATE_STOP, VFIO_DEVICE_STATE_RUNNING,
                      VFIO_DEVICE_STATE_STOP_COPY, VFIO_DEVICE_STATE_RESUMING};
    for (const State from : all) {
        for (const State to : all) {
            reset();
            ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
            ASSERT_TRUE(go_to(from));
            const bool fails = from == VFIO_DEVICE_STATE_RESUMING && to != from;
            EXPECT_EQ(go_to(to).has_value(), !fails) << from << " to " << to;
            EXPECT_EQ(state(), fails ? VFIO_DEVICE_STATE_ERROR : to);
        }
    }
}

// Save a device, reset it, and restore it in small pieces; expect the device as it was, with its
// admin queue where it was, and all vectors raised. Restore it while Bus Master is clear; expect it
// to fail.
TEST_F(MigrationTest, ADeviceComesBack) {
    ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    ASSERT_EQ(driver_.create_eq().status, 0u);
    const auto stream = save();
    ASSERT_GT(stream.size(), sizeof(StreamHeader));
    reset();
    EXPECT_EQ(state(), VFIO_DEVICE_STATE_RUNNING);
    EXPECT_EQ(driver_.read(VRDMA_REG_STATUS), VRDMA_STATUS_READY);
    const auto event = set_vector(VFIO_PCI_MSIX_IRQ_INDEX, 3);

    ASSERT_TRUE(go_to(VFIO_DEVICE_STATE_RESUMING));
    for (std::size_t at = 0; at < stream.size(); at += 100) {
        ASSERT_TRUE(
            write(std::span{stream}.subspan(at, std::min<std::size_t>(100, stream.size() - at))));
    }
    EXPECT_FALSE(signalled(event));
    ASSERT_TRUE(go_to(VFIO_DEVICE_STATE_RUNNING));
    EXPECT_TRUE(signalled(event));
    EXPECT_EQ(driver_.read(VRDMA_REG_STATUS), VRDMA_STATUS_ENABLED);
    turn();
    EXPECT_EQ(driver_.run(VRDMA_ADMIN_ALLOC_PD).status, 0u);

    function_.reset();
    ASSERT_TRUE(go_to(VFIO_DEVICE_STATE_RESUMING));
    ASSERT_TRUE(write(stream));
    ASSERT_TRUE(go_to(VFIO_DEVICE_STATE_RUNNING));
    EXPECT_EQ(driver_.read(VRDMA_REG_STATUS), VRDMA_STATUS_FATAL);
}

// Stop a device, and announce a command; expect the command to be executed when the device runs
// again. Write other registers meanwhile; expect them to stay, and a reset to let the device run.
TEST_F(MigrationTest, AStoppedDeviceIsLeftAlone) {
    ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    ASSERT_TRUE(go_to(VFIO_DEVICE_STATE_STOP));
    EXPECT_EQ(driver_.run(VRDMA_ADMIN_ALLOC_PD).header, 0u);
    ASSERT_TRUE(go_to(VFIO_DEVICE_STATE_RUNNING));
    turn();
    turn();
    EXPECT_NE(driver_.completion(0).header, 0u);

    reset();
    ASSERT_TRUE(go_to(VFIO_DEVICE_STATE_STOP));
    EXPECT_EQ(driver_.enable(), VRDMA_STATUS_READY);
    EXPECT_EQ(driver_.read(VRDMA_REG_ASQ_LOW), 0u);
    EXPECT_FALSE(save().empty());
    ASSERT_TRUE(go_to(VFIO_DEVICE_STATE_RESUMING));
    EXPECT_EQ(driver_.enable(), VRDMA_STATUS_READY);
    driver_.write(VRDMA_REG_CONTROL, VRDMA_CONTROL_RESET);
    EXPECT_EQ(state(), VFIO_DEVICE_STATE_RUNNING);
    EXPECT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    ASSERT_TRUE(go_to(VFIO_DEVICE_STATE_STOP_COPY));
    driver_.command(0); // clears Bus Master, which is a reset
    EXPECT_EQ(state(), VFIO_DEVICE_STATE_RUNNING);
}

// Read and write in wrong states and sizes; expect EINVAL.
TEST_F(MigrationTest, DataHasItsStateAndItsSize) {
    const auto read = [&](std::uint32_t argsz, std::uint32_t size) {
        return run(command(VFIO_USER_MIG_DATA_READ, vfio_user_mig_data{argsz, size}));
    };
    const std::array<std::byte, 8> bytes{};
    for (const State at : {VFIO_DEVICE_STATE_RUNNING, VFIO_DEVICE_STATE_STOP}) {
        ASSERT_TRUE(go_to(at));
        EXPECT_EQ(read(16, 8).error(), invalid);
        EXPECT_EQ(write(bytes).error(), invalid);
    }
    ASSERT_TRUE(go_to(VFIO_DEVICE_STATE_STOP_COPY));
    EXPECT_EQ(write(bytes).error(), invalid);
    EXPECT_EQ(read(15, 8).error(), invalid);
    EXPECT_EQ(read(7, 0).error(), invalid);
    EXPECT_EQ(read(~0u, max_transfer + 1).error(), invalid);
    EXPECT_EQ(read(4, ~0u).error(), invalid);
    EXPECT_EQ(run(command(VFIO_USER_MIG_DATA_READ, std::uint32_t{16})).error(), invalid);
    EXPECT_EQ(run(command(VFIO_USER_MIG_DATA_READ, vfio_user_mig_data{16, 8}, 0)).error(), invalid);
    EXPECT_TRUE(read(8, 0));
    EXPECT_TRUE(read(8 + max_transfer, max_transfer));

    ASSERT_TRUE(go_to(VFIO_DEVICE_STATE_STOP));
    ASSERT_TRUE(go_to(VFIO_DEVICE_STATE_RESUMING));
    EXPECT_EQ(read(16, 8).error(), invalid);
    EXPECT_EQ(run(command(VFIO_USER_MIG_DATA_WRITE, vfio_user_mig_data{8, 9}, bytes)).error(),
              invalid);
    EXPECT_EQ(run(command(VFIO_USER_MIG_DATA_WRITE, vfio_user_mig_data{8, 7}, bytes)).error(),
              invalid);
    EXPECT_EQ(run(command(VFIO_USER_MIG_DATA_WRITE, std::uint32_t{8})).error(), invalid);
    Message fds = command(VFIO_USER_MIG_DATA_WRITE, vfio_user_mig_data{8, 8}, bytes);
    fds.fds.push_back(shared_file(1));
    EXPECT_EQ(run(std::move(fds)).error(), invalid);
}

// Write states that are wrong at once, at their end, too short or too long; expect an error at the
// last moment in RUNNING, and a device that works after a reset.
TEST_F(MigrationTest, AWrongStateIsRefused) {
    ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    const auto right = save();
    auto magic = right;
    magic[0] ^= std::byte{1};
    auto body = right;
    body.back() ^= std::byte{1};
    auto shorter = right;
    shorter.pop_back();
    auto longer = right;
    longer.push_back({});
    for (const auto& [wrong, at_once] :
         {std::pair{magic, true}, {body, true}, {shorter, false}, {longer, true}}) {
        reset();
        ASSERT_TRUE(go_to(VFIO_DEVICE_STATE_RESUMING));
        EXPECT_EQ(write(wrong).has_value(), !at_once);
        EXPECT_TRUE(!at_once || !write(right));
        EXPECT_FALSE(go_to(VFIO_DEVICE_STATE_RUNNING));
        EXPECT_EQ(state(), VFIO_DEVICE_STATE_ERROR);
        EXPECT_EQ(go_to(VFIO_DEVICE_STATE_STOP).error(), invalid);
        EXPECT_EQ(driver_.enable(), VRDMA_STATUS_READY);
    }
    reset();
    EXPECT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
}

// Restore a device while others wait for its memory; expect the restore to fail, and the same state
// to be accepted when the memory is fast again.
TEST_F(MigrationTest, ASlowClientIsNotAwaited) {
    ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    ASSERT_EQ(driver_.create_eq().status, 0u);
    const auto stream = save();
    for (const bool slow : {true, false}) {
        reset();
        ASSERT_TRUE(go_to(VFIO_DEVICE_STATE_RESUMING));
        if (slow) {
            FaultGuard::blame(function_.client_memory().at(Iova{0}, 1),
                              std::chrono::milliseconds{200});
        }
        const auto written = write(stream);
        EXPECT_EQ(written.has_value(), !slow);
        EXPECT_TRUE(written || written.error() == std::errc::timed_out);
        (void)function_.client_memory().take_cost();
    }
}

// End vrdmad with a client that knows nothing of migration, with one that wants no request, and
// with one whose device is not enabled; expect none to be asked.
TEST_F(MigrationTest, AClientIsAskedToFetchTheState) {
    ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    const auto asked = [&] {
        function_.end();
        function_.keep();
        return function_.request();
    };
    auto event = set_vector(VFIO_PCI_REQ_IRQ_INDEX);
    EXPECT_FALSE(asked());
    EXPECT_FALSE(signalled(event));
    ASSERT_TRUE(function_.start_anew());
    EXPECT_TRUE(feature(head + 8, get | VFIO_DEVICE_FEATURE_MIGRATION));
    EXPECT_FALSE(asked());
    event = set_vector(VFIO_PCI_REQ_IRQ_INDEX);
    EXPECT_FALSE(asked());
    EXPECT_FALSE(signalled(event));
}

// Write a whole state, and an empty piece; expect the piece to be refused, as each trial takes
// time.
TEST_F(MigrationTest, ATrialIsMadeOnce) {
    const auto stream = save();
    reset();
    ASSERT_TRUE(go_to(VFIO_DEVICE_STATE_RESUMING));
    EXPECT_TRUE(write(stream));
    EXPECT_EQ(write({}).error(), invalid);
}

// Save the state again and again; expect EBUSY when others have waited for that long enough.
TEST_F(MigrationTest, ManySavesHaveToWait) {
    constexpr int enough = 1'000'000;
    constexpr int usual = 3;
    ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    int count = 0;
    auto asked = go_to(VFIO_DEVICE_STATE_STOP_COPY);
    for (; asked && count < enough; ++count) {
        ASSERT_TRUE(go_to(VFIO_DEVICE_STATE_STOP));
        asked = go_to(VFIO_DEVICE_STATE_STOP_COPY);
    }
    ASSERT_FALSE(asked);
    EXPECT_EQ(asked.error(), std::errc::device_or_resource_busy);
    EXPECT_GT(count, usual);
}

// End vrdmad with a client that does both; expect it to get the state that the device had, and the
// device not to run again, whatever the client does.
TEST_F(MigrationTest, AStateIsKeptForItsClient) {
    ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    ASSERT_EQ(driver_.create_eq().status, 0u);
    const auto event = set_vector(VFIO_PCI_REQ_IRQ_INDEX);
    EXPECT_TRUE(feature(head + 8, get | VFIO_DEVICE_FEATURE_MIGRATION));
    function_.end();
    function_.keep();
    ASSERT_TRUE(function_.request());
    EXPECT_TRUE(signalled(event));
    EXPECT_EQ(state(), VFIO_DEVICE_STATE_STOP);
    EXPECT_EQ(go_to(VFIO_DEVICE_STATE_RUNNING).error(), std::errc::device_or_resource_busy);
    EXPECT_EQ(driver_.run(VRDMA_ADMIN_ALLOC_PD).header, 0u);
    const auto first = save();
    ASSERT_TRUE(go_to(VFIO_DEVICE_STATE_STOP));
    EXPECT_EQ(save(), first);
    reset();
    EXPECT_NE(driver_.enable(), VRDMA_STATUS_ENABLED);
}

// End vrdmad with a client that does not ask for the state, like QEMU; expect vector 0 to tell the
// driver of an enabled device, and no request.
TEST_F(MigrationTest, ADriverLearnsOfTheEnd) {
    const auto request = set_vector(VFIO_PCI_REQ_IRQ_INDEX);
    const auto event = set_vector(VFIO_PCI_MSIX_IRQ_INDEX);
    function_.announce_loss();
    EXPECT_FALSE(signalled(event));
    ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    function_.end();
    function_.keep();
    EXPECT_FALSE(function_.request());
    function_.announce_loss();
    EXPECT_TRUE(signalled(event));
    EXPECT_FALSE(signalled(request));
}

// Look at the line of the request; expect one, by eventfd.
TEST_F(MigrationTest, TheRequestIsAnInterrupt) {
    const auto info = run(command(VFIO_USER_DEVICE_GET_IRQ_INFO,
                                  vfio_user_irq_info{16, 0, VFIO_PCI_REQ_IRQ_INDEX, 0}));
    ASSERT_TRUE(info);
    EXPECT_EQ(part_of<vfio_user_irq_info>(*info).count, 1u);
    const auto event = set_vector(VFIO_PCI_REQ_IRQ_INDEX);
    for (unsigned vector = 0; vector < function_.interrupts().count(); ++vector) {
        function_.raise(vector);
    }
    EXPECT_FALSE(signalled(event));
    constexpr std::uint32_t by_eventfd = VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_EVENTFD;
    EXPECT_FALSE(run(command(VFIO_USER_DEVICE_SET_IRQS,
                             vfio_user_irq_set{20, by_eventfd, VFIO_PCI_REQ_IRQ_INDEX, 1, 1})));
    EXPECT_TRUE(run(command(VFIO_USER_DEVICE_SET_IRQS,
                            vfio_user_irq_set{20, by_eventfd, VFIO_PCI_REQ_IRQ_INDEX, 0, 1})));
    EXPECT_FALSE(function_.interrupts().has(function_.interrupts().request()));
}

// Restore one of two devices during a gathering, and enable the other, a new one; expect both to
// wait for each other and for the answer, and not to touch anything before.
TEST(MigrationInAGathering, DevicesRunTogether) {
    Bench bench;
    Gathering gathering{bench.loop, {std::chrono::milliseconds{0}, std::chrono::seconds{60}}};
    const auto make = [&](const char* name, std::uint8_t mac) {
        return *Function::create(
            {name, bench.type, verbs::Identity{{2, 0, 0, 0, 0, mac}, {}, true}, 1 << 30},
            {bench.loop, *bench.hca, bench.gids, {}, nullptr, &gathering});
    };
    const auto turn = [&] {
        const auto end = bench.loop.after(std::chrono::milliseconds{1}, [&] { bench.loop.stop(); });
        ASSERT_TRUE(bench.loop.run());
    };
    Driver old{make("old", 1)};
    Driver fresh{make("new", 2)};
    old.function().expect();
    fresh.function().expect();
    gathering.begin();
    turn();
    EXPECT_FALSE(gathering.over());
    EXPECT_EQ(fresh.enable(), VRDMA_STATUS_READY);
    EXPECT_FALSE(gathering.over());
    Migration& migration = old.function().migration();
    ASSERT_TRUE(migration.go_to(VFIO_DEVICE_STATE_STOP_COPY));
    const auto stream = *migration.read(1 << 20);
    const std::vector<std::byte> copy{stream.begin(), stream.end()};
    ASSERT_TRUE(migration.go_to(VFIO_DEVICE_STATE_RESUMING));
    ASSERT_TRUE(migration.write(copy));
    ASSERT_TRUE(migration.go_to(VFIO_DEVICE_STATE_RUNNING));
    EXPECT_FALSE(gathering.over()); // before the answer
    turn();
    EXPECT_TRUE(gathering.over());
    EXPECT_EQ(fresh.read(VRDMA_REG_STATUS), VRDMA_STATUS_ENABLED);
    EXPECT_EQ(old.enable(), VRDMA_STATUS_ENABLED);
}

} // namespace
} // namespace vrdma::vfio_user::test
