// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* VMware's device: what it is to its guest, and writes that wait for the mediator. */
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <atomic>
#include <memory>
#include <thread>

#include "mediator.h"
#include "vm.h"
#include "vrdma/pvrdma/device.h"
#include "vrdma/pvrdma/pci_config.h"
#include "vrdma/pvrdma/queue.h"

namespace {

constexpr uint32_t config = VFIO_PCI_CONFIG_REGION_INDEX;
constexpr uint32_t uar = PVRDMA_BAR_UAR;

uint32_t get(const Vm& vm, uint32_t reg) {
    return vm.read<uint32_t>(PVRDMA_BAR_REGISTERS, reg);
}

int write_done(const Device& device, uint32_t number) {
    return ioctl(device.fd(), VRDMA_MDEV_WRITE_DONE, static_cast<unsigned long>(number));
}

/* A guest whose driver writes to a register, or to a doorbell, and waits. */
class Writer {
  public:
    Writer(const Vm& vm, uint32_t region, uint32_t offset, uint32_t value)
        : thread_([this, &vm, region, offset, value] {
              vm.write(region, offset, value);
              done_ = true;
          }) {}
    ~Writer() { thread_.join(); }
    bool done() const { return done_; }
    void await() const {
        harness::await([this] { return done_.load(); }, "the write is done");
    }

  private:
    std::atomic<bool> done_ = false;
    std::thread thread_;
};

struct Running {
    Running() {
        vm = std::make_unique<Vm>(uuid);
        device->serve_reset();
    }
    void end() {
        device.reset();
        hca.reset();
    }
    void succeed() {
        hca = std::make_unique<Hca>();
        CHECK_EQ(hca->added(), id);
        device = std::make_unique<Device>(*hca, id);
    }
    vrdma_mdev_message await_message() const {
        CHECK(harness::await(device->fd(), POLLIN) & POLLIN);
        return device->message();
    }

    const std::string uuid = test_uuid(1);
    std::unique_ptr<Hca> hca = std::make_unique<Hca>();
    const uint32_t id = hca->create("pvrdma", uuid);
    std::unique_ptr<Device> device = std::make_unique<Device>(*hca, id);
    std::unique_ptr<Vm> vm;
};

} // namespace

TEST(pvrdma_has_the_identity_of_vmwares_device) {
    const Running r;
    CHECK_EQ(r.vm->read<uint16_t>(config, PCI_VENDOR_ID), PVRDMA_PCI_VENDOR_ID);
    CHECK_EQ(r.vm->read<uint16_t>(config, PCI_DEVICE_ID), PVRDMA_PCI_DEVICE_ID);
    CHECK_EQ(r.vm->region(PVRDMA_BAR_MSIX).size, PVRDMA_BAR_MSIX_SIZE);
    CHECK_EQ(r.vm->region(PVRDMA_BAR_REGISTERS).size, PVRDMA_BAR_REGISTERS_SIZE);
    CHECK_EQ(r.vm->region(uar).size, small_doorbell_pages * page_size);
    CHECK_EQ(r.vm->region(VRDMA_BAR_MSIX).size, 0u);
    const harness::Fd irq = harness::new_eventfd();
    const int eventfd = irq.get();
    CHECK(r.vm->set_irqs(VFIO_PCI_MSIX_IRQ_INDEX, PVRDMA_VECTORS - 1, {&eventfd, 1}) == 0);
    CHECK(r.device->raise(PVRDMA_VECTORS - 1) == 0);
    CHECK_EQ(harness::signals(irq), 1u);
    CHECK_ERRNO(r.device->raise(PVRDMA_VECTORS), EINVAL);
}

/* A store to a doorbell is a message. */
TEST(pvrdma_doorbells_cannot_be_mapped) {
    const Running r;
    const auto region = r.vm->region(uar);
    CHECK_EQ(region.flags & VFIO_REGION_INFO_FLAG_MMAP, 0u);
    CHECK(mmap(nullptr, page_size, PROT_READ | PROT_WRITE, MAP_SHARED, r.vm->device(),
               static_cast<off_t>(region.offset)) == MAP_FAILED);
    CHECK_EQ(errno, EINVAL);
}

