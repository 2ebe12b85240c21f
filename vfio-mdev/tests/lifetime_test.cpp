// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Mediators that die, stop and return; devices that are removed. */
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

#include "mediator.h"
#include "vm.h"

namespace {

constexpr uint64_t ram_iova = 0x40000000;

int open_errno(const Hca& hca, uint32_t id) {
    vrdma_mdev_open_device open = {id, -1};
    return ioctl(hca.fd(), VRDMA_MDEV_OPEN_DEVICE, &open) == 0 ? 0 : errno;
}

/*
 * A mediator in a separate process. It serves resets, writes the value of each other message to the
 * first page of the VM's memory, and makes the guest see READY.
 */
class MediatorProcess {
  public:
    explicit MediatorProcess(const std::string& uuid, const char* type) : pid_(fork()) {
        if (pid_ != 0)
            return;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const Hca hca;
        const Device device(hca, hca.create(type, uuid));
        for (;;) {
            harness::await(device.fd(), POLLIN);
            const auto message = device.message();
            if (message.type == VRDMA_MDEV_MESSAGE_RESET) {
                device.shadow(VRDMA_REG_STATUS) = VRDMA_STATUS_READY;
                device.reset_done(message.value);
            } else {
                device.window<uint32_t>(ram_iova) = message.value;
            }
        }
    }
    MediatorProcess(const MediatorProcess&) = delete;
    MediatorProcess& operator=(const MediatorProcess&) = delete;
    ~MediatorProcess() { kill_it(); }
    void kill_it() {
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            CHECK_EQ(waitpid(pid_, nullptr, 0), pid_);
        }
        pid_ = 0;
    }
    void stop() const {
        kill(pid_, SIGSTOP);
        int status = 0;
        CHECK_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
        CHECK(WIFSTOPPED(status));
    }

  private:
    pid_t pid_;
};

void await_status(const Vm& vm, uint32_t status) {
    harness::await([&] { return vm.get(VRDMA_REG_STATUS) == status; }, "STATUS");
}

/* A VM whose mediator, in a separate process, has pinned a page of it. */
struct Pinned {
    Pinned() : uuid(test_uuid(1)), mediator(uuid, "small"), ram(page_size), vm((wait(), uuid)) {
        CHECK(vm.map(ram_iova, ram.get(), ram.size()) == 0);
        await_status(vm, VRDMA_STATUS_READY);
        vm.set(VRDMA_REG_ASQ_LOW, 1);
        harness::await([&] { return ram.at<uint32_t>(0) == 1; }, "the mediator's write");
        CHECK_EQ(pinned(uuid), page_size);
    }
    void wait() const {
        harness::await([&] { return exists(device_path(uuid) + "/pinned"); }, "the device");
    }
    std::string uuid;
    MediatorProcess mediator;
    Ram ram;
    Vm vm;
};

} // namespace

TEST(mediator_dies_and_returns) {
    Pinned p;
    const harness::Fd irq = harness::new_eventfd();
    const int eventfd = irq.get();
    CHECK(p.vm.set_irqs(VFIO_PCI_MSIX_IRQ_INDEX, 0, {&eventfd, 1}) == 0);

    p.mediator.kill_it();
    CHECK_EQ(p.vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_FATAL);
    CHECK_EQ(harness::signals(irq), 1u);
    harness::await([&] { return pinned(p.uuid) == 0; }, "all is unpinned");
    p.vm.set(VRDMA_REG_ASQ_LOW, 2);
    p.vm.set(VRDMA_BAR0_KICK_OFFSET, 1);
    CHECK(p.vm.reset() == 0); /* there is no mediator to serve it */
    CHECK_EQ(p.vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_FATAL);

    const Hca hca;
    const Device device(hca, hca.added());
    CHECK_EQ(device.info().open, 1u);
    CHECK_EQ(p.vm.get(VRDMA_REG_STATUS), 0u);
    CHECK_EQ(harness::signals(irq), 0u);
    CHECK_EQ(device.window<uint32_t>(ram_iova), 0u); /* not before the reset is served */
    CHECK_EQ(device.shadow(VRDMA_REG_STATUS), VRDMA_STATUS_READY); /* the shadow page is the same */
    device.serve_reset();
    CHECK(!device.next_message());
    CHECK_EQ(p.vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_READY);
    CHECK_EQ(harness::signals(irq), 1u);
    CHECK_EQ(device.window<uint32_t>(ram_iova), 1u);
}

TEST(mediator_that_stops_holds_nobody_up) {
    Pinned p;
    p.mediator.stop();
    p.vm.set(VRDMA_REG_ASQ_LOW, 2);
    p.vm.set(VRDMA_REG_ADMIN_DOORBELL, 1);
    CHECK_EQ(p.vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_READY);
    CHECK(p.vm.reset() == 0);
    harness::await([&] { return pinned(p.uuid) == 0; }, "all is unpinned");
    CHECK_EQ(p.vm.get(VRDMA_REG_STATUS), 0u);
    CHECK(p.vm.unmap(ram_iova, page_size) == 0);
    for (uint32_t i = 0; i <= VRDMA_MDEV_MAX_MESSAGES; i++)
        p.vm.set(VRDMA_REG_ASQ_LOW, i);
    CHECK_EQ(p.vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_FATAL);
}

