// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "logging.h"

#include <cerrno>
#include <cstring>

#include "mediator.h"

namespace {

template <typename Argument>
int ask(const Vm& vm, uint32_t what, const Argument& argument) {
    alignas(vfio_device_feature) char bytes[sizeof(vfio_device_feature) + sizeof(Argument)] = {};
    auto* const feature = reinterpret_cast<vfio_device_feature*>(bytes);
    feature->argsz = sizeof(bytes);
    feature->flags = what;
    memcpy(feature->data, &argument, sizeof(argument));
    return vm.ioctl_device(VFIO_DEVICE_FEATURE, feature) == 0 ? 0 : errno;
}

} // namespace

void need_log(const Vm& vm) {
    vfio_device_feature feature = {};
    feature.argsz = sizeof(feature);
    feature.flags =
        VFIO_DEVICE_FEATURE_PROBE | VFIO_DEVICE_FEATURE_SET | VFIO_DEVICE_FEATURE_DMA_LOGGING_START;
    harness::need(vm.ioctl_device(VFIO_DEVICE_FEATURE, &feature) == 0, "log of writes");
}

int start_log(const Vm& vm, uint64_t iova, uint64_t size) {
    vfio_device_feature_dma_logging_range range = {iova, size};
    vfio_device_feature_dma_logging_control control = {};
    control.page_size = page_size;
    control.num_ranges = 1;
    control.ranges = reinterpret_cast<uintptr_t>(&range);
    return ask(vm, VFIO_DEVICE_FEATURE_SET | VFIO_DEVICE_FEATURE_DMA_LOGGING_START, control);
}

int stop_log(const Vm& vm) {
    vfio_device_feature feature = {};
    feature.argsz = sizeof(feature);
    feature.flags = VFIO_DEVICE_FEATURE_SET | VFIO_DEVICE_FEATURE_DMA_LOGGING_STOP;
    return vm.ioctl_device(VFIO_DEVICE_FEATURE, &feature) == 0 ? 0 : errno;
}

int report_log(const Vm& vm, uint64_t iova, uint64_t size, std::vector<uint64_t>& pages) {
    pages.resize((size / page_size + 63) / 64);
    vfio_device_feature_dma_logging_report report = {};
    report.iova = iova;
    report.length = size;
    report.page_size = page_size;
    report.bitmap = reinterpret_cast<uintptr_t>(pages.data());
    return ask(vm, VFIO_DEVICE_FEATURE_GET | VFIO_DEVICE_FEATURE_DMA_LOGGING_REPORT, report);
}

uint64_t logged_pages(const Vm& vm, uint64_t iova, uint64_t size) {
    std::vector<uint64_t> pages;
    CHECK_EQ(report_log(vm, iova, size, pages), 0);
    CHECK_EQ(pages.size(), 1u);
    return pages.front();
}
