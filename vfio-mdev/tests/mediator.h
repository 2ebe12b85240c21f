/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The mediator's side: an HCA, its devices in sysfs, and a device that the mediator serves.
 */
#ifndef VRDMA_VFIO_MDEV_TESTS_MEDIATOR_H
#define VRDMA_VFIO_MDEV_TESTS_MEDIATOR_H

#include <cstdint>
#include <optional>
#include <string>

#include "harness.h"
#include "vrdma/device.h"
#include "vrdma/mdev.h"

/*
 * The HCA "vrdmatest" with the types "small" (few pages may be pinned), "large", and "pvrdma", for
 * VMware's device. Its uplinks are "wan", the default of the type "large", and "eth1.7".
 */
constexpr uint32_t small_type = 0;
constexpr uint32_t large_type = 1;
constexpr uint32_t pvrdma_type = 2;
constexpr uint32_t small_instances = 2;
constexpr uint32_t small_vectors = 4;
constexpr uint32_t small_doorbell_pages = 4;
constexpr uint64_t small_pinned_pages = 16;
constexpr uint64_t large_pinned_pages = 4096;
constexpr uint64_t page_size = 4096;

vrdma_mdev_register test_hca();
std::string hca_path();
std::string type_path(const char* type);
std::string device_path(const std::string& uuid);
bool exists(const std::string& path);
/* A UUID for each small number. */
std::string test_uuid(int number);
/* Removes all devices that a test left behind. */
void remove_test_devices();

class Hca {
  public:
    explicit Hca(const vrdma_mdev_register& spec = test_hca());
    int fd() const { return fd_.get(); }
    void close() { fd_.close(); }
    std::optional<vrdma_mdev_event> next_event() const;
    /* The id of the next device, which must be an added one. */
    uint32_t added() const;
    /* Creates a device and returns its id. */
    uint32_t create(const char* type, const std::string& uuid) const;

  private:
    harness::Fd fd_;
};

int create_device(const char* type, const std::string& uuid);
int remove_device(const std::string& uuid);
uint64_t pinned(const std::string& uuid);

class Device {
  public:
    Device(const Hca& hca, uint32_t id);
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    ~Device();

    int fd() const { return fd_.get(); }
    std::optional<vrdma_mdev_message> next_message() const;
    vrdma_mdev_message message() const;
    vrdma_mdev_device_info info() const;
    int reset_done(uint32_t generation) const;
    /* Takes a RESET, which must be next, and acknowledges it. Returns its generation. */
    uint32_t serve_reset() const;
    int raise(unsigned long vector) const;
    int set_kick(int eventfd) const;
    int unpin(uint64_t iova, uint64_t length) const;

    volatile uint32_t& shadow(uint32_t offset) const { return shadow_[offset / sizeof(uint32_t)]; }
    volatile uint8_t* doorbells() const { return doorbells_; }
    template <typename T>
    volatile T& window(uint64_t iova) const {
        return *reinterpret_cast<volatile T*>(window_ + iova);
    }
    char* window() const { return window_; }
    const volatile vrdma_mdev_info_page& counters() const { return *info_; }

  private:
    harness::Fd fd_;
    size_t doorbells_size_;
    volatile uint32_t* shadow_;
    volatile uint8_t* doorbells_;
    char* window_;
    const vrdma_mdev_info_page* info_;
};

/* A device that is created and opened, as most tests need it. */
struct Served {
    explicit Served(const char* type = "small", int number = 1);
    /* Returns when a VM of another process runs and has memory there, which is pinned then. */
    void await_vm(uint64_t iova) const;
    std::string uuid;
    Hca hca;
    Device device;
};

#endif /* VRDMA_VFIO_MDEV_TESTS_MEDIATOR_H */
