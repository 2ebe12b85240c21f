// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "vm.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "mediator.h"

Ram::Ram(uint64_t size)
    : size_(size),
      memory_(static_cast<char*>(
          mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    CHECK(memory_ != MAP_FAILED);
}

Ram::~Ram() {
    munmap(memory_, size_);
}

Vm::Vm(const std::string& uuid)
    : container_(open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC)),
      group_(open(
          ("/dev/vfio/" +
           std::filesystem::read_symlink(device_path(uuid) + "/iommu_group").filename().string())
              .c_str(),
          O_RDWR | O_CLOEXEC)) {
    CHECK(container_.get() >= 0);
    CHECK(group_.get() >= 0);
    const int container = container_.get();
    CHECK(ioctl(group_.get(), VFIO_GROUP_SET_CONTAINER, &container) == 0);
    CHECK(ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU) == 0);
    device_ = harness::Fd(ioctl(group_.get(), VFIO_GROUP_GET_DEVICE_FD, uuid.c_str()));
    CHECK(device_.get() >= 0);
    command(PCI_COMMAND_MASTER);
}

int Vm::reset() const {
    const int ret = ioctl_device(VFIO_DEVICE_RESET, nullptr);
    command(PCI_COMMAND_MASTER);
    return ret;
}

int Vm::map(uint64_t iova, const void* memory, uint64_t size, uint32_t flags) const {
    vfio_iommu_type1_dma_map map = {sizeof(map), flags, reinterpret_cast<uintptr_t>(memory), iova,
                                    size};
    return ioctl(container_.get(), VFIO_IOMMU_MAP_DMA, &map);
}

int Vm::unmap(uint64_t iova, uint64_t size) const {
    vfio_iommu_type1_dma_unmap unmap = {};
    unmap.argsz = sizeof(unmap);
    unmap.iova = iova;
    unmap.size = size;
    return ioctl(container_.get(), VFIO_IOMMU_UNMAP_DMA, &unmap);
}

int Vm::ioctl_device(unsigned long request, void* argument) const {
    return ioctl(device(), request, argument);
}

int Vm::ioctl_container(unsigned long request, void* argument) const {
    return ioctl(container_.get(), request, argument);
}

vfio_region_info Vm::region(uint32_t index) const {
    vfio_region_info info = {};
    info.argsz = sizeof(info);
    info.index = index;
    CHECK(ioctl_device(VFIO_DEVICE_GET_REGION_INFO, &info) == 0);
    return info;
}

ssize_t Vm::access(uint32_t index, uint64_t offset, void* data, size_t size, bool write) const {
    const auto position = static_cast<off_t>(region(index).offset + offset);
    return write ? pwrite(device(), data, size, position) : pread(device(), data, size, position);
}

int Vm::set_irqs(uint32_t index, uint32_t start, std::span<const int> eventfds) const {
    std::vector<char> bytes(sizeof(vfio_irq_set) + eventfds.size_bytes());
    auto* const set = reinterpret_cast<vfio_irq_set*>(bytes.data());
    *set = {static_cast<uint32_t>(bytes.size()),
            VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER, index, start,
            static_cast<uint32_t>(eventfds.size())};
    std::copy(eventfds.begin(), eventfds.end(), reinterpret_cast<int*>(set->data));
    return ioctl_device(VFIO_DEVICE_SET_IRQS, set);
}

int Vm::irq_action(uint32_t index, uint32_t flags, uint32_t start, uint32_t count) const {
    vfio_irq_set set = {sizeof(set), flags, index, start, count};
    return ioctl_device(VFIO_DEVICE_SET_IRQS, &set);
}
