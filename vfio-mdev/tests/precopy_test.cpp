// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* A migration that begins while the VM runs: VFIO's states PRE_COPY and PRE_COPY_P2P. */
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <initializer_list>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "logging.h"
#include "moving.h"

namespace {

const std::string announcement = "what the device needs";

/* A VM in PRE_COPY, whose mediator has announced what the device needs. */
struct Announced : Machine {
    Announced() {
        auto moved = begin(VFIO_DEVICE_STATE_PRE_COPY);
        harness::await(served.device.fd(), POLLIN);
        const auto message = served.device.message();
        CHECK_EQ(message.offset, VRDMA_MDEV_STEP_ANNOUNCE);
        end = harness::Fd(open_transfer(served.device));
        CHECK_EQ(write(end.get(), announcement.data(), announcement.size()),
                 static_cast<ssize_t>(announcement.size()));
        CHECK(step_done(served.device, message.value, 0) == 0);
        auto done = moved.get();
        CHECK_EQ(done.error, 0);
        data = std::move(done.data);
        CHECK(data.get() >= 0);
    }
    void read_announcement() const {
        char bytes[100];
        CHECK_EQ(read(data.get(), bytes, sizeof(bytes)), static_cast<ssize_t>(announcement.size()));
        CHECK_EQ(std::string(bytes, announcement.size()), announcement);
    }
    /* Stops the VM. The mediator takes these steps. */
    int stop_and_copy(std::initializer_list<std::pair<uint32_t, uint32_t>> steps) const {
        auto moved = begin(VFIO_DEVICE_STATE_STOP_COPY);
        for (const auto& [step, error] : steps)
            take(step, error);
        const auto done = moved.get();
        CHECK_EQ(done.data.get(), -1); /* the VM has its file */
        return done.error;
    }
    void resume() const {
        auto moved = begin(VFIO_DEVICE_STATE_RUNNING);
        take(VRDMA_MDEV_STEP_THAW);
        CHECK_EQ(moved.get().error, 0);
    }

    harness::Fd end;
    harness::Fd data;
};

/* The same, with memory that the device has not touched yet. */
struct AnnouncedWithMemory : Announced {
    static constexpr uint64_t iova = 0x40000000;

    AnnouncedWithMemory() { CHECK(vm.map(iova, ram.get(), ram.size()) == 0); }
    vrdma_mdev_precopy progress() const {
        vrdma_mdev_precopy progress;
        CHECK(ioctl(served.device.fd(), VRDMA_MDEV_PRECOPY, &progress) == 0);
        return progress;
    }
    volatile uint32_t& word(uint64_t page) const {
        return served.device.window<uint32_t>(iova + page * page_size);
    }

    Ram ram{small_pinned_pages * page_size};
};

/* Returns how much there is to read before the VM stops. */
uint64_t early_bytes(const harness::Fd& data) {
    vfio_precopy_info info = {};
    info.argsz = sizeof(info);
    CHECK(ioctl(data.get(), VFIO_MIG_GET_PRECOPY_INFO, &info) == 0);
    CHECK_EQ(info.flags, 0u);
    CHECK_EQ(info.dirty_bytes, 0u);
    return info.initial_bytes;
}

int promise(const harness::Fd& end, const vrdma_mdev_ahead& ahead) {
    return ioctl(end.get(), VRDMA_MDEV_TRANSFER_AHEAD, &ahead);
}

/* What there is to read before the VM stops. */
std::vector<char> read_some(const harness::Fd& data) {
    std::vector<char> bytes;
    char piece[10000];
    for (;;) {
        const ssize_t length = read(data.get(), piece, sizeof(piece));
        if (length < 0) {
            CHECK_EQ(errno, ENOMSG);
            return bytes;
        }
        bytes.insert(bytes.end(), piece, piece + length);
    }
}

short polled(const harness::Fd& end) {
    pollfd fd = {end.get(), 0, 0};
    CHECK(poll(&fd, 1, 0) >= 0);
    return fd.revents;
}

/* Its pages that are dirty for type1, as bits. Each is reported once, and pinned pages always. */
uint64_t dirty_pages(const Vm& vm, uint64_t iova, uint64_t size) {
    alignas(vfio_iommu_type1_dirty_bitmap) char
        bytes[sizeof(vfio_iommu_type1_dirty_bitmap) + sizeof(vfio_iommu_type1_dirty_bitmap_get)];
    auto* const ask = new (bytes) vfio_iommu_type1_dirty_bitmap{};
    ask->argsz = sizeof(bytes);
    ask->flags = VFIO_IOMMU_DIRTY_PAGES_FLAG_GET_BITMAP;
    uint64_t pages = 0;
    const vfio_iommu_type1_dirty_bitmap_get get = {
        iova, size, {page_size, sizeof(pages), reinterpret_cast<__u64*>(&pages)}};
    memcpy(ask->data, &get, sizeof(get));
    CHECK(vm.ioctl_container(VFIO_IOMMU_DIRTY_PAGES, ask) == 0);
    return pages;
}

} // namespace

