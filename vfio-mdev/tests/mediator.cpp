// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

namespace {

constexpr int test_uuids = 8;

vrdma_mdev_type test_type(const char* name, const char* description, uint64_t pinned_pages) {
    vrdma_mdev_type type = {};
    std::strncpy(type.name, name, sizeof(type.name) - 1);
    std::strncpy(type.description, description, sizeof(type.description) - 1);
    type.max_instances = small_instances;
    type.doorbell_pages = small_doorbell_pages;
    type.vectors = small_vectors;
    type.max_pinned = pinned_pages * page_size;
    return type;
}

template <typename T>
T* map(int fd, uint64_t offset, uint64_t size, int protection = PROT_READ | PROT_WRITE) {
    void* const memory =
        mmap(nullptr, size, protection, MAP_SHARED, fd, static_cast<off_t>(offset));
    CHECK(memory != MAP_FAILED);
    return static_cast<T*>(memory);
}

} // namespace

vrdma_mdev_register test_hca() {
    vrdma_mdev_register spec = {};
    spec.abi_version = VRDMA_MDEV_ABI_VERSION;
    spec.num_types = 3;
    std::strncpy(spec.name, "vrdmatest", sizeof(spec.name) - 1);
    spec.types[small_type] = test_type("small", "small for tests", small_pinned_pages);
    spec.types[large_type] = test_type("large", "large for tests", large_pinned_pages);
    spec.types[pvrdma_type] = test_type("pvrdma", "VMware's", small_pinned_pages);
    spec.types[pvrdma_type].personality = VRDMA_MDEV_PERSONALITY_PVRDMA;
    std::strncpy(spec.types[large_type].uplink, "wan", VRDMA_MDEV_UPLINK_SIZE - 1);
    spec.num_uplinks = 2;
    std::strncpy(spec.uplinks[0], "wan", VRDMA_MDEV_UPLINK_SIZE - 1);
    std::strncpy(spec.uplinks[1], "eth1.7", VRDMA_MDEV_UPLINK_SIZE - 1);
    return spec;
}

std::string hca_path() {
    return "/sys/class/mdev_bus/vrdmatest";
}

std::string type_path(const char* type) {
    return hca_path() + "/mdev_supported_types/vrdma-" + type;
}

std::string device_path(const std::string& uuid) {
    return "/sys/bus/mdev/devices/" + uuid;
}

bool exists(const std::string& path) {
    struct stat status;
    return stat(path.c_str(), &status) == 0;
}

std::string test_uuid(int number) {
    return "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f" + std::to_string(number);
}

void remove_test_devices() {
    for (int i = 0; i < test_uuids; i++)
        if (exists(device_path(test_uuid(i))))
            remove_device(test_uuid(i));
    harness::await([] { return !exists(hca_path()); }, "the test's HCA is gone");
}

Hca::Hca(const vrdma_mdev_register& spec) : fd_(open(VRDMA_MDEV_PATH, O_RDWR | O_CLOEXEC)) {
    CHECK(fd_.get() >= 0);
    CHECK(ioctl(fd_.get(), VRDMA_MDEV_REGISTER, &spec) == 0);
}

std::optional<vrdma_mdev_event> Hca::next_event() const {
    vrdma_mdev_event event;
    const ssize_t length = read(fd_.get(), &event, sizeof(event));
    if (length < 0) {
        CHECK_EQ(errno, EAGAIN);
        return std::nullopt;
    }
    CHECK_EQ(length, sizeof(event));
    return event;
}

uint32_t Hca::added() const {
    const auto event = next_event();
    CHECK(event);
    CHECK_EQ(event->type, VRDMA_MDEV_DEVICE_ADDED);
    return event->device;
}

uint32_t Hca::create(const char* type, const std::string& uuid) const {
    CHECK_EQ(create_device(type, uuid), 0);
    return added();
}

int create_device(const char* type, const std::string& uuid) {
    return harness::write_file(type_path(type) + "/create", uuid);
}

int remove_device(const std::string& uuid) {
    return harness::write_file(device_path(uuid) + "/remove", "1");
}

uint64_t pinned(const std::string& uuid) {
    return std::stoull(harness::read_file(device_path(uuid) + "/pinned"));
}

Device::Device(const Hca& hca, uint32_t id) : doorbells_size_(small_doorbell_pages * page_size) {
    vrdma_mdev_open_device open = {id, -1};
    CHECK(ioctl(hca.fd(), VRDMA_MDEV_OPEN_DEVICE, &open) == 0);
    fd_ = harness::Fd(open.fd);
    shadow_ = map<uint32_t>(open.fd, VRDMA_MDEV_MMAP_SHADOW, page_size);
    info_ = map<const vrdma_mdev_info_page>(open.fd, VRDMA_MDEV_MMAP_INFO, page_size, PROT_READ);
    doorbells_ = map<uint8_t>(open.fd, VRDMA_MDEV_MMAP_DOORBELLS, doorbells_size_);
    window_ = map<char>(open.fd, VRDMA_MDEV_MMAP_WINDOW, VRDMA_MDEV_WINDOW_SIZE);
}

Device::~Device() {
    munmap(const_cast<uint32_t*>(shadow_), page_size);
    munmap(const_cast<vrdma_mdev_info_page*>(info_), page_size);
    munmap(const_cast<uint8_t*>(doorbells_), doorbells_size_);
    munmap(window_, VRDMA_MDEV_WINDOW_SIZE);
}

std::optional<vrdma_mdev_message> Device::next_message() const {
    vrdma_mdev_message message;
    const ssize_t length = read(fd(), &message, sizeof(message));
    if (length < 0) {
        CHECK_EQ(errno, EAGAIN);
        return std::nullopt;
    }
    CHECK_EQ(length, sizeof(message));
    return message;
}

vrdma_mdev_message Device::message() const {
    const auto next = next_message();
    CHECK(next);
    return *next;
}

vrdma_mdev_device_info Device::info() const {
    vrdma_mdev_device_info info;
    CHECK(ioctl(fd(), VRDMA_MDEV_DEVICE_INFO, &info) == 0);
    return info;
}

int Device::reset_done(uint32_t generation) const {
    const vrdma_mdev_reset_done done = {generation, 0};
    return ioctl(fd(), VRDMA_MDEV_RESET_DONE, &done);
}

uint32_t Device::serve_reset() const {
    const auto reset = message();
    CHECK_EQ(reset.type, VRDMA_MDEV_MESSAGE_RESET);
    CHECK(reset_done(reset.value) == 0);
    return reset.value;
}

int Device::raise(unsigned long vector) const {
    return ioctl(fd(), VRDMA_MDEV_RAISE, vector);
}

int Device::set_kick(int eventfd) const {
    const vrdma_mdev_kick kick = {eventfd, 0};
    return ioctl(fd(), VRDMA_MDEV_SET_KICK, &kick);
}

int Device::unpin(uint64_t iova, uint64_t length) const {
    const vrdma_mdev_range range = {iova, length};
    return ioctl(fd(), VRDMA_MDEV_UNPIN, &range);
}

Served::Served(const char* type, int number)
    : uuid(test_uuid(number)), device(hca, hca.create(type, uuid)) {}

/* The VM may not have mapped its memory yet. */
void Served::await_vm(uint64_t iova) const {
    harness::await([&] { return device.info().open == 1; }, "the VM runs");
    device.serve_reset();
    harness::await(
        [&] {
            device.unpin(iova, page_size);
            device.window<uint32_t>(iova) = 1;
            return pinned(uuid) != 0;
        },
        "the VM's memory is there");
}
