// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Registers, messages, kicks, resets. */
#include <poll.h>
#include <sys/ioctl.h>

#include "mediator.h"
#include "vm.h"

namespace {

constexpr uint32_t bar = VRDMA_BAR_REGISTERS;

void expect_write(const Device& device, uint32_t offset, uint32_t value) {
    const auto message = device.message();
    CHECK_EQ(message.type, VRDMA_MDEV_MESSAGE_WRITE);
    CHECK_EQ(message.offset, offset);
    CHECK_EQ(message.value, value);
}

void expect_doorbell(const Device& device) {
    CHECK_EQ(device.message().type, VRDMA_MDEV_MESSAGE_ADMIN_DOORBELL);
}

/* A device with a running VM, all of whose resets are served. */
struct Running : Served {
    Running() : vm(uuid) {
        device.shadow(VRDMA_REG_STATUS) = VRDMA_STATUS_READY;
        device.serve_reset();
    }
    Vm vm;
};

} // namespace

TEST(registers_read_the_shadow_page) {
    const Running running;
    running.device.shadow(VRDMA_REG_MAGIC) = VRDMA_MAGIC;
    running.device.shadow(VRDMA_REG_VERSION) = VRDMA_VERSION;
    CHECK_EQ(running.vm.get(VRDMA_REG_MAGIC), VRDMA_MAGIC);
    CHECK_EQ(running.vm.read<uint64_t>(bar, VRDMA_REG_MAGIC),
             uint64_t{VRDMA_VERSION} << 32 | VRDMA_MAGIC);
}

TEST(registers_read_as_ones_at_other_widths) {
    const Running running;
    CHECK_EQ(running.vm.read<uint8_t>(bar, 0), 0xff);
    CHECK_EQ(running.vm.read<uint16_t>(bar, 0), 0xffff);
    CHECK_EQ(running.vm.read<uint32_t>(bar, 2), ~0u);
    CHECK_EQ(running.vm.read<uint64_t>(bar, 4 * 2 + 1) >> 56, 0xffu);
}

TEST(registers_beyond_the_page_are_the_kick_page) {
    const Running running;
    CHECK_EQ(running.vm.get(VRDMA_BAR0_KICK_OFFSET), 0u);
    CHECK_EQ(running.vm.read<uint8_t>(bar, VRDMA_BAR0_SIZE - 1), 0);
    uint32_t edge[2] = {1, 1};
    CHECK_EQ(running.vm.access(bar, VRDMA_BAR0_SIZE - 4, edge, sizeof(edge), false), ssize_t{4});
    CHECK_ERRNO(running.vm.access(bar, VRDMA_BAR0_SIZE, edge, 4, false), EINVAL);
}

TEST(registers_post_writes) {
    const Running running;
    CHECK(!running.device.next_message());
    running.vm.set(VRDMA_REG_ASQ_LOW, 0x1000);
    CHECK(harness::await(running.device.fd(), POLLIN) & POLLIN);
    expect_write(running.device, VRDMA_REG_ASQ_LOW, 0x1000);
    CHECK(!running.device.next_message());

    running.vm.write<uint64_t>(bar, VRDMA_REG_ACQ_LOW, 0x200003000);
    expect_write(running.device, VRDMA_REG_ACQ_LOW, 0x3000);
    expect_write(running.device, VRDMA_REG_ACQ_HIGH, 2);
    CHECK(!running.device.next_message());
}

TEST(registers_drop_writes_of_other_widths) {
    const Running running;
    running.vm.write<uint8_t>(bar, VRDMA_REG_CONTROL, 1);
    running.vm.write<uint16_t>(bar, VRDMA_REG_CONTROL, 1);
    running.vm.write<uint32_t>(bar, VRDMA_REG_CONTROL + 2, 1);
    CHECK(!running.device.next_message());
}

