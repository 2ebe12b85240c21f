// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The PCI function that a client sees: configuration space, BARs and interrupts in front of the
// device model. For an mdev, the kernel module provides these.
#pragma once

#include <optional>
#include <vector>

#include "mediator/base/event_fd.h"
#include "mediator/base/log.h"
#include "mediator/base/mapping.h"
#include "mediator/frontend/host.h"
#include "mediator/frontend/vfio_user/client_memory.h"
#include "mediator/frontend/vfio_user/interrupts.h"
#include "mediator/frontend/vfio_user/migration.h"
#include "mediator/frontend/vfio_user/wait_debt.h"
#include "vrdma/pci_config.h"

namespace vrdma::vfio_user {

class Function final : public HostPort {
  public:
    struct Options {
        std::string name;
        const DeviceType& type;
        verbs::FunctionId function_id;
        std::uint64_t window; // bytes of IOVA space
        std::size_t most_maps = ClientMemory::max_maps;
        PersonalityKind personality = PersonalityKind::vrdma;
    };

    // The type, and all that `host` refers to, must outlive the function.
    static Result<std::unique_ptr<Function>> create(const Options& options, const Host& host);
    Function(const Function&) = delete;
    Function& operator=(const Function&) = delete;
    ~Function() override = default;

    Device& device() noexcept { return *device_; }
    const std::string& name() const noexcept { return device_->name(); }

    void set_share(const hca::Share& share) { device_->set_share(share); }

    // The client's reset of the function.
    void reset();
    // Takes everything from the client that is gone. Nothing that it has kept can affect the next
    // client.
    Result<> start_anew();
    // A client has connected. Devices that come back wait until its device runs, or it is gone.
    void expect();

    // At the end of a vrdmad: freezes the device, and keeps its state for the client, which is told
    // to fetch it. Each step is for all devices, as they talk to each other. request() returns
    // false if there is nothing to fetch. After end(), no device runs any more.
    void end();
    void keep();
    bool request();
    // A device that has been restored, and does not run yet, does not run here any more.
    void keep_still() { held_ = {}; }
    // Tells the driver to look at the device, whose client has no connection any more.
    void announce_loss() noexcept;

    std::uint64_t region_size(std::uint32_t region) const noexcept;
    // [offset, offset + data.size()) must lie in the region.
    void read(std::uint32_t region, std::uint64_t offset, std::span<std::byte> data) noexcept;
    void write(std::uint32_t region, std::uint64_t offset, std::span<const std::byte> data);

    ClientMemory& client_memory() noexcept { return *memory_; }
    Interrupts& interrupts() noexcept { return *interrupts_; }
    Migration& migration() noexcept { return *migration_; }
    // The client has asked whether its device can be migrated.
    void offer_migration() noexcept { offered_ = true; }
    // The BAR of the doorbell pages. If its client shares them with the poller, it also gets the
    // file, and the eventfd of the kick page.
    unsigned doorbell_bar() const noexcept { return bars_.doorbells; }
    bool shares_doorbells() const noexcept { return personality_ == PersonalityKind::vrdma; }
    // Whether the guest's driver relies on a register's write having had its effect when it is
    // done.
    bool needs_answered_writes() const noexcept { return personality_ == PersonalityKind::pvrdma; }
    unsigned registers_bar() const noexcept { return bars_.registers; }
    int doorbell_file() const noexcept { return doorbell_file_.get(); }

    std::span<std::uint32_t> registers() noexcept override { return registers_; }
    std::span<vrdma_doorbell_page> doorbells() noexcept override;
    GuestMemory& memory() noexcept override { return *memory_; }
    int kick_fd() const noexcept override { return kick_->fd(); }
    bool bus_master() const noexcept override { return vrdma_pci_bus_master(&config_) != 0; }
    void raise(unsigned vector) noexcept override { interrupts_->raise(vector); }
    void wake() noexcept override { wake_->signal(); }
    void note_faults() noexcept override;
    Activity* activity() noexcept override { return activity_; }
    bool restores_on() noexcept override;

  private:
    struct Bars {
        unsigned registers;
        unsigned doorbells;
        unsigned msix;
        std::uint64_t registers_size;
        std::uint64_t msix_size;
    };

    explicit Function(const Options& options);

    static Bars bars_of(PersonalityKind personality) noexcept;
    unsigned vectors() const noexcept;
    Result<> prepare(const Options& options);
    Result<> start(const Options& options, const Host& host);
    Result<> replace_shared();
    void take_turn();
    void settle_cost();
    void stand_still();
    void pay();
    // Returns false if there is no memory for a timer.
    bool after(WaitDebt::Clock::duration time, void (Function::*call)());
    void write_config(std::uint64_t offset, std::span<const std::byte> data);
    void read_registers(std::uint64_t offset, std::span<std::byte> data) noexcept;
    void write_registers(std::uint64_t offset, std::span<const std::byte> data);
    void write_register(std::uint32_t offset, std::uint32_t value);
    void write_pvrdma_register(std::uint32_t offset, std::uint32_t value);
    void write_doorbells(std::uint64_t offset, std::span<const std::byte> data);
    void tell_driver_of_reset();
    void reset_device();
    void run_with_others(std::function<void()> action);
    void enable_with_others(std::uint32_t control);
    void freeze();
    void thaw(bool restored);

    const DeviceType& type_;
    const PersonalityKind personality_;
    const Bars bars_;
    DeviceLog log_;
    vrdma_pci_config config_{};
    std::vector<std::uint32_t> registers_;
    std::optional<EventFd> wake_; // also signalled by memory_
    std::unique_ptr<ClientMemory> memory_;
    std::unique_ptr<Interrupts> interrupts_;
    UniqueFd doorbell_file_;
    Mapping doorbells_;
    std::optional<EventFd> kick_;
    std::optional<Device> device_;
    std::optional<Migration> migration_;
    bool offered_ = false;        // the migration, to the client
    bool enable_is_held_ = false; // by held_
    bool untold_ = false;         // the driver, that a write to the configuration space was a reset
    Gathering* gathering_ = nullptr;
    Activity* activity_ = nullptr;
    Gathering::Awaited awaited_;
    Gathering::Held held_;
    EventLoop::Watch turns_;
    EventLoop* loop_ = nullptr;
    FaultTimes* fault_times_ = nullptr;
    WaitDebt debt_;                            // survives resets, and changes of the client
    bool owes_ = false;                        // enough to have stood still
    WaitDebt::Clock::time_point stands_since_; // when it was suspended last
    EventLoop::Timer pays_;
};

} // namespace vrdma::vfio_user