TEST(mediator_closes_the_device_and_opens_it_again) {
    const Hca hca;
    const uint32_t id = hca.create("small", test_uuid(1));
    const Vm vm(test_uuid(1));
    const harness::Fd irq = harness::new_eventfd();
    const int eventfd = irq.get();
    CHECK(vm.set_irqs(VFIO_PCI_MSIX_IRQ_INDEX, 0, {&eventfd, 1}) == 0);
    CHECK_EQ(vm.get(VRDMA_REG_STATUS), 0u); /* no mediator yet: a reset is under way */
    uint32_t generation;
    {
        const Device device(hca, id);
        CHECK_EQ(open_errno(hca, id), EBUSY);
        generation = device.serve_reset();
        CHECK_EQ(harness::signals(irq), 0u);
    }
    CHECK_EQ(vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_FATAL);
    CHECK_EQ(harness::signals(irq), 1u);
    const Device device(hca, id);
    CHECK_ERRNO(device.reset_done(generation), ESTALE);
    CHECK(device.serve_reset() > generation);
    CHECK_EQ(harness::signals(irq), 1u);
}

/* The mediator closes the registration, and keeps the device fd. */
TEST(mediator_without_registration_is_none) {
    Hca hca;
    const uint32_t id = hca.create("small", test_uuid(1));
    const Vm vm(test_uuid(1));
    auto device = std::make_unique<Device>(hca, id);
    const Ram ram(page_size);
    CHECK(vm.map(ram_iova, ram.get(), ram.size()) == 0);
    const uint32_t generation = device->serve_reset();
    device->window<uint32_t>(ram_iova) = 1;

    hca.close();
    CHECK_EQ(vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_FATAL);
    harness::await([] { return pinned(test_uuid(1)) == 0; }, "all is unpinned");
    CHECK_EQ(device->window<uint32_t>(ram_iova), 0u);
    CHECK(harness::await(device->fd(), POLLIN) & POLLHUP);
    CHECK_ERRNO(device->reset_done(generation), ENODEV);
    CHECK_ERRNO(device->raise(0), ENODEV);

    const Hca next;
    CHECK_EQ(next.added(), id);
    CHECK_EQ(open_errno(next, id), EBUSY);
    device.reset();
    const Device again(next, id);
    again.serve_reset();
    CHECK_EQ(again.window<uint32_t>(ram_iova), 1u);
}

/* A VM opens the device before a mediator has come back. */
TEST(vm_starts_without_a_mediator) {
    {
        const Hca hca;
        CHECK_EQ(create_device("small", test_uuid(1)), 0);
    }
    const Vm vm(test_uuid(1));
    CHECK_EQ(vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_FATAL);
    const Hca hca;
    const Device device(hca, hca.added());
    CHECK_EQ(vm.get(VRDMA_REG_STATUS), 0u);
    device.shadow(VRDMA_REG_STATUS) = VRDMA_STATUS_READY;
    device.serve_reset();
    CHECK_EQ(vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_READY);
}

TEST(removal_ends_the_device_fd) {
    const Served served;
    served.device.serve_reset();
    CHECK_EQ(remove_device(served.uuid), 0);
    CHECK(harness::await(served.device.fd(), POLLIN) & POLLHUP);
    vrdma_mdev_message message;
    CHECK_ERRNO(read(served.device.fd(), &message, sizeof(message)), ENODEV);
    CHECK_ERRNO(served.device.raise(0), ENODEV);
    CHECK_ERRNO(served.device.unpin(0, page_size), ENODEV);
    CHECK_EQ(served.device.window<uint32_t>(0), 0u);
    const auto event = served.hca.next_event();
    CHECK(event);
    CHECK_EQ(event->type, VRDMA_MDEV_DEVICE_REMOVED);
    CHECK_EQ(open_errno(served.hca, event->device), ENOENT);
}

TEST(removal_asks_the_vm_and_waits) {
    const Served served;
    auto vm = std::make_unique<Vm>(served.uuid);
    const harness::Fd request = harness::new_eventfd();
    const int eventfd = request.get();
    CHECK(vm->set_irqs(VFIO_PCI_REQ_IRQ_INDEX, 0, {&eventfd, 1}) == 0);
    served.device.serve_reset();

    std::thread remover([&] { CHECK_EQ(remove_device(served.uuid), 0); });
    harness::await(request.get(), POLLIN);
    CHECK(!served.hca.next_event()); /* the VM is still served */
    CHECK(served.device.raise(0) == 0);
    vm.reset();
    remover.join();
    CHECK(!exists(device_path(served.uuid)));
    CHECK(served.hca.next_event());
}

/* The registration may end while devices are created and removed. */
TEST(registration_races_creation) {
    for (int i = 0; i < 20; i++) {
        auto hca = std::make_unique<Hca>();
        std::thread creator([] {
            for (int n = 1; n <= 2; n++)
                if (create_device("small", test_uuid(n)) == 0)
                    remove_device(test_uuid(n));
        });
        hca.reset();
        creator.join();
        harness::await([] { return !exists(hca_path()); }, "the HCA is gone");
    }
}

/*
 * A mediator goes while a device is being created, and another one takes the device over as soon as
 * it gets the event. The creating thread must not abandon the device then.
 */
TEST(creation_ends_no_device_of_a_next_mediator) {
    auto hca = std::make_unique<Hca>();
    CHECK_EQ(create_device("small", test_uuid(1)), 0); /* so that the parent stays */
    for (int i = 0; i < 200; i++) {
        std::thread creator([] { create_device("small", test_uuid(2)); });
        std::this_thread::sleep_for(std::chrono::microseconds(i % 50 * 50));
        hca.reset();
        hca = std::make_unique<Hca>();
        std::vector<std::unique_ptr<Device>> devices;
        const auto take = [&] {
            while (const auto event = hca->next_event())
                devices.push_back(std::make_unique<Device>(*hca, event->device));
        };
        take();
        creator.join();
        take();
        for (const auto& device : devices)
            device->serve_reset();
        CHECK_EQ(devices.size(), exists(device_path(test_uuid(2))) ? 2u : 1u);
        devices.clear();
        remove_device(test_uuid(2));
    }
}