TEST(a_device_announces_what_it_needs_and_then_its_state) {
    const Announced machine;
    CHECK_EQ(early_bytes(machine.data), announcement.size());
    machine.read_announcement();
    CHECK_EQ(early_bytes(machine.data), 0u);
    char byte = 0;
    CHECK_ERRNO(read(machine.data.get(), &byte, 1), ENOMSG);
    machine.vm.set(VRDMA_REG_ASQ_LOW, 7); /* the guest runs */
    CHECK_EQ(machine.served.device.message().type, VRDMA_MDEV_MESSAGE_WRITE);
    CHECK_EQ(set_state(machine.vm, VFIO_DEVICE_STATE_PRE_COPY_P2P).error, 0);
    CHECK_ERRNO(read(machine.data.get(), &byte, 1), ENOMSG);

    CHECK_EQ(machine.stop_and_copy({{VRDMA_MDEV_STEP_FREEZE, 0}, {VRDMA_MDEV_STEP_SAVE, 0}}), 0);
    CHECK_ERRNO(open_transfer(machine.served.device), EBUSY);
    vfio_precopy_info info = {};
    info.argsz = sizeof(info);
    CHECK_ERRNO(ioctl(machine.data.get(), VFIO_MIG_GET_PRECOPY_INFO, &info), EINVAL);
    const auto state = test_state();
    auto reader = std::async(std::launch::async, [&] { return read_all(machine.data); });
    write_all(machine.end, state);
    CHECK(end_transfer(machine.end, 0) == 0);
    CHECK(reader.get() == state);
}

/*
 * Promises more than a pipe holds, and writes it while a VM that runs reads it; expects the VM to
 * wait for all of it, and for nothing after it.
 */
TEST(what_goes_ahead_is_read_before_the_vm_stops) {
    const Announced machine;
    const auto sent = test_state();
    CHECK_EQ(promise(machine.end, {sent.size(), 12345678}), 0);
    CHECK_ERRNO(promise(machine.end, {1, 0}), EINVAL); /* it owes the first bytes */
    CHECK_EQ(early_bytes(machine.data), announcement.size() + sent.size());
    CHECK_EQ(state_size_of(machine.vm), 12345678u);
    machine.read_announcement();
    auto reader = std::async(std::launch::async, [&] { return read_some(machine.data); });
    write_all(machine.end, sent);
    CHECK(reader.get() == sent);
    CHECK_EQ(early_bytes(machine.data), 0u);
    char byte = 0;
    CHECK_ERRNO(read(machine.data.get(), &byte, 1), ENOMSG);
    CHECK_EQ(promise(machine.end, {1, 0}), 0); /* so it may promise again */
    CHECK_EQ(early_bytes(machine.data), 1u);
}

