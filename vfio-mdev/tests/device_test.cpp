// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The device as VFIO shows it: configuration space, regions, information, attributes. */
#include <linux/pci_regs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <cstring>

#include "mediator.h"
#include "vm.h"

namespace {

constexpr uint32_t config = VFIO_PCI_CONFIG_REGION_INDEX;
constexpr uint32_t doorbells_size = small_doorbell_pages * page_size;

/* Writes all ones, as firmware does to learn a BAR's size. */
uint32_t size_bar(const Vm& vm, uint32_t bar) {
    const uint32_t offset = PCI_BASE_ADDRESS_0 + 4 * bar;
    vm.write<uint32_t>(config, offset, ~0u);
    return vm.read<uint32_t>(config, offset);
}

/* Returns the capability's offset. */
uint32_t find_capability(const Vm& vm, uint8_t id) {
    uint32_t at = vm.read<uint8_t>(config, PCI_CAPABILITY_LIST);
    while (at != 0 && vm.read<uint8_t>(config, at) != id)
        at = vm.read<uint8_t>(config, at + PCI_CAP_LIST_NEXT);
    CHECK(at != 0);
    return at;
}

} // namespace

TEST(config_identifies_the_function) {
    const Served served;
    const Vm vm(served.uuid);
    CHECK_EQ(vm.read<uint16_t>(config, PCI_VENDOR_ID), VRDMA_PCI_VENDOR_ID);
    CHECK_EQ(vm.read<uint16_t>(config, PCI_DEVICE_ID), VRDMA_PCI_DEVICE_ID);
    CHECK_EQ(vm.read<uint32_t>(config, PCI_CLASS_REVISION),
             VRDMA_PCI_CLASS << 8u | VRDMA_PCI_REVISION);
    CHECK_EQ(vm.read<uint16_t>(config, PCI_SUBSYSTEM_VENDOR_ID), VRDMA_PCI_VENDOR_ID);
    CHECK_EQ(vm.read<uint16_t>(config, PCI_SUBSYSTEM_ID), VRDMA_PCI_DEVICE_ID);
    CHECK_EQ(vm.read<uint8_t>(config, PCI_HEADER_TYPE), 0);
    CHECK_EQ(vm.read<uint8_t>(config, PCI_INTERRUPT_PIN), 0);
}

TEST(config_keeps_what_is_read_only) {
    const Served served;
    const Vm vm(served.uuid);
    const uint32_t control = find_capability(vm, PCI_CAP_ID_EXP) + PCI_EXP_DEVCTL;
    for (uint32_t offset = 0; offset < PCI_CFG_SPACE_SIZE; offset += 4)
        vm.write<uint32_t>(config, offset, offset == control ? ~PCI_EXP_DEVCTL_BCR_FLR : ~0u);
    CHECK_EQ(vm.read<uint16_t>(config, PCI_VENDOR_ID), VRDMA_PCI_VENDOR_ID);
    CHECK_EQ(vm.read<uint16_t>(config, PCI_COMMAND),
             PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_INTX_DISABLE);
    CHECK_EQ(vm.read<uint16_t>(config, PCI_STATUS), PCI_STATUS_CAP_LIST);
    CHECK_EQ(vm.read<uint32_t>(config, PCI_ROM_ADDRESS), 0u);

    CHECK(vm.ioctl_device(VFIO_DEVICE_RESET, nullptr) == 0);
    CHECK_EQ(vm.read<uint16_t>(config, PCI_COMMAND), 0);
    CHECK_EQ(vm.read<uint32_t>(config, PCI_BASE_ADDRESS_0), 0u);
}

