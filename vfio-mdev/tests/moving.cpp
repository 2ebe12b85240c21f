// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "moving.h"

#include <poll.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>

Moved set_state(const Vm& vm, uint32_t state) {
    alignas(vfio_device_feature) char
        bytes[sizeof(vfio_device_feature) + sizeof(vfio_device_feature_mig_state)] = {};
    auto* const feature = reinterpret_cast<vfio_device_feature*>(bytes);
    feature->argsz = sizeof(bytes);
    feature->flags = VFIO_DEVICE_FEATURE_SET | VFIO_DEVICE_FEATURE_MIG_DEVICE_STATE;
    auto* const mig = reinterpret_cast<vfio_device_feature_mig_state*>(feature->data);
    mig->device_state = state;
    mig->data_fd = -1;
    if (vm.ioctl_device(VFIO_DEVICE_FEATURE, feature) != 0)
        return {errno, {}};
    return {0, harness::Fd(mig->data_fd)};
}

uint32_t get_state(const Vm& vm) {
    alignas(vfio_device_feature) char
        bytes[sizeof(vfio_device_feature) + sizeof(vfio_device_feature_mig_state)] = {};
    auto* const feature = reinterpret_cast<vfio_device_feature*>(bytes);
    feature->argsz = sizeof(bytes);
    feature->flags = VFIO_DEVICE_FEATURE_GET | VFIO_DEVICE_FEATURE_MIG_DEVICE_STATE;
    CHECK(vm.ioctl_device(VFIO_DEVICE_FEATURE, feature) == 0);
    return reinterpret_cast<vfio_device_feature_mig_state*>(feature->data)->device_state;
}

uint64_t state_size_of(const Vm& vm) {
    alignas(vfio_device_feature) char bytes[sizeof(vfio_device_feature) + sizeof(uint64_t)] = {};
    auto* const feature = reinterpret_cast<vfio_device_feature*>(bytes);
    feature->argsz = sizeof(bytes);
    feature->flags = VFIO_DEVICE_FEATURE_GET | mig_data_size;
    CHECK(vm.ioctl_device(VFIO_DEVICE_FEATURE, feature) == 0);
    uint64_t size = 0;
    memcpy(&size, feature->data, sizeof(size));
    return size;
}

int step_done(const Device& device, uint32_t number, uint32_t error) {
    const vrdma_mdev_step_done done = {number, error};
    return ioctl(device.fd(), VRDMA_MDEV_STEP_DONE, &done);
}

int open_transfer(const Device& device) {
    return ioctl(device.fd(), VRDMA_MDEV_TRANSFER);
}

int end_transfer(const harness::Fd& end, unsigned long error) {
    return ioctl(end.get(), VRDMA_MDEV_TRANSFER_END, error);
}

std::vector<char> test_state() {
    std::vector<char> bytes(state_size);
    for (size_t i = 0; i < bytes.size(); i++)
        bytes[i] = static_cast<char>(i * 7 + i / 4096);
    return bytes;
}

void write_all(const harness::Fd& end, const std::vector<char>& bytes) {
    for (size_t done = 0; done < bytes.size();) {
        const ssize_t written = write(end.get(), bytes.data() + done, bytes.size() - done);
        if (written < 0) {
            CHECK_EQ(errno, EAGAIN);
            harness::await(end.get(), POLLOUT);
        } else {
            done += static_cast<size_t>(written);
        }
    }
}

std::vector<char> read_all(const harness::Fd& end) {
    std::vector<char> bytes;
    char piece[10000];
    for (;;) {
        const ssize_t length = read(end.get(), piece, sizeof(piece));
        if (length == 0)
            return bytes;
        if (length < 0) {
            CHECK_EQ(errno, EAGAIN);
            harness::await(end.get(), POLLIN);
        } else {
            bytes.insert(bytes.end(), piece, piece + length);
        }
    }
}