/* Stops a VM that has read nothing; expects it to read all that was promised, and the state. */
TEST(what_has_not_gone_ahead_comes_first_then) {
    const Announced machine;
    const auto sent = test_state();
    CHECK_EQ(promise(machine.end, {sent.size(), 0}), 0);
    CHECK_EQ(machine.stop_and_copy({{VRDMA_MDEV_STEP_FREEZE, 0}, {VRDMA_MDEV_STEP_SAVE, 0}}), 0);
    CHECK_ERRNO(promise(machine.end, {1, 0}), EINVAL);
    machine.read_announcement();
    auto reader = std::async(std::launch::async, [&] { return read_all(machine.data); });
    write_all(machine.end, sent);
    CHECK(end_transfer(machine.end, 0) == 0);
    CHECK(reader.get() == sent);
}

/* Promises bytes and closes the transfer; expects the VM not to wait for them. */
TEST(a_promise_ends_with_the_transfer) {
    Announced machine;
    CHECK_EQ(promise(machine.end, {1, 0}), 0);
    machine.read_announcement();
    auto reader = std::async(std::launch::async, [&] {
        char byte = 0;
        return read(machine.data.get(), &byte, 1) == -1 ? errno : 0;
    });
    machine.end.close();
    CHECK_EQ(reader.get(), EIO);
}

TEST(a_promise_must_be_readable) {
    const Announced machine;
    CHECK_ERRNO(ioctl(machine.end.get(), VRDMA_MDEV_TRANSFER_AHEAD, nullptr), EFAULT);
    CHECK_ERRNO(ioctl(machine.data.get(), VRDMA_MDEV_TRANSFER_AHEAD, nullptr), ENOTTY);
}

TEST(the_size_of_an_announcement_needs_room) {
    const Announced machine;
    vfio_precopy_info info = {};
    CHECK_ERRNO(ioctl(machine.data.get(), VFIO_MIG_GET_PRECOPY_INFO, &info), EINVAL);
    CHECK_ERRNO(ioctl(machine.data.get(), VFIO_MIG_GET_PRECOPY_INFO, nullptr), EFAULT);
    CHECK_ERRNO(ioctl(machine.data.get(), VRDMA_MDEV_TRANSFER_END, 0), ENOTTY);
}

TEST(an_announcement_that_is_refused_leaves_the_device_running) {
    const Machine machine;
    auto moved = machine.begin(VFIO_DEVICE_STATE_PRE_COPY);
    machine.take(VRDMA_MDEV_STEP_ANNOUNCE, ENOMEM);
    CHECK_EQ(moved.get().error, ENOMEM);
    CHECK_EQ(get_state(machine.vm), VFIO_DEVICE_STATE_RUNNING);
    CHECK_ERRNO(open_transfer(machine.served.device), ENOENT);
}

TEST(an_announcement_without_an_answer_leaves_the_device_running) {
    const Machine machine;
    const auto before = machine.vm.get(VRDMA_REG_STATUS);
    auto moved = machine.begin(VFIO_DEVICE_STATE_PRE_COPY);
    CHECK_EQ(moved.get().error, ETIMEDOUT);
    CHECK_EQ(get_state(machine.vm), VFIO_DEVICE_STATE_RUNNING);
    CHECK_EQ(machine.vm.get(VRDMA_REG_STATUS), before);
}

/* No step: the mediator learns it from its end of the transfer. */
TEST(a_vm_that_does_not_move_after_all_ends_the_transfer) {
    const Announced machine;
    CHECK_EQ(polled(machine.end), 0);
    CHECK_EQ(set_state(machine.vm, VFIO_DEVICE_STATE_RUNNING).error, 0);
    CHECK(!machine.served.device.next_message());
    CHECK_EQ(polled(machine.end), POLLERR);
    char byte = 0;
    CHECK_ERRNO(read(machine.data.get(), &byte, 1), EPIPE);
    CHECK_ERRNO(write(machine.end.get(), &byte, 1), EPIPE);
    CHECK_ERRNO(open_transfer(machine.served.device), ENOENT);
    const harness::Fd again =
        machine.transfer(VFIO_DEVICE_STATE_PRE_COPY, VRDMA_MDEV_STEP_ANNOUNCE);
    CHECK_EQ(early_bytes(again), 0u);
}