TEST(config_sizes_bars) {
    const Served served;
    const Vm vm(served.uuid);
    CHECK_EQ(size_bar(vm, 0), ~(VRDMA_BAR0_SIZE - 1u));
    CHECK_EQ(size_bar(vm, 1), 0u);
    CHECK_EQ(size_bar(vm, 2),
             ~(doorbells_size - 1u) | PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH);
    CHECK_EQ(size_bar(vm, 3), ~0u);
    CHECK_EQ(size_bar(vm, 4), ~(VRDMA_BAR4_SIZE - 1u));
    CHECK_EQ(size_bar(vm, 5), 0u);
    vm.write<uint32_t>(config, PCI_BASE_ADDRESS_0, 0xfebf0000);
    CHECK_EQ(vm.read<uint32_t>(config, PCI_BASE_ADDRESS_0), 0xfebf0000u);
}

TEST(config_has_msix) {
    const Served served;
    const Vm vm(served.uuid);
    const auto capability = find_capability(vm, PCI_CAP_ID_MSIX);
    CHECK_EQ(vm.read<uint16_t>(config, capability + PCI_MSIX_FLAGS), small_vectors - 1);
    CHECK_EQ(vm.read<uint32_t>(config, capability + PCI_MSIX_TABLE),
             VRDMA_BAR_MSIX | VRDMA_MSIX_TABLE_OFFSET);
    CHECK_EQ(vm.read<uint32_t>(config, capability + PCI_MSIX_PBA),
             VRDMA_BAR_MSIX | VRDMA_MSIX_PBA_OFFSET);
    vm.write<uint16_t>(config, capability + PCI_MSIX_FLAGS, PCI_MSIX_FLAGS_ENABLE);
    CHECK_EQ(vm.read<uint16_t>(config, capability + PCI_MSIX_FLAGS),
             PCI_MSIX_FLAGS_ENABLE | (small_vectors - 1));
}

TEST(config_has_power_states) {
    const Served served;
    const Vm vm(served.uuid);
    const uint32_t control = find_capability(vm, PCI_CAP_ID_PM) + PCI_PM_CTRL;
    CHECK_EQ(vm.read<uint16_t>(config, control), PCI_PM_CTRL_NO_SOFT_RESET);
    vm.write<uint16_t>(config, control, 3);
    CHECK_EQ(vm.read<uint16_t>(config, control), PCI_PM_CTRL_NO_SOFT_RESET | 3);
    vm.write<uint16_t>(config, control, 0);
    CHECK_EQ(vm.read<uint16_t>(config, control), PCI_PM_CTRL_NO_SOFT_RESET);
}

/* A PCI Express endpoint has it. It resets the function and its configuration space. */
TEST(config_has_a_function_level_reset) {
    const Served served;
    const Vm vm(served.uuid);
    served.device.serve_reset();
    const uint32_t capability = find_capability(vm, PCI_CAP_ID_EXP);
    const uint32_t control = capability + PCI_EXP_DEVCTL;
    CHECK_EQ(vm.read<uint16_t>(config, capability + PCI_EXP_FLAGS), 2);
    CHECK(vm.read<uint32_t>(config, capability + PCI_EXP_DEVCAP) & PCI_EXP_DEVCAP_FLR);
    vm.write<uint32_t>(config, PCI_BASE_ADDRESS_0, 0xfebf0000);
    vm.write<uint16_t>(config, control, PCI_EXP_DEVCTL_RELAX_EN);
    CHECK(!served.device.next_message());
    vm.write<uint16_t>(config, control, PCI_EXP_DEVCTL_RELAX_EN | PCI_EXP_DEVCTL_BCR_FLR);
    CHECK_EQ(vm.read<uint16_t>(config, control), 0);
    CHECK_EQ(vm.read<uint16_t>(config, PCI_COMMAND), 0);
    CHECK_EQ(vm.read<uint32_t>(config, PCI_BASE_ADDRESS_0), 0u);
    CHECK_EQ(vm.get(VRDMA_REG_STATUS), 0u);
    served.device.serve_reset();
}