/* Writes a register; expects the write to return when the mediator has executed it. */
TEST(pvrdma_writes_wait_for_the_mediator) {
    const Running r;
    for (const uint32_t value : {7u, 8u}) {
        const Writer writer(*r.vm, PVRDMA_BAR_REGISTERS, PVRDMA_REG_REQUEST, value);
        const auto message = r.await_message();
        CHECK_EQ(message.type, VRDMA_MDEV_MESSAGE_WRITE);
        CHECK_EQ(message.offset, PVRDMA_REG_REQUEST);
        CHECK_EQ(message.value, value);
        CHECK(!writer.done());
        r.device->shadow(PVRDMA_REG_ERROR) = value;
        CHECK_ERRNO(write_done(*r.device, message.number + 1), ESTALE);
        CHECK_ERRNO(write_done(*r.device, message.number - 1), ESTALE);
        CHECK(!writer.done());
        CHECK(write_done(*r.device, message.number) == 0);
        writer.await();
        CHECK_EQ(get(*r.vm, PVRDMA_REG_ERROR), value);
        CHECK_ERRNO(write_done(*r.device, message.number), ESTALE);
    }
}

/* Rings doorbells and writes a register; expects the order, and that doorbells do not wait. */
TEST(pvrdma_doorbells_are_messages) {
    const Running r;
    r.vm->write<uint32_t>(uar, page_size + PVRDMA_UAR_QP, 5);
    r.vm->write<uint32_t>(uar, page_size + PVRDMA_UAR_CQ, PVRDMA_UAR_CQ_ARM | 6);
    const Writer writer(*r.vm, PVRDMA_BAR_REGISTERS, PVRDMA_REG_MASK, 1);
    harness::await([&] { return harness::await(r.device->fd(), POLLIN) & POLLIN; }, "messages");
    for (const uint32_t i : {0u, 1u}) {
        const auto message = r.device->message();
        CHECK_EQ(message.type, VRDMA_MDEV_MESSAGE_DOORBELL);
        CHECK_EQ(message.offset, page_size + (i == 0 ? PVRDMA_UAR_QP : PVRDMA_UAR_CQ));
        CHECK_EQ(message.value, i == 0 ? 5 : PVRDMA_UAR_CQ_ARM | 6);
        CHECK_EQ(message.number, 0u);
    }
    const auto write = r.await_message();
    CHECK_EQ(write.offset, PVRDMA_REG_MASK);
    CHECK(write_done(*r.device, write.number) == 0);
    writer.await();
    CHECK_EQ(r.vm->read<uint32_t>(uar, page_size), 0u);
}

/* Rings doorbells that say nothing new; expects no messages. */
TEST(pvrdma_drops_what_the_mediator_need_not_know) {
    const Running r;
    r.vm->write<uint32_t>(uar, PVRDMA_UAR_CQ, PVRDMA_UAR_CQ_POLL | 1);
    r.vm->write<uint32_t>(uar, PVRDMA_UAR_SRQ, PVRDMA_UAR_SRQ_RECV | 1);
    r.vm->write<uint32_t>(uar, PVRDMA_UAR_SRQ + 4, ~0u);
    CHECK(!r.device->next_message());
    for (const uint32_t value : {1u, 1u, 2u, 1u, 1u})
        r.vm->write<uint32_t>(uar, PVRDMA_UAR_QP, value);
    for (const uint32_t value : {1u, 2u, 1u})
        CHECK_EQ(r.device->message().value, value);
    r.vm->write<uint32_t>(uar, PVRDMA_UAR_QP, 1);
    CHECK_EQ(r.device->message().value, 1u);
    CHECK(!r.device->next_message());
}