TEST(a_freeze_that_is_refused_leaves_the_announcement) {
    const Announced machine;
    CHECK_EQ(machine.stop_and_copy({{VRDMA_MDEV_STEP_FREEZE, EBUSY}}), EBUSY);
    CHECK_EQ(get_state(machine.vm), VFIO_DEVICE_STATE_PRE_COPY_P2P);
    machine.read_announcement();
    char byte = 0;
    CHECK_ERRNO(read(machine.data.get(), &byte, 1), ENOMSG);
}

/* QEMU would reset a device that does not reach STOP_COPY. */
TEST(a_save_that_is_refused_in_the_end_is_told_by_the_file) {
    const Announced machine;
    machine.read_announcement();
    CHECK_EQ(machine.stop_and_copy({{VRDMA_MDEV_STEP_FREEZE, 0}, {VRDMA_MDEV_STEP_SAVE, ENOMEM}}),
             0);
    char byte = 0;
    CHECK_ERRNO(read(machine.data.get(), &byte, 1), ENOMEM);
    machine.resume();
}

TEST(a_mediator_that_drops_the_transfer_fails_that_migration) {
    Announced machine;
    machine.end.close();
    char byte = 0;
    CHECK_ERRNO(read(machine.data.get(), &byte, 1), EIO);
    CHECK_EQ(machine.stop_and_copy({{VRDMA_MDEV_STEP_FREEZE, 0}}), 0); /* nothing to save to */
    CHECK_ERRNO(read(machine.data.get(), &byte, 1), EIO);
    machine.resume();
    CHECK_EQ(get_state(machine.vm), VFIO_DEVICE_STATE_RUNNING);
}

TEST(a_save_without_an_answer_fails_the_device) {
    const Announced machine;
    auto moved = machine.begin(VFIO_DEVICE_STATE_STOP_COPY);
    machine.take(VRDMA_MDEV_STEP_FREEZE);
    CHECK_EQ(moved.get().error, ETIMEDOUT);
    CHECK_EQ(get_state(machine.vm), VFIO_DEVICE_STATE_ERROR);
    CHECK_EQ(machine.vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_FATAL);
}

TEST(a_reset_ends_an_announcement) {
    const Announced machine;
    CHECK(machine.vm.reset() == 0);
    machine.served.device.serve_reset();
    CHECK_EQ(get_state(machine.vm), VFIO_DEVICE_STATE_RUNNING);
    CHECK_EQ(polled(machine.end), POLLERR);
    char byte = 0;
    CHECK_ERRNO(read(machine.data.get(), &byte, 1), EPIPE);
}

/* A device that runs belongs to its mediator. The next one does not know of the migration. */
TEST(a_device_is_handed_over_while_it_is_announced) {
    Announced machine;
    const harness::Fd file(memfd_create("state", MFD_CLOEXEC));
    const vrdma_mdev_handover handover = {file.get(), 0};
    CHECK(ioctl(machine.served.device.fd(), VRDMA_MDEV_HAND_OVER, &handover) == 0);
    machine.end.close();
    char byte = 0;
    CHECK_ERRNO(read(machine.data.get(), &byte, 1), EIO);
    CHECK_EQ(set_state(machine.vm, VFIO_DEVICE_STATE_RUNNING).error, 0);
}

/*
 * A VM that moves sends the pages that its device uses again and again, and those that the device
 * has used once more.
 */
