// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/mdev/mdev_frontend.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>

#include "mediator/device/out_of_memory.h"
#include "mediator/frontend/mdev/registration.h"

namespace vrdma::mdev {
namespace {

Result<UniqueFd> open_device(int frontend, std::uint32_t id) {
    vrdma_mdev_open_device open{id, -1};
    if (::ioctl(frontend, VRDMA_MDEV_OPEN_DEVICE, &open) != 0) {
        return fail_errno();
    }
    return UniqueFd{open.fd};
}

} // namespace

Result<std::unique_ptr<MdevFrontend>> MdevFrontend::open(const Host& host, const std::string& name,
                                                         std::span<const std::string> uplinks) {
    const auto request = registration(name, host.types, uplinks);
    if (!request) {
        return fail(request.error());
    }
    UniqueFd fd{::open(VRDMA_MDEV_PATH, O_RDWR | O_CLOEXEC | O_NONBLOCK)};
    if (!fd || ::ioctl(fd.get(), VRDMA_MDEV_REGISTER, &*request) != 0) {
        return fail_errno();
    }
    std::unique_ptr<MdevFrontend> frontend{new MdevFrontend{host, std::move(fd)}};
    auto events = host.loop.watch(frontend->fd_.get(),
                                  [self = frontend.get()](std::uint32_t) { self->on_event(); });
    if (!events) {
        return fail(events.error());
    }
    frontend->events_ = std::move(*events);
    frontend->take_over();
    if (host.gathering != nullptr) {
        frontend->resumes_ = host.gathering->hold([self = frontend.get()] { self->resume(); });
    } else {
        frontend->resume();
    }
    return frontend;
}

// The module has an event ready for each device that exists. They are opened first, because the
// module does not await a device's new vrdmad for long. They continue together: a device would look
// for its peers on this host in vain as long as these are not there. A device that cannot continue
// has failed, and begins anew when it is opened again.
void MdevFrontend::take_over() {
    while (on_event()) {
    }
    std::vector<std::uint32_t> failed;
    for (const auto& [id, device] : devices_) {
        const auto taken =
            with_what_memory_there_is([&device = device] { return device->take_over(); });
        if (!taken) {
            spdlog::warn("{}: cannot continue: {}", device->name(), describe(taken.error()));
            failed.push_back(id);
        }
    }
    for (const std::uint32_t id : failed) {
        devices_.erase(id);
        add(id);
    }
}

void MdevFrontend::resume() {
    for (const auto& [id, device] : devices_) {
        device->resume();
    }
}

void MdevFrontend::freeze() {
    resumes_.happen();
    for (const auto& [id, device] : devices_) {
        device->freeze();
    }
}

void MdevFrontend::hand_over() {
    const auto all = [&](Result<> (MdevDevice::*step)()) {
        for (const auto& [id, device] : devices_) {
            const auto taken =
                with_what_memory_there_is([&device = device, step] { return (*device.*step)(); });
            if (!taken) {
                spdlog::warn("{}: fails, as it cannot be handed over: {}", device->name(),
                             describe(taken.error()));
            }
        }
    };
    all(&MdevDevice::save);
    all(&MdevDevice::hand_over);
}

std::vector<Device*> MdevFrontend::devices() const {
    std::vector<Device*> devices;
    devices.reserve(devices_.size());
    for (const auto& [id, device] : devices_) {
        devices.push_back(&device->device());
    }
    return devices;
}

void MdevFrontend::give_shares() {
    for (const auto& [id, device] : devices_) {
        device->give_share();
    }
}

// Returns whether there was an event.
bool MdevFrontend::on_event() {
    vrdma_mdev_event event{};
    if (::read(fd_.get(), &event, sizeof(event)) != static_cast<ssize_t>(sizeof(event))) {
        return false;
    }
    if (event.type == VRDMA_MDEV_DEVICE_ADDED) {
        add(event.device);
    } else if (const auto found = devices_.find(event.device); found != devices_.end()) {
        spdlog::info("{}: removed", found->second->name());
        devices_.erase(found);
    }
    return true;
}

void MdevFrontend::add(std::uint32_t id) {
    const auto served = with_what_memory_there_is([&] { return serve(id); });
    if (!served) {
        spdlog::error("cannot serve mediated device {}: {}", id, describe(served.error()));
    }
}

Result<> MdevFrontend::serve(std::uint32_t id) {
    auto fd = open_device(fd_.get(), id);
    if (!fd) {
        return fail(fd.error());
    }
    auto device = MdevDevice::open(host_, std::move(*fd));
    if (!device) {
        return fail(device.error());
    }
    spdlog::info("{}: added", (*device)->name());
    devices_[id] = std::move(*device);
    return {};
}

} // namespace vrdma::mdev
