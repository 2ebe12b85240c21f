// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* A mediator that ends on purpose leaves its devices to its successor. */
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>

#include "mediator.h"
#include "vm.h"

namespace {

constexpr uint64_t ram_iova = 0x40000000;
constexpr std::string_view left_behind = "what the predecessor knew";

harness::Fd memory_file() {
    harness::Fd file(memfd_create("state", MFD_CLOEXEC));
    CHECK(file.get() >= 0);
    CHECK_EQ(write(file.get(), left_behind.data(), left_behind.size()),
             static_cast<ssize_t>(left_behind.size()));
    return file;
}

int hand_over(const Device& device, int file, uint32_t reserved = 0) {
    const vrdma_mdev_handover handover = {file, reserved};
    return ioctl(device.fd(), VRDMA_MDEV_HAND_OVER, &handover);
}

int take_over(const Device& device) {
    return ioctl(device.fd(), VRDMA_MDEV_TAKE_OVER);
}

/* An enabled device, whose first page of memory is pinned. */
struct Running {
    Running() : ram(page_size), irq(harness::new_eventfd()) {
        hca = std::make_unique<Hca>();
        id = hca->create("small", uuid);
        vm = std::make_unique<Vm>(uuid);
        const int eventfd = irq.get();
        CHECK(vm->set_irqs(VFIO_PCI_MSIX_IRQ_INDEX, 0, {&eventfd, 1}) == 0);
        CHECK(vm->map(ram_iova, ram.get(), ram.size()) == 0);
        device = std::make_unique<Device>(*hca, id);
        device->serve_reset();
        device->shadow(VRDMA_REG_STATUS) = VRDMA_STATUS_ENABLED;
        device->window<uint32_t>(ram_iova) = 1;
        harness::signals(irq);
    }
    /* The mediator ends, with or without having handed the device over. */
    void end() {
        device.reset();
        hca.reset();
    }
    void hand_over_and_end() {
        CHECK(hand_over(*device, memory_file().get()) == 0);
        end();
    }
    /* The successor opens the device. */
    void succeed() {
        hca = std::make_unique<Hca>();
        CHECK_EQ(hca->added(), id);
        device = std::make_unique<Device>(*hca, id);
    }

    std::string uuid = test_uuid(1);
    Ram ram;
    harness::Fd irq;
    std::unique_ptr<Hca> hca;
    std::unique_ptr<Vm> vm;
    std::unique_ptr<Device> device;
    uint32_t id = 0;
};

void await_status(const Vm& vm, uint32_t status) {
    harness::await([&] { return vm.get(VRDMA_REG_STATUS) == status; }, "STATUS");
}

} // namespace

/* Expects the guest to see an enabled device all the time, and its memory to stay pinned. */
TEST(handover_is_not_seen_by_the_guest) {
    Running r;
    const uint32_t generation = r.device->info().reset_generation;
    const uint64_t revocations = r.device->counters().revocations;
    r.hand_over_and_end();
    CHECK_EQ(r.vm->get(VRDMA_REG_STATUS), VRDMA_STATUS_ENABLED);
    CHECK_EQ(pinned(r.uuid), page_size);
    r.vm->set(VRDMA_REG_ADMIN_DOORBELL, 1);

    r.succeed();
    CHECK_EQ(r.device->info().reset_generation, generation);
    r.device->shadow(VRDMA_REG_STATUS) = VRDMA_STATUS_READY; /* it restores the device */
    CHECK_EQ(r.vm->get(VRDMA_REG_STATUS), VRDMA_STATUS_ENABLED);
    const harness::Fd file(take_over(*r.device));
    CHECK(file.get() >= 0);
    char text[64];
    CHECK_EQ(pread(file.get(), text, sizeof(text), 0), static_cast<ssize_t>(left_behind.size()));
    CHECK(memcmp(text, left_behind.data(), left_behind.size()) == 0);
    CHECK_ERRNO(take_over(*r.device), ENOENT);
    CHECK(r.device->reset_done(generation) == 0);
    CHECK_EQ(r.vm->get(VRDMA_REG_STATUS), VRDMA_STATUS_READY);

    CHECK_EQ(r.device->message().type, VRDMA_MDEV_MESSAGE_ADMIN_DOORBELL);
    CHECK(!r.device->next_message());
    CHECK_EQ(harness::signals(r.irq), 0u);
    CHECK_EQ(r.device->counters().revocations, revocations);
    CHECK_EQ(pinned(r.uuid), page_size);
    CHECK_EQ(r.device->window<uint32_t>(ram_iova), 1u);
    r.end();
    CHECK_EQ(r.vm->get(VRDMA_REG_STATUS), VRDMA_STATUS_FATAL);
}

/* Its mediator only closes its fds from then on. */
TEST(handover_ends_the_device_fd) {
    Running r;
    const harness::Fd file = memory_file();
    CHECK(hand_over(*r.device, file.get()) == 0);
    CHECK(harness::await(r.device->fd(), POLLIN) & POLLHUP);
    CHECK_ERRNO(hand_over(*r.device, file.get()), ENODEV);
    CHECK_ERRNO(take_over(*r.device), ENODEV);
    CHECK_ERRNO(r.device->raise(0), ENODEV);
}