TEST(pages_that_are_not_in_use_are_unpinned_while_the_vm_moves) {
    const AnnouncedWithMemory machine;
    const uint64_t revocations = machine.served.device.counters().revocations;
    const auto in_use_only = [&] {
        machine.word(3) = machine.word(3) + 1;
        return pinned(machine.served.uuid) == page_size;
    };
    vfio_iommu_type1_dirty_bitmap start = {};
    start.argsz = sizeof(start);
    start.flags = VFIO_IOMMU_DIRTY_PAGES_FLAG_START;
    CHECK(machine.vm.ioctl_container(VFIO_IOMMU_DIRTY_PAGES, &start) == 0);
    for (uint64_t page = 0; page < small_pinned_pages; page++)
        machine.word(page) = static_cast<uint32_t>(page) << 16;
    CHECK_EQ(pinned(machine.served.uuid), machine.ram.size());
    CHECK_EQ(dirty_pages(machine.vm, machine.iova, machine.ram.size()),
             (1u << small_pinned_pages) - 1);

    harness::await(in_use_only, "one pinned page");
    CHECK_EQ(dirty_pages(machine.vm, machine.iova, machine.ram.size()),
             (1u << small_pinned_pages) - 1);
    CHECK_EQ(dirty_pages(machine.vm, machine.iova, machine.ram.size()), 1u << 3);
    for (uint64_t page = 0; page < small_pinned_pages; page++)
        CHECK_EQ(machine.word(page) >> 16, page);
    machine.word(7) = 1;
    CHECK_EQ(machine.ram.at<uint32_t>(7 * page_size), 1u);
    harness::await(in_use_only, "one pinned page again");
    CHECK_EQ(machine.served.device.counters().scratch_faults, 0u);
    CHECK_EQ(machine.served.device.counters().revocations, revocations);
}

/*
 * Touches pages while the VM moves, and asks what is left, as QEMU does in each pass; expects the
 * mediator to learn both, and nothing after the VM has stopped.
 */
TEST(a_mediator_learns_how_fast_it_dirties_memory) {
    const AnnouncedWithMemory machine;
    const int device = machine.served.device.fd();
    CHECK_ERRNO(ioctl(device, VRDMA_MDEV_PRECOPY, nullptr), EFAULT);
    const vrdma_mdev_precopy before = machine.progress();
    CHECK_EQ(before.passes, 0u);
    early_bytes(machine.data);
    early_bytes(machine.data);
    for (uint64_t page = 0; page < small_pinned_pages; page++)
        machine.word(page) = 1;
    vrdma_mdev_precopy after = machine.progress();
    CHECK_EQ(after.passes, 2u);
    CHECK_EQ(after.pins - before.pins, small_pinned_pages);
    CHECK(after.pinned <= small_pinned_pages); /* a sweep may have unpinned some */

    machine.stop_and_copy({{VRDMA_MDEV_STEP_FREEZE, 0}, {VRDMA_MDEV_STEP_SAVE, 0}});
    CHECK_ERRNO(ioctl(device, VRDMA_MDEV_PRECOPY, &after), ENOENT);
}

/*
 * A VM monitor that asks for the log does not get pinned pages as dirty ones, so they may stay. Its
 * mediator learns how many pages it has written.
 */
TEST(pages_stay_pinned_while_a_log_tells_what_was_written) {
    const AnnouncedWithMemory machine;
    need_log(machine.vm);
    CHECK_EQ(start_log(machine.vm, machine.iova, machine.ram.size()), 0);
    const vrdma_mdev_precopy before = machine.progress();
    CHECK_EQ(before.pinned, 0u);
    for (uint64_t page = 0; page < small_pinned_pages; page++) {
        if (page < 5)
            machine.word(page) = 1;
        else
            CHECK_EQ(machine.word(page), 0u);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(400)); /* no event to wait for */
    CHECK_EQ(pinned(machine.served.uuid), machine.ram.size());
    CHECK_EQ(logged_pages(machine.vm, machine.iova, machine.ram.size()), (1u << 5) - 1);
    const vrdma_mdev_precopy after = machine.progress();
    CHECK_EQ(after.pinned, 0u);
    CHECK_EQ(after.pins - before.pins, 5u);

    CHECK_EQ(stop_log(machine.vm), 0); /* another device has none, perhaps */
    harness::await([&] { return pinned(machine.served.uuid) == 0; }, "sweeps go on");
}

