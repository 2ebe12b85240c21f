// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// One mediated device. Passes the module's messages to the device model, and the device model's
// requests to the module.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "mediator/base/event_fd.h"
#include "mediator/base/mapping.h"
#include "mediator/device/host_port.h"
#include "mediator/frontend/host.h"
#include "mediator/frontend/mdev/migration.h"
#include "mediator/frontend/mdev/window_memory.h"

namespace vrdma::mdev {

class MdevDevice final : public HostPort {
  public:
    static Result<std::unique_ptr<MdevDevice>> open(const Host& host, UniqueFd fd);
    MdevDevice(const MdevDevice&) = delete;
    MdevDevice& operator=(const MdevDevice&) = delete;
    ~MdevDevice() override = default;

    Device& device() noexcept { return *device_; }
    const std::string& name() const noexcept { return device_->name(); }

    // At the end of a vrdmad: freezes the device, saves it, and leaves it to the next vrdmad. Each
    // step is for all devices: they talk to each other, and are not awaited for long.
    void freeze();
    Result<> save();
    Result<> hand_over();

    // Restores what the vrdmad before has left, and continues it, if it has left this device. After
    // a failure the device is of no use.
    Result<> take_over();
    void resume();

    // Sets the share from the device's attributes and its type, both of which may have changed.
    void give_share();

    std::span<std::uint32_t> registers() noexcept override;
    std::span<vrdma_doorbell_page> doorbells() noexcept override;
    GuestMemory& memory() noexcept override { return *memory_; }
    int kick_fd() const noexcept override { return kick_.fd(); }
    void raise(unsigned vector) noexcept override;
    void wake() noexcept override { wake_.signal(); }
    bool keeps_doorbells() const noexcept override { return true; } // they are messages
    Activity* activity() noexcept override { return activity_; }

  private:
    MdevDevice(const DeviceType& type, UniqueFd fd, EventFd kick, EventFd wake, Mapping shadow,
               Mapping doorbells, std::unique_ptr<WindowMemory> memory);

    Result<> start(const Host& host, const vrdma_mdev_device_info& info);
    void on_messages(std::uint32_t epoll_events);
    void on_message(const vrdma_mdev_message& message);
    void on_write(const vrdma_mdev_message& message);
    void on_reset(std::uint32_t generation);
    void on_revoked(std::uint64_t first_page, std::uint64_t last_page);
    void on_step(std::uint32_t step, std::uint32_t number);
    void read_identity();

    const DeviceType& type_;
    UniqueFd fd_;
    EventFd kick_;
    EventFd wake_;
    Mapping shadow_;
    Mapping doorbells_;
    std::unique_ptr<WindowMemory> memory_;
    Activity* activity_ = nullptr;
    std::optional<Device> device_;
    std::optional<Migration> migration_;
    UniqueFd saved_;          // for the next vrdmad
    bool taken_over_ = false; // and not resumed yet
    EventLoop::Watch messages_;
    EventLoop::Watch turns_;
};

} // namespace vrdma::mdev