TEST(pvrdma_drops_accesses_of_other_widths) {
    const Running r;
    r.vm->write<uint8_t>(uar, 0, 1);
    r.vm->write<uint64_t>(uar, 0, 1);
    r.vm->write<uint32_t>(uar, 2, 1);
    r.vm->write<uint16_t>(PVRDMA_BAR_REGISTERS, PVRDMA_REG_CONTROL, 1);
    CHECK(!r.device->next_message());
}

/* Rings until there is no room; expects the next doorbell to wait for room. */
TEST(pvrdma_doorbells_wait_for_room) {
    const Running r;
    for (uint32_t i = 0; i < VRDMA_MDEV_MAX_MESSAGES; i++)
        r.vm->write<uint32_t>(uar, 0, i);
    const Writer writer(*r.vm, uar, 0, VRDMA_MDEV_MAX_MESSAGES);
    for (uint32_t i = 0; i <= VRDMA_MDEV_MAX_MESSAGES; i++) {
        if (i == 1)
            writer.await();
        CHECK_EQ(r.await_message().value, i);
    }
    CHECK(!r.device->next_message());
}

/* Resets the device while a write waits for it; expects the write to return, and to be void. */
TEST(pvrdma_a_reset_ends_the_wait) {
    const Running r;
    const Writer writer(*r.vm, PVRDMA_BAR_REGISTERS, PVRDMA_REG_REQUEST, 1);
    const auto message = r.await_message();
    CHECK(r.vm->reset() == 0);
    writer.await();
    r.device->serve_reset();
    CHECK_ERRNO(write_done(*r.device, message.number), ESTALE);
    CHECK(!r.device->next_message());
}

/* The mediator dies while a write waits for it; expects the driver to read an error. */
TEST(pvrdma_a_dead_mediator_is_an_error) {
    Running r;
    const harness::Fd irq = harness::new_eventfd();
    const int eventfd = irq.get();
    CHECK(r.vm->set_irqs(VFIO_PCI_MSIX_IRQ_INDEX, PVRDMA_VECTOR_RESPONSE, {&eventfd, 1}) == 0);
    CHECK_EQ(get(*r.vm, PVRDMA_REG_ERROR), 0u);
    const Writer writer(*r.vm, PVRDMA_BAR_REGISTERS, PVRDMA_REG_REQUEST, 1);
    r.await_message();
    r.end();
    writer.await();
    CHECK_EQ(get(*r.vm, PVRDMA_REG_ERROR), EIO);
    CHECK_EQ(harness::signals(irq), 0u); /* it would be the answer to a command */
    r.vm->write<uint32_t>(uar, 0, 1);

    r.succeed();
    r.device->serve_reset();
    CHECK_EQ(get(*r.vm, PVRDMA_REG_ERROR), 0u);
    CHECK(!r.device->next_message());
    CHECK_EQ(harness::signals(irq), 0u);
}

/*
 * The mediator hands the device over, with a write that it has read; expects this write to be done
 * when the successor comes, and one that nobody has read to wait for the successor.
 */
TEST(pvrdma_writes_wait_for_the_next_mediator) {
    Running r;
    const Writer first(*r.vm, PVRDMA_BAR_REGISTERS, PVRDMA_REG_MASK, 1);
    r.await_message();
    const harness::Fd file(memfd_create("state", MFD_CLOEXEC));
    const vrdma_mdev_handover handover = {file.get(), 0};
    CHECK(ioctl(r.device->fd(), VRDMA_MDEV_HAND_OVER, &handover) == 0);
    r.end();
    const Writer second(*r.vm, PVRDMA_BAR_REGISTERS, PVRDMA_REG_MASK, 2);
    CHECK(!first.done());
    r.succeed();
    first.await();
    CHECK(!second.done());
    CHECK(r.device->reset_done(r.device->info().reset_generation) == 0);
    const auto message = r.await_message();
    CHECK_EQ(message.value, 2u);
    CHECK(write_done(*r.device, message.number) == 0);
}