/* What a VM that stays would lose is time. */
TEST(pages_stay_pinned_in_a_vm_that_does_not_move) {
    const AnnouncedWithMemory machine;
    CHECK_EQ(set_state(machine.vm, VFIO_DEVICE_STATE_RUNNING).error, 0);
    for (uint64_t page = 0; page < small_pinned_pages; page++)
        machine.word(page) = 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(400)); /* no event to wait for */
    CHECK_EQ(pinned(machine.served.uuid), machine.ram.size());
}

/* The states between which there is a way take these steps, or none. */
TEST(each_state_is_reached_by_its_way) {
    const Machine machine;
    struct Way {
        uint32_t to;
        std::vector<uint32_t> steps;
    };
    const Way ways[] = {
        {VFIO_DEVICE_STATE_PRE_COPY_P2P, {VRDMA_MDEV_STEP_ANNOUNCE}},
        {VFIO_DEVICE_STATE_PRE_COPY, {}},
        {VFIO_DEVICE_STATE_RUNNING_P2P, {}},
        {VFIO_DEVICE_STATE_PRE_COPY, {VRDMA_MDEV_STEP_ANNOUNCE}},
        {VFIO_DEVICE_STATE_STOP, {VRDMA_MDEV_STEP_FREEZE}},
        {VFIO_DEVICE_STATE_PRE_COPY, {VRDMA_MDEV_STEP_THAW, VRDMA_MDEV_STEP_ANNOUNCE}},
        {VFIO_DEVICE_STATE_PRE_COPY_P2P, {}},
        {VFIO_DEVICE_STATE_RESUMING, {VRDMA_MDEV_STEP_FREEZE, VRDMA_MDEV_STEP_LOAD}},
        {VFIO_DEVICE_STATE_PRE_COPY_P2P,
         {VRDMA_MDEV_STEP_RESTORE, VRDMA_MDEV_STEP_THAW, VRDMA_MDEV_STEP_ANNOUNCE}},
        {VFIO_DEVICE_STATE_STOP_COPY, {VRDMA_MDEV_STEP_FREEZE, VRDMA_MDEV_STEP_SAVE}},
        {VFIO_DEVICE_STATE_RUNNING_P2P, {VRDMA_MDEV_STEP_THAW}},
        {VFIO_DEVICE_STATE_STOP_COPY, {VRDMA_MDEV_STEP_FREEZE, VRDMA_MDEV_STEP_SAVE}},
        {VFIO_DEVICE_STATE_RESUMING, {VRDMA_MDEV_STEP_LOAD}},
        {VFIO_DEVICE_STATE_STOP_COPY, {VRDMA_MDEV_STEP_RESTORE, VRDMA_MDEV_STEP_SAVE}},
    };
    std::vector<harness::Fd> files; /* open, as QEMU keeps them */
    for (const auto& [to, steps] : ways) {
        auto moved = machine.begin(to);
        for (const uint32_t step : steps)
            machine.take(step);
        auto done = moved.get();
        CHECK_EQ(done.error, 0);
        CHECK_EQ(get_state(machine.vm), to);
        files.push_back(std::move(done.data));
    }
    for (const uint32_t to : {VFIO_DEVICE_STATE_PRE_COPY, VFIO_DEVICE_STATE_PRE_COPY_P2P})
        CHECK_EQ(set_state(machine.vm, to).error, EINVAL);
    CHECK_EQ(get_state(machine.vm), VFIO_DEVICE_STATE_STOP_COPY);
}