/* An interrupt informs a driver that has enabled the device; other drivers get none. */
TEST(config_resets_a_device_when_bus_master_is_cleared) {
    const Served served;
    const Vm vm(served.uuid);
    const harness::Fd irq = harness::new_eventfd();
    const int eventfd = irq.get();
    CHECK(vm.set_irqs(VFIO_PCI_MSIX_IRQ_INDEX, 0, {&eventfd, 1}) == 0);
    served.device.serve_reset();
    for (const uint32_t status : {VRDMA_STATUS_READY, VRDMA_STATUS_ENABLED}) {
        served.device.shadow(VRDMA_REG_STATUS) = status;
        vm.command(PCI_COMMAND_MASTER | PCI_COMMAND_MEMORY);
        CHECK(!served.device.next_message());
        vm.command(PCI_COMMAND_MEMORY);
        CHECK_EQ(vm.get(VRDMA_REG_STATUS), 0u);
        CHECK_EQ(harness::signals(irq), status == VRDMA_STATUS_ENABLED ? 1u : 0u);
        served.device.serve_reset();
        vm.command(PCI_COMMAND_MEMORY);
        CHECK(!served.device.next_message());
    }
}

TEST(config_allows_no_device_without_bus_master) {
    const Served served;
    const Vm vm(served.uuid);
    vm.command(0);
    served.device.serve_reset();
    vm.set(VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
    CHECK_EQ(vm.get(VRDMA_REG_STATUS), VRDMA_STATUS_FATAL);
    CHECK(!served.device.next_message());
    vm.set(VRDMA_REG_CONTROL, VRDMA_CONTROL_RESET);
    served.device.serve_reset();
    vm.command(PCI_COMMAND_MASTER);
    vm.set(VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
    CHECK_EQ(served.device.message().type, VRDMA_MDEV_MESSAGE_WRITE);
}

TEST(config_reads_at_any_width) {
    const Served served;
    const Vm vm(served.uuid);
    CHECK_EQ(vm.read<uint8_t>(config, PCI_DEVICE_ID + 1), VRDMA_PCI_DEVICE_ID >> 8);
    CHECK_EQ(vm.read<uint16_t>(config, PCI_VENDOR_ID + 1),
             (VRDMA_PCI_DEVICE_ID & 0xff) << 8 | VRDMA_PCI_VENDOR_ID >> 8);
    char whole[512];
    CHECK_EQ(vm.access(config, 0, whole, sizeof(whole), false), PCI_CFG_SPACE_SIZE);
    CHECK_ERRNO(vm.access(config, PCI_CFG_SPACE_SIZE, whole, 1, false), EINVAL);
}

TEST(device_tells_its_shape) {
    const Served served;
    const Vm vm(served.uuid);
    vfio_device_info info = {};
    info.argsz = sizeof(info);
    CHECK(vm.ioctl_device(VFIO_DEVICE_GET_INFO, &info) == 0);
    CHECK_EQ(info.flags, VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET);
    CHECK_EQ(info.num_regions, VFIO_PCI_NUM_REGIONS);
    CHECK_EQ(info.num_irqs, VFIO_PCI_NUM_IRQS);
    info.argsz = 1;
    CHECK_ERRNO(vm.ioctl_device(VFIO_DEVICE_GET_INFO, &info), EINVAL);
    CHECK_ERRNO(vm.ioctl_device(VFIO_DEVICE_GET_PCI_HOT_RESET_INFO, &info), ENOTTY);
}

TEST(device_tells_its_regions) {
    const Served served;
    const Vm vm(served.uuid);
    constexpr uint32_t rw = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
    CHECK_EQ(vm.region(0).size, VRDMA_BAR0_SIZE);
    CHECK_EQ(vm.region(0).flags, rw);
    CHECK_EQ(vm.region(2).size, doorbells_size);
    CHECK_EQ(vm.region(2).flags, rw | VFIO_REGION_INFO_FLAG_MMAP);
    CHECK_EQ(vm.region(4).size, VRDMA_BAR4_SIZE);
    CHECK_EQ(vm.region(4).flags, rw);
    CHECK_EQ(vm.region(config).size, PCI_CFG_SPACE_SIZE);
    for (const uint32_t none : {1, 3, 5, 6, 8})
        CHECK_EQ(vm.region(none).size, 0u);

    vfio_region_info info = {};
    info.argsz = sizeof(info);
    info.index = VFIO_PCI_NUM_REGIONS;
    CHECK_ERRNO(vm.ioctl_device(VFIO_DEVICE_GET_REGION_INFO, &info), EINVAL);
    info.index = 0;
    info.argsz = 8;
    CHECK_ERRNO(vm.ioctl_device(VFIO_DEVICE_GET_REGION_INFO, &info), EINVAL);
    char byte;
    CHECK_ERRNO(vm.access(1, 0, &byte, 1, false), EINVAL);
    CHECK_ERRNO(pread(vm.device(), &byte, 1, INT64_MAX), EINVAL);
}

/* QEMU serves BAR4: the device has nothing there. */
TEST(device_leaves_the_msix_table_to_qemu) {
    const Served served;
    const Vm vm(served.uuid);
    vm.write<uint32_t>(VRDMA_BAR_MSIX, 0, 0x1234);
    CHECK_EQ(vm.read<uint32_t>(VRDMA_BAR_MSIX, 0), 0u);
}

TEST(doorbells_are_shared) {
    const Served served;
    const Vm vm(served.uuid);
    const auto offset = static_cast<off_t>(vm.region(VRDMA_BAR_DOORBELLS).offset);
    auto* const bar = static_cast<volatile uint8_t*>(
        mmap(nullptr, doorbells_size, PROT_READ | PROT_WRITE, MAP_SHARED, vm.device(), offset));
    CHECK(bar != MAP_FAILED);

    bar[page_size + 5] = 17;
    CHECK_EQ(served.device.doorbells()[page_size + 5], 17);
    served.device.doorbells()[doorbells_size - 1] = 18;
    CHECK_EQ(bar[doorbells_size - 1], 18);
    CHECK_EQ(vm.read<uint8_t>(VRDMA_BAR_DOORBELLS, page_size + 5), 17);
    vm.write<uint32_t>(VRDMA_BAR_DOORBELLS, 64, 0x04030201);
    CHECK_EQ(served.device.doorbells()[66], 3);

    /* Maps a part, from the middle. */
    CHECK(mmap(nullptr, page_size, PROT_READ, MAP_SHARED, vm.device(),
               offset + static_cast<off_t>(page_size)) != MAP_FAILED);
    CHECK(mmap(nullptr, doorbells_size + page_size, PROT_READ, MAP_SHARED, vm.device(), offset) ==
          MAP_FAILED);
    CHECK(mmap(nullptr, page_size, PROT_READ, MAP_PRIVATE, vm.device(), offset) == MAP_FAILED);
    CHECK(mmap(nullptr, page_size, PROT_READ, MAP_SHARED, vm.device(), 0) == MAP_FAILED);
}

/* No data of one VM reaches the next. */
TEST(doorbells_are_clean_for_the_next_vm) {
    const Served served;
    { Vm(served.uuid).write<uint32_t>(VRDMA_BAR_DOORBELLS, 64, 1); }
    const Vm vm(served.uuid);
    CHECK_EQ(vm.read<uint32_t>(VRDMA_BAR_DOORBELLS, 64), 0u);
    CHECK_EQ(served.device.doorbells()[64], 0);
}

TEST(attributes_reach_the_mediator) {
    const Served served("large");
    const std::string path = device_path(served.uuid);
    CHECK_EQ(harness::read_file(path + "/mac"), std::string("00:00:00:00:00:00"));
    CHECK_EQ(harness::read_file(path + "/addresses"), std::string());
    CHECK_EQ(harness::write_file(path + "/mac", "52:54:00:12:34:56\n"), 0);
    CHECK_EQ(harness::write_file(path + "/addresses", "10.0.0.5/32,fd00::/64\n"), 0);
    CHECK_EQ(harness::read_file(path + "/mac"), std::string("52:54:00:12:34:56"));
    CHECK_EQ(harness::read_file(path + "/addresses"), std::string("10.0.0.5/32,fd00::/64"));

    const auto info = served.device.info();
    const uint8_t mac[6] = {0x52, 0x54, 0x00, 0x12, 0x34, 0x56};
    CHECK(std::memcmp(info.mac, mac, sizeof(mac)) == 0);
    CHECK_EQ(std::string(info.addresses), std::string("10.0.0.5/32,fd00::/64"));
    CHECK_EQ(info.type, large_type);
    CHECK_EQ(info.open, 0u);
    const uint8_t uuid_begin[4] = {0x0a, 0x1b, 0x2c, 0x3d};
    CHECK(std::memcmp(info.uuid, uuid_begin, sizeof(uuid_begin)) == 0);
    CHECK_EQ(info.uuid[15], 0xf1);
}

TEST(uplink_reaches_the_mediator) {
    const Served served("large");
    const std::string path = device_path(served.uuid) + "/uplink";
    CHECK_EQ(harness::read_file(path), std::string("wan")); /* the type's */
    CHECK_EQ(served.device.info().uplink_set, 0);
    for (const std::string name : {"eth1.7", "wan"}) {
        CHECK_EQ(harness::write_file(path, name + "\n"), 0);
        CHECK_EQ(harness::read_file(path), name);
        CHECK_EQ(served.device.info().uplink_set, 1);
        CHECK_EQ(std::string(served.device.info().uplink), name);
    }
}

TEST(no_uplink_reaches_the_mediator) {
    const Served served("large");
    const std::string path = device_path(served.uuid) + "/uplink";
    for (const char* none : {"\n", "none", "none\n"}) {
        CHECK_EQ(harness::write_file(path, "wan"), 0);
        CHECK_EQ(harness::write_file(path, none), 0);
        CHECK_EQ(harness::read_file(path), std::string("none"));
        CHECK_EQ(served.device.info().uplink_set, 1);
        CHECK_EQ(std::string(served.device.info().uplink), std::string());
    }
}

TEST(uplink_refuses_bad_text) {
    const Served served;
    const std::string path = device_path(served.uuid) + "/uplink";
    for (const char* name : {"wan\nlan", "wan\n\n", "a/b", "..", "wan ", "\tw", "w\x80"})
        CHECK_EQ(harness::write_file(path, name), EINVAL);
    CHECK_EQ(harness::write_file(path, std::string(VRDMA_MDEV_UPLINK_SIZE, 'a')), EINVAL);
    CHECK_EQ(harness::write_file(path, std::string(page_size - 1, 'a')), EINVAL);
    CHECK_EQ(harness::write_file(path, std::string("wan\0x", 5)), EINVAL);
    for (const char* name : {"eth1", "wa", "wan1", "WAN"})
        CHECK_EQ(harness::write_file(path, name), ENODEV);
    CHECK_EQ(harness::read_file(path), std::string("none"));
    CHECK_EQ(served.device.info().uplink_set, 0);
}

/* The next mediator's uplinks replace the earlier ones; a device keeps the name written for it. */
TEST(uplink_outlives_the_mediator) {
    const std::string path = device_path(test_uuid(1)) + "/uplink";
    const std::string bound = device_path(test_uuid(2)) + "/uplink";
    {
        const Hca hca;
        hca.create("large", test_uuid(1));
        hca.create("large", test_uuid(2));
        CHECK_EQ(harness::write_file(bound, "eth1.7"), 0);
    }
    vrdma_mdev_register spec = test_hca();
    std::strncpy(spec.types[large_type].uplink, "lan", VRDMA_MDEV_UPLINK_SIZE - 1);
    std::strncpy(spec.uplinks[0], "lan", VRDMA_MDEV_UPLINK_SIZE - 1);
    spec.num_uplinks = 1;
    std::memset(spec.uplinks[1], 0, VRDMA_MDEV_UPLINK_SIZE);
    const Hca hca(spec);
    CHECK_EQ(harness::read_file(path), std::string("lan"));
    CHECK_EQ(harness::read_file(bound), std::string("eth1.7"));
    CHECK_EQ(harness::write_file(bound, "eth1.7"), ENODEV);
    CHECK_EQ(harness::write_file(bound, "lan"), 0);
}

TEST(vlans_reach_the_mediator) {
    const Served served;
    const std::string path = device_path(served.uuid) + "/vlans";
    const auto has = [&](uint32_t vlan) {
        return (served.device.info().vlans[vlan / 64] >> vlan % 64 & 1) != 0;
    };
    CHECK_EQ(harness::read_file(path), std::string());
    CHECK_EQ(served.device.info().vlans_set, 0);
    CHECK_EQ(harness::write_file(path, "7,100-102,4094\n"), 0);
    CHECK_EQ(harness::read_file(path), std::string("7,100-102,4094"));
    CHECK_EQ(served.device.info().vlans_set, 1);
    for (uint32_t vlan = 0; vlan < VRDMA_MDEV_VLAN_WORDS * 64; vlan++)
        CHECK_EQ(has(vlan), vlan == 7 || (100 <= vlan && vlan <= 102) || vlan == 4094);
    CHECK_EQ(harness::write_file(path, "none\n"), 0);
    CHECK_EQ(harness::read_file(path), std::string("none"));
    CHECK_EQ(served.device.info().vlans_set, 1);
    CHECK(!has(7));
    CHECK_EQ(harness::write_file(path, "1"), 0);
    CHECK(has(1));
    CHECK_EQ(harness::write_file(path, "\n"), 0);
    CHECK_EQ(harness::read_file(path), std::string());
    CHECK_EQ(served.device.info().vlans_set, 0);
    CHECK(!has(1));
}

TEST(vlans_refuse_bad_text) {
    const Served served;
    const std::string path = device_path(served.uuid) + "/vlans";
    CHECK_EQ(harness::write_file(path, "7"), 0);
    CHECK_EQ(harness::write_file(path, "0"), ERANGE);
    CHECK_EQ(harness::write_file(path, "0-7"), ERANGE);
    CHECK_EQ(harness::write_file(path, "4095"), ERANGE);
    CHECK_EQ(harness::write_file(path, "seven"), EINVAL);
    CHECK_EQ(harness::write_file(path, ","), EINVAL);
    CHECK_EQ(harness::write_file(path, "9-8"), EINVAL);
    CHECK_EQ(harness::write_file(path, "7\n8\n"), EINVAL);
    CHECK_EQ(harness::read_file(path), std::string("7"));
}

constexpr const char* share_names[VRDMA_MDEV_SHARE_VALUES] = {"weight", "max_bytes_per_second",
                                                              "max_operations_per_second"};

/* Each value can be set alone, while a VM has the device; an empty line resets it. */
TEST(share_reaches_the_mediator) {
    const Served served;
    const Vm vm(served.uuid);
    served.device.serve_reset();
    for (uint32_t which = 0; which < VRDMA_MDEV_SHARE_VALUES; which++) {
        const std::string path = device_path(served.uuid) + "/" + share_names[which];
        CHECK_EQ(harness::read_file(path), std::string());
        CHECK_EQ(harness::write_file(path, "4321\n"), 0);
        CHECK_EQ(harness::read_file(path), std::string("4321"));
        CHECK_EQ(served.device.message().type, VRDMA_MDEV_MESSAGE_SHARE);
        CHECK(!served.device.next_message());
        CHECK_EQ(served.device.info().share.set, 1u << which);
        CHECK_EQ(served.device.info().share.values[which], 4321u);
        CHECK_EQ(harness::write_file(path, "\n"), 0);
        CHECK_EQ(harness::read_file(path), std::string());
        CHECK_EQ(served.device.message().type, VRDMA_MDEV_MESSAGE_SHARE);
        CHECK_EQ(served.device.info().share.set, 0u);
    }
}

/*
 * The mediator gets one message after several writes, before all others; a reset does not change
 * it.
 */
TEST(share_is_told_of_once) {
    const Served served;
    const Vm vm(served.uuid);
    const std::string path = device_path(served.uuid) + "/weight";
    CHECK_EQ(harness::write_file(path, "1"), 0);
    CHECK_EQ(harness::write_file(path, "10000"), 0);
    CHECK_EQ(served.device.message().type, VRDMA_MDEV_MESSAGE_SHARE);
    CHECK_EQ(served.device.message().type, VRDMA_MDEV_MESSAGE_RESET);
    CHECK(!served.device.next_message());
    CHECK_EQ(served.device.info().share.values[VRDMA_MDEV_SHARE_WEIGHT], 10000u);
}

TEST(share_refuses_bad_text) {
    const Served served;
    const std::string path = device_path(served.uuid) + "/";
    for (const char* name : share_names) {
        for (const char* text : {"-1", "x", "1 2", "1\n2", "0x10", "1.5", " "})
            CHECK_EQ(harness::write_file(path + name, text), EINVAL);
        CHECK_EQ(harness::write_file(path + name, "18446744073709551616"), ERANGE);
    }
    for (const char* text : {"0", "10001"})
        CHECK_EQ(harness::write_file(path + "weight", text), ERANGE);
    CHECK_EQ(harness::write_file(path + "max_bytes_per_second", "0"), 0);
    CHECK_EQ(harness::write_file(path + "max_operations_per_second", "18446744073709551615"), 0);
    CHECK_EQ(served.device.info().share.set,
             1u << VRDMA_MDEV_SHARE_MAX_BYTES | 1u << VRDMA_MDEV_SHARE_MAX_OPERATIONS);
}

TEST(attributes_refuse_bad_text) {
    const Served served;
    const std::string path = device_path(served.uuid);
    for (const char* mac : {"", "52:54:00:12:34", "52:54:00:12:34:5g", "01:00:5e:00:00:01",
                            "52:54:00:12:34:56:78", "52:54:00:12:34:56 x"})
        CHECK_EQ(harness::write_file(path + "/mac", mac), *mac ? EINVAL : 0); /* "" is no write */
    CHECK_EQ(harness::write_file(path + "/addresses", "10.0.0.1\n10.0.0.2\n"), EINVAL);
    CHECK_EQ(harness::write_file(path + "/addresses", "$(reboot)"), EINVAL);
    CHECK_EQ(harness::write_file(path + "/addresses", std::string(VRDMA_MDEV_ADDRESSES_SIZE, '1')),
             EINVAL);
    CHECK_EQ(
        harness::write_file(path + "/addresses", std::string(VRDMA_MDEV_ADDRESSES_SIZE - 1, '1')),
        0);
}

TEST(attributes_are_fixed_while_a_vm_runs) {
    const Served served;
    const std::string path = device_path(served.uuid);
    {
        const Vm vm(served.uuid);
        CHECK_EQ(harness::write_file(path + "/mac", "52:54:00:12:34:56"), EBUSY);
        CHECK_EQ(harness::write_file(path + "/addresses", "10.0.0.1"), EBUSY);
        CHECK_EQ(harness::write_file(path + "/uplink", "wan"), EBUSY);
        CHECK_EQ(harness::write_file(path + "/vlans", "7"), EBUSY);
    }
    CHECK_EQ(harness::write_file(path + "/mac", "52:54:00:12:34:56"), 0);
    CHECK_EQ(harness::write_file(path + "/addresses", "\n"), 0);
    CHECK_EQ(harness::write_file(path + "/uplink", "wan"), 0);
    CHECK_EQ(harness::write_file(path + "/vlans", "7"), 0);
}
