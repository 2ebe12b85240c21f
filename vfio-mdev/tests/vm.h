/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The VM's side: a VFIO user like QEMU, with its own memory.
 */
#ifndef VRDMA_VFIO_MDEV_TESTS_VM_H
#define VRDMA_VFIO_MDEV_TESTS_VM_H

#include <linux/pci_regs.h>
#include <linux/vfio.h>

#include <cstdint>
#include <span>
#include <string>

#include "harness.h"
#include "vrdma/device.h"

/* Shared memory, zeroed, such as a VM's RAM. */
class Ram {
  public:
    explicit Ram(uint64_t size);
    Ram(const Ram&) = delete;
    Ram& operator=(const Ram&) = delete;
    ~Ram();
    char* get() const { return memory_; }
    uint64_t size() const { return size_; }
    template <typename T>
    volatile T& at(uint64_t offset) const {
        return *reinterpret_cast<volatile T*>(memory_ + offset);
    }

  private:
    uint64_t size_;
    char* memory_;
};

class Vm {
  public:
    explicit Vm(const std::string& uuid);
    int device() const { return device_.get(); }

    int map(uint64_t iova, const void* memory, uint64_t size,
            uint32_t flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE) const;
    int unmap(uint64_t iova, uint64_t size) const;
    /* Resets the device, then lets it access memory again, as a driver does when it starts. */
    int reset() const;
    /* Writes the Command register. */
    void command(uint16_t value) const { write(VFIO_PCI_CONFIG_REGION_INDEX, PCI_COMMAND, value); }
    int ioctl_device(unsigned long request, void* argument) const;
    int ioctl_container(unsigned long request, void* argument) const;
    vfio_region_info region(uint32_t index) const;

    template <typename T>
    T read(uint32_t region, uint64_t offset) const {
        T value = {};
        CHECK_EQ(access(region, offset, &value, sizeof(value), false),
                 static_cast<ssize_t>(sizeof(value)));
        return value;
    }
    template <typename T>
    void write(uint32_t region, uint64_t offset, T value) const {
        CHECK_EQ(access(region, offset, &value, sizeof(value), true),
                 static_cast<ssize_t>(sizeof(value)));
    }
    ssize_t access(uint32_t region, uint64_t offset, void* data, size_t size, bool write) const;
    uint32_t get(uint32_t reg) const { return read<uint32_t>(VRDMA_BAR_REGISTERS, reg); }
    void set(uint32_t reg, uint32_t value) const { write(VRDMA_BAR_REGISTERS, reg, value); }

    int set_irqs(uint32_t index, uint32_t start, std::span<const int> eventfds) const;
    int irq_action(uint32_t index, uint32_t flags, uint32_t start, uint32_t count) const;

  private:
    harness::Fd container_;
    harness::Fd group_;
    harness::Fd device_;
};

#endif /* VRDMA_VFIO_MDEV_TESTS_VM_H */