/* Expects the device to fail once, when the time for a successor is over, and to recover later. */
TEST(handover_without_a_successor_is_a_loss) {
    Running r;
    const auto begin = std::chrono::steady_clock::now();
    r.hand_over_and_end();
    CHECK_EQ(r.vm->get(VRDMA_REG_STATUS), VRDMA_STATUS_ENABLED);
    await_status(*r.vm, VRDMA_STATUS_FATAL);
    CHECK(std::chrono::steady_clock::now() - begin >=
          std::chrono::seconds(VRDMA_MDEV_HANDOVER_SECONDS - 1));
    harness::await(r.irq.get(), POLLIN);
    CHECK_EQ(harness::signals(r.irq), 1u);
    harness::await([&] { return pinned(r.uuid) == 0; }, "all is unpinned");

    r.succeed();
    CHECK_ERRNO(take_over(*r.device), ENOENT);
    r.device->serve_reset();
    CHECK_EQ(harness::signals(r.irq), 1u);
}

/* A VM resets the device before the successor comes. Expects what was left to be void. */
TEST(handover_does_not_survive_a_reset) {
    Running r;
    r.hand_over_and_end();
    CHECK(r.vm->reset() == 0);
    CHECK_EQ(r.vm->get(VRDMA_REG_STATUS), 0u);
    r.succeed();
    CHECK_ERRNO(take_over(*r.device), ENOENT);
    r.device->serve_reset();
    CHECK_EQ(r.vm->get(VRDMA_REG_STATUS), VRDMA_STATUS_ENABLED); /* the shadow page is the same */
}

/* A VM resets the device before it is handed over, and nobody has served that reset. */
TEST(handover_in_a_reset_is_no_loss) {
    Running r;
    CHECK(r.vm->reset() == 0);
    r.hand_over_and_end();
    CHECK_EQ(r.vm->get(VRDMA_REG_STATUS), 0u);
    r.succeed();
    CHECK_ERRNO(take_over(*r.device), ENOENT);
    r.device->serve_reset();
    CHECK_EQ(harness::signals(r.irq), 0u);
}

/* A VM resets the device while the successor restores it. */
TEST(handover_is_overtaken_by_a_reset) {
    Running r;
    r.hand_over_and_end();
    r.succeed();
    const uint32_t generation = r.device->info().reset_generation;
    const harness::Fd file(take_over(*r.device));
    CHECK(r.vm->reset() == 0);
    CHECK_ERRNO(r.device->reset_done(generation), ESTALE);
    CHECK_EQ(r.vm->get(VRDMA_REG_STATUS), 0u);
    r.device->serve_reset();
}

/* The successor cannot restore the device, or dies. */
TEST(handover_to_one_that_fails_is_a_loss) {
    Running r;
    r.hand_over_and_end();
    r.succeed();
    const harness::Fd file(take_over(*r.device));
    r.device.reset();
    CHECK_EQ(r.vm->get(VRDMA_REG_STATUS), VRDMA_STATUS_FATAL);
    CHECK_EQ(harness::signals(r.irq), 1u);
    r.device = std::make_unique<Device>(*r.hca, r.id);
    CHECK_ERRNO(take_over(*r.device), ENOENT);
    r.device->serve_reset();
    CHECK_EQ(harness::signals(r.irq), 1u);
}

/* Several in turn, as if each vrdmad were upgraded at once. */
TEST(handover_repeats) {
    Running r;
    for (int i = 0; i < 5; i++) {
        r.hand_over_and_end();
        r.succeed();
        const harness::Fd file(take_over(*r.device));
        CHECK(file.get() >= 0);
        CHECK(r.device->reset_done(r.device->info().reset_generation) == 0);
        r.device->window<uint32_t>(ram_iova) = static_cast<uint32_t>(i);
        CHECK_EQ(r.ram.at<uint32_t>(0), static_cast<uint32_t>(i));
    }
    CHECK_EQ(pinned(r.uuid), page_size);
    CHECK_EQ(harness::signals(r.irq), 0u);
}

/* The VM takes its memory away, and closes the device, while there is no mediator. */
TEST(handover_keeps_no_memory_that_the_vm_takes) {
    Running r;
    r.hand_over_and_end();
    CHECK(r.vm->unmap(ram_iova, page_size) == 0);
    CHECK_EQ(pinned(r.uuid), 0u);
    r.vm.reset();
    r.succeed();
    CHECK_EQ(r.device->info().open, 0u);
    CHECK_ERRNO(take_over(*r.device), ENOENT);
    r.device->serve_reset();
}

TEST(handover_ends_with_the_device) {
    Running r;
    r.hand_over_and_end();
    r.vm.reset();
    CHECK_EQ(remove_device(r.uuid), 0);
    harness::await([] { return !exists(hca_path()); }, "the HCA is gone");
}

TEST(handover_takes_only_files) {
    Running r;
    const harness::Fd eventfd = harness::new_eventfd();
    const harness::Fd file = memory_file();
    CHECK_ERRNO(hand_over(*r.device, -1), EBADF);
    CHECK_ERRNO(hand_over(*r.device, eventfd.get()), EINVAL);
    CHECK_ERRNO(hand_over(*r.device, r.device->fd()), EINVAL);
    CHECK_ERRNO(hand_over(*r.device, r.hca->fd()), EINVAL);
    CHECK_ERRNO(hand_over(*r.device, file.get(), 1), EINVAL);
    CHECK(hand_over(*r.device, file.get()) == 0);
}
