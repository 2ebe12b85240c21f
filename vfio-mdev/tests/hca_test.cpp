// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Registration, types and their instances, events. */
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <cstring>

#include "harness.h"
#include "mediator.h"

namespace {

harness::Fd open_control() {
    return harness::Fd(open(VRDMA_MDEV_PATH, O_RDWR | O_CLOEXEC));
}

int register_errno(const vrdma_mdev_register& spec) {
    const harness::Fd fd = open_control();
    return ioctl(fd.get(), VRDMA_MDEV_REGISTER, &spec) == 0 ? 0 : errno;
}

/* The errno of registering test_hca() after a change. */
template <typename Change>
int register_changed(Change change) {
    vrdma_mdev_register spec = test_hca();
    change(spec);
    return register_errno(spec);
}

std::string available(const char* type) {
    return harness::read_file(type_path(type) + "/available_instances");
}

} // namespace

TEST(hca_refuses_bad_registrations) {
    using Spec = vrdma_mdev_register;
    CHECK_EQ(register_changed([](Spec& s) { s.abi_version++; }), EPROTONOSUPPORT);
    CHECK_EQ(register_changed([](Spec& s) { s.num_types = 0; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.num_types = VRDMA_MDEV_MAX_TYPES + 1; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.num_types = 1; }), EINVAL); /* types[1] not zero */
    CHECK_EQ(register_changed([](Spec& s) { s.name[0] = '\0'; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.name[0] = '/'; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { std::memset(s.name, 'a', sizeof(s.name)); }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.types[0].name[0] = 'S'; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.types[1] = s.types[0]; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) {
                 std::memset(s.types[0].description, 'a', sizeof(s.types[0].description));
             }),
             EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.types[0].max_instances = 0; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.types[0].max_instances = 4097; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.types[0].doorbell_pages = 1; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.types[0].doorbell_pages = 3; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.types[0].doorbell_pages = 8192; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.types[0].vectors = 1; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.types[0].vectors = VRDMA_MAX_VECTORS + 1; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.types[0].personality = 2; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.types[pvrdma_type].vectors = 2; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.types[0].max_pinned = 0; }), EINVAL);
    CHECK(!exists(hca_path()));
    CHECK_EQ(register_errno(test_hca()), 0);
}

TEST(hca_refuses_bad_uplinks) {
    using Spec = vrdma_mdev_register;
    CHECK_EQ(register_changed([](Spec& s) { s.num_uplinks = VRDMA_MDEV_MAX_UPLINKS + 1; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.num_uplinks = UINT32_MAX; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.num_uplinks = 1; }), EINVAL); /* the other is set */
    CHECK_EQ(register_changed([](Spec& s) { s.num_uplinks = 3; }), EINVAL); /* the third is empty */
    CHECK_EQ(register_changed([](Spec& s) { s.reserved = 1; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.uplinks[1][3] = '/'; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.uplinks[1][3] = ' '; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.uplinks[1][3] = '\x80'; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.uplinks[1][1] = '\0'; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { std::memset(s.uplinks[1], 'a', 16); }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { std::memcpy(s.uplinks[1], "..\0\0\0\0", 6); }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { std::memcpy(s.uplinks[1], "none\0", 6); }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { std::memcpy(s.uplinks[1], s.uplinks[0], 16); }),
             EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.types[0].uplink[0] = 'w'; }), EINVAL);
    CHECK_EQ(register_changed([](Spec& s) { s.types[1].uplink[15] = 'w'; }), EINVAL);
    CHECK(!exists(hca_path()));
}

/* HCAs have their own bus, so they may have the name of another bus's device. */
TEST(hca_may_have_a_name_of_another_bus) {
    CHECK(exists("/sys/devices/platform/serial8250"));
    CHECK_EQ(register_changed([](vrdma_mdev_register& s) {
                 std::memset(s.name, 0, sizeof(s.name));
                 std::strncpy(s.name, "serial8250", sizeof(s.name) - 1);
             }),
             0);
}

TEST(hca_refuses_calls_out_of_order) {
    const harness::Fd fd = open_control();
    vrdma_mdev_open_device open = {1, -1};
    vrdma_mdev_event event;
    CHECK_ERRNO(ioctl(fd.get(), VRDMA_MDEV_OPEN_DEVICE, &open), ENODEV);
    CHECK_ERRNO(read(fd.get(), &event, sizeof(event)), ENODEV);
    CHECK_ERRNO(ioctl(fd.get(), VRDMA_MDEV_REGISTER, nullptr), EFAULT);
    CHECK_ERRNO(ioctl(fd.get(), VRDMA_MDEV_RAISE, 0), ENOTTY);

    const Hca hca;
    const vrdma_mdev_register again = test_hca();
    CHECK_ERRNO(ioctl(hca.fd(), VRDMA_MDEV_REGISTER, &again), EBUSY);
    CHECK_ERRNO(ioctl(fd.get(), VRDMA_MDEV_REGISTER, &again), EBUSY);
    CHECK_ERRNO(ioctl(hca.fd(), VRDMA_MDEV_OPEN_DEVICE, &open), ENOENT);
    CHECK_ERRNO(read(hca.fd(), &event, sizeof(event) - 1), EINVAL);
}

TEST(hca_shows_its_types) {
    const Hca hca;
    CHECK_EQ(harness::read_file(type_path("small") + "/name"), std::string("vrdma-small"));
    CHECK_EQ(harness::read_file(type_path("small") + "/description"),
             std::string("small for tests"));
    CHECK_EQ(harness::read_file(type_path("small") + "/device_api"), std::string("vfio-pci"));
    CHECK(exists(type_path("large")));
    CHECK(exists("/sys/bus/vrdma/devices/vrdmatest"));
}