TEST(registers_join_doorbells) {
    const Running running;
    running.vm.set(VRDMA_REG_ADMIN_DOORBELL, 1);
    running.vm.set(VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
    running.vm.set(VRDMA_REG_ADMIN_DOORBELL, 2);
    expect_write(running.device, VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
    expect_doorbell(running.device);
    CHECK(!running.device.next_message());
    CHECK_EQ(running.vm.get(VRDMA_REG_ADMIN_DOORBELL), 0u);
}

TEST(messages_come_several_at_once) {
    const Running running;
    for (uint32_t i = 0; i < 3; i++)
        running.vm.set(VRDMA_REG_ASQ_LOW, i);
    vrdma_mdev_message messages[4];
    CHECK_ERRNO(read(running.device.fd(), messages, sizeof(messages[0]) - 1), EINVAL);
    CHECK_EQ(read(running.device.fd(), messages, sizeof(messages)), 3 * sizeof(messages[0]));
    CHECK_EQ(messages[2].value, 2u);
}

TEST(kicks_signal_the_eventfd) {
    const Running running;
    running.vm.set(VRDMA_BAR0_KICK_OFFSET, 1); /* no eventfd yet */
    const harness::Fd kick = harness::new_eventfd();
    CHECK(running.device.set_kick(kick.get()) == 0);
    running.vm.set(VRDMA_BAR0_KICK_OFFSET, 0);
    CHECK_EQ(harness::signals(kick), 1u);
    running.vm.write<uint8_t>(bar, VRDMA_BAR0_SIZE - 1, 9);
    running.vm.write<uint64_t>(bar, VRDMA_BAR0_KICK_OFFSET + 8, 9);
    CHECK_EQ(harness::signals(kick), 2u);
    CHECK(!running.device.next_message());
    CHECK(running.device.set_kick(-1) == 0);
    running.vm.set(VRDMA_BAR0_KICK_OFFSET, 1);
    CHECK_EQ(harness::signals(kick), 0u);
}

TEST(kicks_need_an_eventfd) {
    const Running running;
    CHECK_ERRNO(running.device.set_kick(-2), EINVAL);
    CHECK_ERRNO(running.device.set_kick(9999), EBADF);
    CHECK_ERRNO(running.device.set_kick(running.device.fd()), EINVAL);
    const vrdma_mdev_kick kick = {-1, 1};
    CHECK_ERRNO(ioctl(running.device.fd(), VRDMA_MDEV_SET_KICK, &kick), EINVAL);
}

TEST(reset_hides_status_until_acknowledged) {
    const Running running;
    CHECK_EQ(running.vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_READY);
    running.device.shadow(VRDMA_REG_STATUS) = VRDMA_STATUS_ENABLED;
    CHECK_EQ(running.vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_ENABLED);

    CHECK(running.vm.reset() == 0);
    CHECK_EQ(running.vm.get(VRDMA_REG_STATUS), 0u);
    running.device.shadow(VRDMA_REG_STATUS) = VRDMA_STATUS_READY;
    CHECK_EQ(running.vm.get(VRDMA_REG_STATUS), 0u);
    running.device.serve_reset();
    CHECK_EQ(running.vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_READY);
}

TEST(reset_voids_older_messages) {
    const Running running;
    running.vm.set(VRDMA_REG_ASQ_LOW, 1);
    running.vm.set(VRDMA_REG_ADMIN_DOORBELL, 1);
    CHECK(running.vm.reset() == 0);
    running.vm.set(VRDMA_REG_ASQ_LOW, 2);
    running.device.serve_reset();
    expect_write(running.device, VRDMA_REG_ASQ_LOW, 2);
    CHECK(!running.device.next_message());
}

TEST(reset_by_register) {
    const Running running;
    const uint32_t before = running.device.info().reset_generation;
    running.vm.set(VRDMA_REG_CONTROL, VRDMA_CONTROL_RESET);
    CHECK_EQ(running.vm.get(VRDMA_REG_STATUS), 0u);
    CHECK_EQ(running.device.serve_reset(), before + 1);
    CHECK(!running.device.next_message());
}

TEST(reset_refuses_other_generations) {
    const Running running;
    CHECK(running.vm.reset() == 0);
    const auto first = running.device.message();
    CHECK(running.vm.reset() == 0);
    CHECK_ERRNO(running.device.reset_done(first.value), ESTALE);
    CHECK_EQ(running.vm.get(VRDMA_REG_STATUS), 0u);
    CHECK_ERRNO(running.device.reset_done(first.value + 2), ESTALE);
    CHECK_EQ(running.device.serve_reset(), first.value + 1);
    const vrdma_mdev_reset_done reserved = {first.value + 1, 1};
    CHECK_ERRNO(ioctl(running.device.fd(), VRDMA_MDEV_RESET_DONE, &reserved), EINVAL);
}

/* Unread resets are one message, with the last generation. */
TEST(reset_messages_are_joined) {
    const Running running;
    const uint32_t before = running.device.info().reset_generation;
    for (int i = 0; i < 3; i++)
        CHECK(running.vm.reset() == 0);
    CHECK_EQ(running.device.serve_reset(), before + 3);
    CHECK(!running.device.next_message());
}

TEST(reset_comes_with_open_and_close) {
    const Served served;
    served.device.serve_reset(); /* by the mediator's open */
    CHECK_EQ(served.device.info().open, 0u);
    {
        const Vm vm(served.uuid);
        served.device.serve_reset();
        CHECK_EQ(served.device.info().open, 1u);
    }
    served.device.serve_reset();
    CHECK_EQ(served.device.info().open, 0u);
}

TEST(overflow_is_fatal_until_reset) {
    const Running running;
    const harness::Fd irq = harness::new_eventfd();
    const int eventfd = irq.get();
    CHECK(running.vm.set_irqs(VFIO_PCI_MSIX_IRQ_INDEX, 0, {&eventfd, 1}) == 0);

    for (uint32_t i = 0; i < VRDMA_MDEV_MAX_MESSAGES; i++)
        running.vm.set(VRDMA_REG_ASQ_LOW, i);
    CHECK_EQ(running.vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_READY);
    CHECK_EQ(harness::signals(irq), 0u);
    running.vm.set(VRDMA_REG_ASQ_LOW, 0);
    CHECK_EQ(running.vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_FATAL);
    CHECK_EQ(harness::signals(irq), 1u);

    /* The writes that fitted are there; those after FATAL are not. */
    for (uint32_t i = 0; i < VRDMA_MDEV_MAX_MESSAGES; i++)
        expect_write(running.device, VRDMA_REG_ASQ_LOW, i);
    running.vm.set(VRDMA_REG_ASQ_LOW, 0);
    CHECK(!running.device.next_message());

    running.vm.set(VRDMA_REG_CONTROL, VRDMA_CONTROL_RESET);
    CHECK_EQ(running.vm.get(VRDMA_REG_STATUS), 0u);
    running.device.serve_reset();
    CHECK_EQ(running.vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_READY);
}

/* Acknowledging a reset must not undo a FATAL that came after it. */
TEST(overflow_during_reset_is_fatal) {
    const Running running;
    CHECK(running.vm.reset() == 0);
    const auto reset = running.device.message();
    for (uint32_t i = 0; i <= VRDMA_MDEV_MAX_MESSAGES; i++)
        running.vm.set(VRDMA_REG_ASQ_LOW, i);
    CHECK(running.device.reset_done(reset.value) == 0);
    CHECK_EQ(running.vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_FATAL);
}
