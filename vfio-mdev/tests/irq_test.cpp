// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Interrupts. */
#include <array>

#include "mediator.h"
#include "vm.h"

namespace {

constexpr uint32_t msix = VFIO_PCI_MSIX_IRQ_INDEX;
constexpr uint32_t disable = VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER;

} // namespace

TEST(irq_info) {
    const Served served;
    const Vm vm(served.uuid);
    for (const uint32_t index : {VFIO_PCI_INTX_IRQ_INDEX, VFIO_PCI_MSI_IRQ_INDEX,
                                 VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_REQ_IRQ_INDEX}) {
        vfio_irq_info info = {sizeof(info), 0, index, 0};
        CHECK(vm.ioctl_device(VFIO_DEVICE_GET_IRQ_INFO, &info) == 0);
        const uint32_t expected = index == msix                     ? small_vectors
                                  : index == VFIO_PCI_REQ_IRQ_INDEX ? 1
                                                                    : 0;
        CHECK_EQ(info.count, expected);
        CHECK_EQ(info.flags, expected ? VFIO_IRQ_INFO_EVENTFD : 0u);
    }
    for (const uint32_t index : {VFIO_PCI_ERR_IRQ_INDEX, VFIO_PCI_NUM_IRQS}) {
        vfio_irq_info info = {sizeof(info), 0, index, 0};
        CHECK_ERRNO(vm.ioctl_device(VFIO_DEVICE_GET_IRQ_INFO, &info), EINVAL);
    }
}

TEST(irq_vectors_signal_their_eventfds) {
    const Served served;
    const Vm vm(served.uuid);
    const harness::Fd one = harness::new_eventfd(), two = harness::new_eventfd();
    const std::array<int, 2> eventfds = {one.get(), two.get()};
    CHECK(vm.set_irqs(msix, 1, eventfds) == 0);
    CHECK(served.device.raise(1) == 0);
    CHECK_EQ(harness::signals(one), 1u);
    CHECK_EQ(harness::signals(two), 0u);
    CHECK(served.device.raise(2) == 0);
    CHECK(served.device.raise(2) == 0);
    CHECK_EQ(harness::signals(two), 2u);
    CHECK_ERRNO(served.device.raise(small_vectors), EINVAL);
    CHECK_ERRNO(served.device.raise(~0ul), EINVAL);
}

/* QEMU removes all eventfds and sets them anew when a vector is added. */
TEST(irq_raised_while_off_stays_pending) {
    const Served served;
    const Vm vm(served.uuid);
    const harness::Fd irq = harness::new_eventfd();
    const int eventfd = irq.get(), none = -1;

    CHECK(served.device.raise(0) == 0);
    CHECK(served.device.raise(0) == 0);
    CHECK(vm.set_irqs(msix, 0, {&none, 1}) == 0);
    CHECK(vm.set_irqs(msix, 0, {&eventfd, 1}) == 0);
    CHECK_EQ(harness::signals(irq), 1u);

    CHECK(vm.irq_action(msix, disable, 0, 0) == 0);
    CHECK(served.device.raise(0) == 0);
    CHECK_EQ(harness::signals(irq), 0u);
    CHECK(vm.set_irqs(msix, 0, {&eventfd, 1}) == 0);
    CHECK_EQ(harness::signals(irq), 1u);
    CHECK(vm.set_irqs(msix, 0, {&eventfd, 1}) == 0);
    CHECK_EQ(harness::signals(irq), 0u); /* once */
}

TEST(irq_pending_ends_with_reset_and_close) {
    const Served served;
    const harness::Fd irq = harness::new_eventfd();
    const int eventfd = irq.get();
    {
        const Vm vm(served.uuid);
        CHECK(served.device.raise(0) == 0);
        CHECK(vm.reset() == 0);
        CHECK(vm.set_irqs(msix, 0, {&eventfd, 1}) == 0);
        CHECK_EQ(harness::signals(irq), 0u);
        CHECK(served.device.raise(1) == 0);
    }
    CHECK(served.device.raise(0) == 0); /* the eventfd was released */
    CHECK_EQ(harness::signals(irq), 0u);
    const Vm vm(served.uuid);
    CHECK(vm.set_irqs(msix, 0, {&eventfd, 1}) == 0);
    CHECK(vm.set_irqs(msix, 1, {&eventfd, 1}) == 0);
    CHECK_EQ(harness::signals(irq), 0u);
}

TEST(irq_loopback) {
    const Served served;
    const Vm vm(served.uuid);
    const harness::Fd irq = harness::new_eventfd();
    const int eventfd = irq.get();
    CHECK(vm.set_irqs(msix, 3, {&eventfd, 1}) == 0);
    CHECK(vm.irq_action(msix, disable, 3, 1) == 0);
    CHECK_EQ(harness::signals(irq), 1u);
}

TEST(irq_refuses_bad_sets) {
    const Served served;
    const Vm vm(served.uuid);
    const std::array<int, 2> eventfds = {-1, -1};
    const int bad = 9999, worse = -2, no_eventfd = vm.device();
    CHECK_ERRNO(vm.set_irqs(msix, small_vectors - 1, eventfds), EINVAL);
    CHECK_ERRNO(vm.set_irqs(msix, ~0u, eventfds), EINVAL);
    CHECK_ERRNO(vm.set_irqs(VFIO_PCI_INTX_IRQ_INDEX, 0, {&bad, 1}), EINVAL);
    CHECK_ERRNO(vm.set_irqs(VFIO_PCI_NUM_IRQS, 0, {&bad, 1}), EINVAL);
    CHECK_ERRNO(vm.set_irqs(msix, 0, {&bad, 1}), EBADF);
    CHECK_ERRNO(vm.set_irqs(msix, 0, {&worse, 1}), EINVAL);
    CHECK_ERRNO(vm.set_irqs(msix, 0, {&no_eventfd, 1}), EINVAL);
    CHECK_ERRNO(vm.irq_action(msix, VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_MASK, 0, 1),
                ENOTTY);
    CHECK_ERRNO(vm.irq_action(msix, VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER, 0, 1),
                EINVAL); /* no room for the eventfd */
    vfio_irq_set short_set = {sizeof(short_set) - 1, disable, msix, 0, 0};
    CHECK_ERRNO(vm.ioctl_device(VFIO_DEVICE_SET_IRQS, &short_set), EINVAL);
}