TEST(hca_counts_instances) {
    const Hca hca;
    CHECK_EQ(available("small"), std::string("2"));
    CHECK_EQ(create_device("small", test_uuid(1)), 0);
    CHECK_EQ(available("small"), std::string("1"));
    CHECK_EQ(create_device("small", test_uuid(1)), EEXIST);
    CHECK_EQ(create_device("small", test_uuid(2)), 0);
    CHECK_EQ(available("small"), std::string("0"));
    CHECK_EQ(create_device("small", test_uuid(3)), ENOSPC);
    CHECK_EQ(available("large"), std::string("2"));
    CHECK_EQ(remove_device(test_uuid(1)), 0);
    CHECK_EQ(available("small"), std::string("1"));
    CHECK_EQ(create_device("small", test_uuid(3)), 0);
}

TEST(hca_tells_of_devices) {
    const Hca hca;
    CHECK(!hca.next_event());

    CHECK_EQ(create_device("small", test_uuid(1)), 0);
    CHECK(harness::await(hca.fd(), POLLIN) & POLLIN);
    const uint32_t first = hca.added();
    CHECK(!hca.next_event());

    /* Created and removed before the mediator has read the event: there is no event. */
    CHECK_EQ(create_device("small", test_uuid(2)), 0);
    CHECK_EQ(remove_device(test_uuid(2)), 0);
    CHECK(!hca.next_event());

    CHECK_EQ(remove_device(test_uuid(1)), 0);
    CHECK(harness::await(hca.fd(), POLLIN) & POLLIN);
    const auto removed = hca.next_event();
    CHECK(removed);
    CHECK_EQ(removed->type, VRDMA_MDEV_DEVICE_REMOVED);
    CHECK_EQ(removed->device, first);
    CHECK(!hca.next_event());
}

/* The mediator reads several events in one call. */
TEST(hca_tells_of_devices_at_once) {
    const Hca hca;
    CHECK_EQ(create_device("small", test_uuid(1)), 0);
    CHECK_EQ(create_device("large", test_uuid(2)), 0);
    vrdma_mdev_event events[3];
    CHECK_EQ(read(hca.fd(), events, sizeof(events)), 2 * sizeof(events[0]));
    CHECK(events[0].device != events[1].device);
}

TEST(hca_without_devices_goes_with_its_mediator) {
    Hca hca;
    CHECK(exists(hca_path()));
    hca.close();
    harness::await([] { return !exists(hca_path()); }, "the HCA is gone");
}

TEST(hca_without_mediator_makes_no_devices) {
    Hca hca;
    CHECK_EQ(create_device("small", test_uuid(1)), 0);
    hca.close();
    CHECK_EQ(available("small"), std::string("0"));
    CHECK_EQ(create_device("small", test_uuid(2)), ENODEV);
    /* Removing the last device removes the HCA. */
    CHECK_EQ(remove_device(test_uuid(1)), 0);
    harness::await([] { return !exists(hca_path()); }, "the HCA is gone");
}

TEST(hca_is_adopted_with_its_devices) {
    {
        Hca hca;
        CHECK_EQ(create_device("small", test_uuid(1)), 0);
        CHECK_EQ(create_device("small", test_uuid(2)), 0);
        hca.added();
    }
    CHECK_EQ(register_changed([](vrdma_mdev_register& s) { s.types[0].vectors++; }), EINVAL);
    CHECK_EQ(register_changed([](vrdma_mdev_register& s) { s.types[0].personality = 1; }), EINVAL);
    CHECK_EQ(register_changed([](vrdma_mdev_register& s) { s.types[1].max_pinned *= 2; }), EINVAL);
    const Hca hca;
    CHECK(hca.added() != hca.added());
    CHECK(!hca.next_event());
    CHECK_EQ(available("small"), std::string("0"));
    CHECK_EQ(available("large"), std::string("2"));
}

/* The mediator passes memory that cannot be written: no event is lost, and no fd is left behind. */
TEST(hca_keeps_what_it_cannot_copy) {
    const Hca hca;
    void* const page =
        mmap(nullptr, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    auto* const open = static_cast<vrdma_mdev_open_device*>(page);
    CHECK_EQ(create_device("small", test_uuid(1)), 0);
    *open = {1, -1};
    CHECK(mprotect(page, page_size, PROT_READ) == 0);

    CHECK_ERRNO(read(hca.fd(), page, sizeof(vrdma_mdev_event)), EFAULT);
    CHECK_EQ(hca.added(), open->device);
    CHECK_ERRNO(ioctl(hca.fd(), VRDMA_MDEV_OPEN_DEVICE, open), EFAULT);
    const Device device(hca, open->device);

    CHECK_ERRNO(read(device.fd(), page, sizeof(vrdma_mdev_message)), EFAULT);
    CHECK_EQ(device.message().type, VRDMA_MDEV_MESSAGE_RESET);
    CHECK(!device.next_message());

    CHECK_EQ(remove_device(test_uuid(1)), 0);
    CHECK_ERRNO(read(hca.fd(), page, sizeof(vrdma_mdev_event)), EFAULT);
    const auto event = hca.next_event();
    CHECK(event);
    CHECK_EQ(event->type, VRDMA_MDEV_DEVICE_REMOVED);
    CHECK(!hca.next_event());
}
