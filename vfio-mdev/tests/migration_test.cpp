// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* VFIO's migration protocol: its states, their steps in the mediator, and the device's data. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "moving.h"

namespace {

constexpr uint64_t ram_iova = 0x40000000;

} // namespace

TEST(migration_is_offered) {
    const Machine machine;
    alignas(vfio_device_feature) char
        bytes[sizeof(vfio_device_feature) + sizeof(vfio_device_feature_migration)] = {};
    auto* const feature = reinterpret_cast<vfio_device_feature*>(bytes);
    feature->argsz = sizeof(bytes);
    feature->flags = VFIO_DEVICE_FEATURE_GET | VFIO_DEVICE_FEATURE_MIGRATION;
    CHECK(machine.vm.ioctl_device(VFIO_DEVICE_FEATURE, feature) == 0);
    CHECK_EQ(reinterpret_cast<vfio_device_feature_migration*>(feature->data)->flags,
             VFIO_MIGRATION_STOP_COPY | VFIO_MIGRATION_P2P | VFIO_MIGRATION_PRE_COPY);
    CHECK_EQ(get_state(machine.vm), VFIO_DEVICE_STATE_RUNNING);
    CHECK_EQ(set_state(machine.vm, VFIO_DEVICE_STATE_ERROR).error, EINVAL);
    CHECK_EQ(set_state(machine.vm, 1000).error, EINVAL);
}

/* QEMU never stops a VM whose device does not report a size, and reads no pieces of size 0. */
TEST(the_size_of_a_state_is_told) {
    const Machine machine;
    const uint64_t size = state_size_of(machine.vm);
    CHECK(size > 0 && size < 1 << 20);
    alignas(vfio_device_feature) char bytes[sizeof(vfio_device_feature) + sizeof(uint64_t)] = {};
    auto* const feature = reinterpret_cast<vfio_device_feature*>(bytes);
    feature->argsz = sizeof(vfio_device_feature);
    feature->flags = VFIO_DEVICE_FEATURE_GET | mig_data_size;
    CHECK_ERRNO(machine.vm.ioctl_device(VFIO_DEVICE_FEATURE, feature), EINVAL);
    feature->argsz = sizeof(bytes);
    feature->flags = VFIO_DEVICE_FEATURE_SET | mig_data_size;
    CHECK_ERRNO(machine.vm.ioctl_device(VFIO_DEVICE_FEATURE, feature), EINVAL);
    feature->flags = VFIO_DEVICE_FEATURE_GET | 1000;
    CHECK_ERRNO(machine.vm.ioctl_device(VFIO_DEVICE_FEATURE, feature), ENOTTY);
}

TEST(a_device_is_stopped_when_its_mediator_has_frozen_it) {
    const Machine machine;
    CHECK_EQ(set_state(machine.vm, VFIO_DEVICE_STATE_RUNNING_P2P).error, 0); /* without a step */
    machine.vm.set(VRDMA_REG_ASQ_LOW, 7);
    auto moved = machine.begin(VFIO_DEVICE_STATE_STOP);
    harness::await(machine.served.device.fd(), POLLIN);
    CHECK_EQ(machine.served.device.message().type, VRDMA_MDEV_MESSAGE_WRITE); /* came before */
    auto message = machine.served.device.next_message();
    harness::await([&] { return message || (message = machine.served.device.next_message()); },
                   "the step");
    CHECK_EQ(message->offset, VRDMA_MDEV_STEP_FREEZE);
    CHECK(moved.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
    CHECK_ERRNO(step_done(machine.served.device, message->value + 1, 0), ESTALE);
    CHECK_ERRNO(step_done(machine.served.device, message->value, VRDMA_MDEV_MAX_ERRNO + 1), EINVAL);
    CHECK(step_done(machine.served.device, message->value, 0) == 0);
    CHECK_EQ(moved.get().error, 0);
    CHECK_ERRNO(step_done(machine.served.device, message->value, 0), ESTALE);
    CHECK_EQ(get_state(machine.vm), VFIO_DEVICE_STATE_STOP);

    auto back = machine.begin(VFIO_DEVICE_STATE_RUNNING);
    machine.take(VRDMA_MDEV_STEP_THAW);
    CHECK_EQ(back.get().error, 0);
    CHECK_EQ(get_state(machine.vm), VFIO_DEVICE_STATE_RUNNING);
}

TEST(a_step_that_is_refused_leaves_the_device_as_it_was) {
    const Machine machine;
    auto moved = machine.begin(VFIO_DEVICE_STATE_STOP);
    machine.take(VRDMA_MDEV_STEP_FREEZE, EBUSY);
    CHECK_EQ(moved.get().error, EBUSY);
    CHECK_EQ(get_state(machine.vm), VFIO_DEVICE_STATE_RUNNING_P2P);
    machine.stop();
    auto saving = machine.begin(VFIO_DEVICE_STATE_STOP_COPY);
    machine.take(VRDMA_MDEV_STEP_SAVE, ENOMEM);
    CHECK_EQ(saving.get().error, ENOMEM);
    CHECK_EQ(get_state(machine.vm), VFIO_DEVICE_STATE_STOP);
    CHECK_ERRNO(open_transfer(machine.served.device), ENOENT);
}

TEST(the_vm_reads_what_the_mediator_saves) {
    const Machine machine;
    const auto data = machine.save();
    const harness::Fd end(open_transfer(machine.served.device));
    CHECK(end.get() >= 0);
    CHECK_ERRNO(open_transfer(machine.served.device), EBUSY);
    char byte = 0;
    CHECK_ERRNO(read(end.get(), &byte, 1), EBADF);
    CHECK_ERRNO(write(data.get(), &byte, 1), EBADF);
    const auto state = test_state();
    auto reader = std::async(std::launch::async, [&] { return read_all(data); });
    write_all(end, state);
    CHECK(end_transfer(end, 0) == 0);
    CHECK(reader.get() == state);
    CHECK_ERRNO(write(end.get(), &byte, 1), EPIPE);
}

TEST(a_save_that_fails_is_no_end) {
    const Machine machine;
    const auto data = machine.save();
    char byte = 0;
    {
        const harness::Fd end(open_transfer(machine.served.device));
        CHECK_EQ(write(end.get(), "x", 1), 1);
        CHECK_EQ(read(data.get(), &byte, 1), 1);
    }
    CHECK_ERRNO(read(data.get(), &byte, 1), EIO);
    CHECK_EQ(set_state(machine.vm, VFIO_DEVICE_STATE_STOP).error, 0);
    const auto again = machine.transfer(VFIO_DEVICE_STATE_STOP_COPY, VRDMA_MDEV_STEP_SAVE);
    const harness::Fd end(open_transfer(machine.served.device));
    CHECK(end_transfer(end, ENOSPC) == 0);
    CHECK_ERRNO(read(again.get(), &byte, 1), ENOSPC);
}

TEST(a_cancelled_save_ends_for_both) {
    const Machine machine;
    const auto data = machine.save();
    const harness::Fd end(open_transfer(machine.served.device));
    auto back = machine.begin(VFIO_DEVICE_STATE_RUNNING);
    machine.take(VRDMA_MDEV_STEP_THAW);
    CHECK_EQ(back.get().error, 0);
    char byte = 0;
    CHECK_ERRNO(write(end.get(), &byte, 1), EPIPE);
    CHECK_ERRNO(read(data.get(), &byte, 1), EPIPE);
    CHECK_ERRNO(open_transfer(machine.served.device), ENOENT);
}

TEST(the_mediator_reads_what_the_vm_loads) {
    const Machine machine;
    const auto data = machine.load();
    const harness::Fd end(open_transfer(machine.served.device));
    const auto state = test_state();
    auto loaded = std::async(std::launch::async, [&] { return read_all(end); });
    CHECK_EQ(write(data.get(), state.data(), state.size()), static_cast<ssize_t>(state.size()));
    auto moved = machine.begin(VFIO_DEVICE_STATE_RUNNING);
    machine.take(VRDMA_MDEV_STEP_RESTORE);
    CHECK(loaded.get() == state);
    machine.take(VRDMA_MDEV_STEP_THAW);
    CHECK_EQ(moved.get().error, 0);
    CHECK_ERRNO(write(data.get(), state.data(), 1), EPIPE);
}

TEST(a_state_that_is_refused_ends_the_vms_writing) {
    const Machine machine;
    const auto data = machine.load();
    const harness::Fd end(open_transfer(machine.served.device));
    CHECK(end_transfer(end, EPROTONOSUPPORT) == 0);
    CHECK_ERRNO(write(data.get(), "x", 1), EPROTONOSUPPORT);
}

/* The mediator reads everything before it refuses it. */
TEST(a_write_returns_when_all_of_it_was_judged) {
    const Machine machine;
    const auto data = machine.load();
    const harness::Fd end(open_transfer(machine.served.device));
    auto write_some = [&] {
        return std::async(std::launch::async,
                          [&] { return write(data.get(), "some", 4) == 4 ? 0 : errno; });
    };
    char bytes[8];
    for (const int error : {0, EADDRINUSE}) {
        auto written = write_some();
        pollfd fd = {end.get(), POLLIN, 0};
        harness::await([&] { return read(end.get(), bytes, sizeof(bytes)) == 4; }, "the bytes");
        CHECK(poll(&fd, 1, 0) == 1); /* the mediator must read once more */
        CHECK(written.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
        if (error != 0)
            CHECK(end_transfer(end, error) == 0);
        else
            CHECK_ERRNO(read(end.get(), bytes, sizeof(bytes)), EAGAIN);
        CHECK_EQ(written.get(), error);
    }
}

/* The signal arrives while the mediator checks the data. */
TEST(a_signal_does_not_repeat_a_write) {
    struct sigaction action = {};
    action.sa_handler = [](int) {};
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
    const Machine machine;
    const auto data = machine.load();
    const harness::Fd end(open_transfer(machine.served.device));
    ssize_t written = 0;
    std::thread writer([&] { written = write(data.get(), "some", 4); });
    char bytes[8];
    harness::await([&] { return read(end.get(), bytes, sizeof(bytes)) == 4; }, "the bytes");
    CHECK(pthread_kill(writer.native_handle(), SIGUSR1) == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(50)); /* no event to wait for */
    CHECK_ERRNO(read(end.get(), bytes, sizeof(bytes)), EAGAIN);
    writer.join();
    CHECK_EQ(written, 4);
    CHECK_ERRNO(read(end.get(), bytes, sizeof(bytes)), EAGAIN);
}

TEST(a_restore_that_fails_needs_a_reset) {
    const Machine machine;
    const auto data = machine.load();
    auto moved = machine.begin(VFIO_DEVICE_STATE_RUNNING);
    machine.take(VRDMA_MDEV_STEP_RESTORE, EINVAL);
    CHECK_EQ(moved.get().error, EINVAL);
    CHECK_EQ(get_state(machine.vm), VFIO_DEVICE_STATE_ERROR);
    CHECK_EQ(set_state(machine.vm, VFIO_DEVICE_STATE_RUNNING).error, EINVAL);
    CHECK(machine.vm.reset() == 0);
    machine.served.device.serve_reset();
    CHECK_EQ(get_state(machine.vm), VFIO_DEVICE_STATE_RUNNING);
}

/* The mediator cannot access memory after the VM has been told that there is no answer. */
TEST(a_mediator_that_does_not_answer_fails_that_migration) {
    const Machine machine;
    const Ram ram(page_size);
    CHECK(machine.vm.map(ram_iova, ram.get(), ram.size()) == 0);
    machine.served.device.window<uint32_t>(ram_iova) = 1;
    CHECK_EQ(ram.at<uint32_t>(0), 1u);
    CHECK_EQ(set_state(machine.vm, VFIO_DEVICE_STATE_STOP).error, ETIMEDOUT);
    CHECK_EQ(get_state(machine.vm), VFIO_DEVICE_STATE_ERROR);
    CHECK_EQ(machine.vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_FATAL);
    machine.served.device.window<uint32_t>(ram_iova) = 2;
    CHECK_EQ(ram.at<uint32_t>(0), 1u);
    CHECK(!machine.served.device.next_message()); /* the step has been withdrawn */
    CHECK(machine.vm.reset() == 0);
    machine.served.device.serve_reset();
    CHECK_EQ(get_state(machine.vm), VFIO_DEVICE_STATE_RUNNING);
}

TEST(a_mediator_that_dies_keeps_nobody_waiting) {
    std::optional<Hca> hca(std::in_place);
    const std::string uuid = test_uuid(1);
    std::optional<Device> device(std::in_place, *hca, hca->create("small", uuid));
    const Vm vm(uuid);
    device->serve_reset();
    auto moved =
        std::async(std::launch::async, [&] { return set_state(vm, VFIO_DEVICE_STATE_STOP); });
    harness::await(device->fd(), POLLIN);
    const auto begin = std::chrono::steady_clock::now();
    device.reset();
    hca.reset();
    CHECK_EQ(moved.get().error, EIO);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(4));
    CHECK_EQ(get_state(vm), VFIO_DEVICE_STATE_ERROR);
}

/*
 * The state of a device that its VM has stopped is the VM's. A step that a VM asks for between two
 * mediators is for the second one.
 */
TEST(a_device_is_handed_over_before_its_migration_or_after_it) {
    std::optional<Hca> hca(std::in_place);
    const std::string uuid = test_uuid(1);
    std::optional<Device> device(std::in_place, *hca, hca->create("small", uuid));
    const Vm vm(uuid);
    device->serve_reset();
    const harness::Fd file(memfd_create("state", MFD_CLOEXEC));
    const vrdma_mdev_handover handover = {file.get(), 0};
    const auto begin = [&](uint32_t state) {
        return std::async(std::launch::async, [&vm, state] { return set_state(vm, state); });
    };
    const auto take = [&](uint32_t step) {
        harness::await(device->fd(), POLLIN);
        const auto message = device->message();
        CHECK_EQ(message.type, VRDMA_MDEV_MESSAGE_STEP);
        CHECK_EQ(message.offset, step);
        CHECK(step_done(*device, message.value, 0) == 0);
    };

    auto stopped = begin(VFIO_DEVICE_STATE_STOP);
    take(VRDMA_MDEV_STEP_FREEZE);
    CHECK_EQ(stopped.get().error, 0);
    CHECK_ERRNO(ioctl(device->fd(), VRDMA_MDEV_HAND_OVER, &handover), EBUSY);
    auto running = begin(VFIO_DEVICE_STATE_RUNNING);
    take(VRDMA_MDEV_STEP_THAW);
    CHECK_EQ(running.get().error, 0);

    CHECK(ioctl(device->fd(), VRDMA_MDEV_HAND_OVER, &handover) == 0);
    device.reset();
    hca.reset();
    stopped = begin(VFIO_DEVICE_STATE_STOP);
    hca.emplace();
    device.emplace(*hca, hca->added());
    CHECK(device->reset_done(device->info().reset_generation) == 0);
    take(VRDMA_MDEV_STEP_FREEZE);
    CHECK_EQ(stopped.get().error, 0);
}

TEST(a_reset_ends_a_migration) {
    const Machine machine;
    const auto data = machine.save();
    CHECK(machine.vm.reset() == 0);
    machine.served.device.serve_reset();
    CHECK_EQ(get_state(machine.vm), VFIO_DEVICE_STATE_RUNNING);
    char byte = 0;
    CHECK_ERRNO(read(data.get(), &byte, 1), EPIPE);
    CHECK_ERRNO(open_transfer(machine.served.device), ENOENT);
}

/* The file outlives the VM's device and the mediator. */
TEST(a_data_file_outlives_what_it_belonged_to) {
    harness::Fd data;
    harness::Fd end;
    {
        const Machine machine;
        data = machine.load();
        end = harness::Fd(open_transfer(machine.served.device));
    }
    CHECK_ERRNO(write(data.get(), "x", 1), EPIPE);
    char byte = 0;
    CHECK_ERRNO(read(end.get(), &byte, 1), EPIPE);
}
