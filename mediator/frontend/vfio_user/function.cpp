// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/function.h"

#include <linux/vfio.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "mediator/base/sealed_file.h"
#include "mediator/device/out_of_memory.h"
#include "vrdma/pvrdma/pci_config.h"

namespace vrdma::vfio_user {
namespace {

constexpr std::size_t register_size = sizeof(std::uint32_t);

// Returns how many bytes of an access lie in the register where it begins.
std::size_t next_step(std::size_t left, std::uint64_t offset) {
    return std::min<std::size_t>(left, register_size - offset % register_size);
}

} // namespace

Function::Function(const Options& options)
    : type_{options.type},
      personality_{options.personality},
      bars_{bars_of(options.personality)},
      log_{options.name},
      registers_(VRDMA_PAGE_SIZE / register_size) {
    if (personality_ == PersonalityKind::pvrdma) {
        pvrdma_pci_config_init(&config_, type_.limits.doorbell_pages);
    } else {
        vrdma_pci_config_init(&config_, type_.limits.doorbell_pages, vectors());
    }
}

Function::Bars Function::bars_of(PersonalityKind personality) noexcept {
    if (personality == PersonalityKind::pvrdma) {
        return {PVRDMA_BAR_REGISTERS, PVRDMA_BAR_UAR, PVRDMA_BAR_MSIX, PVRDMA_BAR_REGISTERS_SIZE,
                PVRDMA_BAR_MSIX_SIZE};
    }
    return {VRDMA_BAR_REGISTERS, VRDMA_BAR_DOORBELLS, VRDMA_BAR_MSIX, VRDMA_BAR0_SIZE,
            VRDMA_BAR4_SIZE};
}

unsigned Function::vectors() const noexcept {
    return personality_ == PersonalityKind::pvrdma ? PVRDMA_VECTORS : type_.limits.vectors;
}

Result<std::unique_ptr<Function>> Function::create(const Options& options, const Host& host) {
    std::unique_ptr<Function> function{new Function{options}};
    if (const auto prepared = function->prepare(options); !prepared) {
        return fail(prepared.error());
    }
    if (const auto started = function->start(options, host); !started) {
        return fail(started.error());
    }
    return function;
}

Result<> Function::prepare(const Options& options) {
    auto wake = EventFd::create();
    if (!wake) {
        return fail(wake.error());
    }
    wake_ = std::move(*wake);
    auto memory =
        ClientMemory::create(options.window, wake_->fd(), options.most_maps, type_.max_holes);
    if (!memory) {
        return fail(memory.error());
    }
    memory_ = std::move(*memory);
    auto interrupts = Interrupts::create(vectors());
    if (!interrupts) {
        return fail(interrupts.error());
    }
    interrupts_ = std::move(*interrupts);
    return replace_shared();
}

Result<> Function::start(const Options& options, const Host& host) {
    loop_ = &host.loop;
    fault_times_ = host.fault_times;
    gathering_ = host.gathering;
    activity_ = host.activity;
    device_.emplace(options.name, type_, options.function_id, *this, host.hca, host.gids,
                    personality_);
    migration_.emplace(
        *device_, longest_image(type_.limits),
        Migration::Steps{[this] { freeze(); }, [this](bool restored) { thaw(restored); }});
    auto turns = host.loop.watch(wake_->fd(), [this](std::uint32_t) { take_turn(); });
    if (!turns) {
        return fail(turns.error());
    }
    turns_ = std::move(*turns);
    return {};
}

void Function::take_turn() {
    wake_->drain();
    if (memory_->overwhelmed()) {
        device_->fatal("too much of its client's memory is missing");
    }
    if (memory_->take_refusal()) {
        log_.warn(
            "its client's files have holes, of which it has touched all that max_holes_mib "
            "allows");
    }
    settle_cost();
    device_->service();
    note_faults();
}

// Settles the faults of this thread. The function learns of faults that cost time by its eventfd.
void Function::note_faults() noexcept {
    if (fault_times_ != nullptr) {
        fault_times_->settle();
    }
}

// A restore touches all queues of the client in one step. Others wait no longer for that than for
// the slowest single page.
bool Function::restores_on() noexcept {
    constexpr std::chrono::milliseconds longest{150};
    note_faults();
    return memory_->cost() < longest;
}

void Function::settle_cost() {
    const auto cost = memory_->take_cost();
    if (cost == std::chrono::nanoseconds::zero()) {
        return;
    }
    debt_.add(cost, WaitDebt::Clock::now());
    stand_still();
}

// Suspends the device if it owes too much.
void Function::stand_still() {
    const auto now = WaitDebt::Clock::now();
    if (device_->suspended()) {
        return;
    }
    if (debt_.due(now)) {
        owes_ = true;
        stands_since_ = now;
        device_->suspend();
        pay();
    } else if (std::exchange(owes_, false)) {
        log_.info("its wait debt is paid");
    }
}

// Resumes the device when the standstill is over. The debt may grow meanwhile, also by the cost
// of resuming. Without memory for a timer the device continues at once.
void Function::pay() {
    const auto left = debt_.end(stands_since_) - WaitDebt::Clock::now();
    if (left > WaitDebt::Clock::duration::zero() && after(left, &Function::pay)) {
        return;
    }
    device_->resume();
    note_faults();
    if (!debt_.due(WaitDebt::Clock::now())) {
        return stand_still(); // only logs that the debt is paid
    }
    static_cast<void>(after(WaitDebt::moment, &Function::stand_still));
}

bool Function::after(WaitDebt::Clock::duration time, void (Function::*call)()) {
    return with_what_memory_there_is([&]() -> Result<> {
               pays_ = loop_->after(std::chrono::ceil<std::chrono::milliseconds>(time),
                                    [this, call] { (this->*call)(); });
               return {};
           })
        .has_value();
}

// Replaces the doorbell pages and the eventfd for kicks, because a client that is gone may have
// kept them.
Result<> Function::replace_shared() {
    const std::uint64_t size = std::uint64_t{type_.limits.doorbell_pages} * VRDMA_PAGE_SIZE;
    auto file = sealed_file("vrdma-doorbells", size); // the client maps it, too
    auto kick = EventFd::create();
    if (!file || !kick) {
        return fail(file ? kick.error() : file.error());
    }
    if (doorbells_.data() == nullptr) {
        auto mapped = Mapping::map(file->get(), 0, size, PROT_READ | PROT_WRITE);
        if (!mapped) {
            return fail(mapped.error());
        }
        doorbells_ = std::move(*mapped);
    } else if (::mmap(doorbells_.data(), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                      file->get(), 0) == MAP_FAILED) {
        return fail_errno();
    }
    doorbell_file_ = std::move(*file);
    kick_ = std::move(*kick);
    return {};
}

void Function::reset() {
    vrdma_pci_config_reset(&config_);
    untold_ = false;
    reset_device();
}

void Function::reset_device() {
    held_ = {};
    enable_is_held_ = false;
    migration_->forget();
    device_->reset();
}

void Function::expect() {
    if (gathering_ != nullptr) {
        awaited_ = gathering_->await();
    }
}

// During a gathering, the action waits for the devices of other clients.
void Function::run_with_others(std::function<void()> action) {
    held_.happen();
    if (gathering_ == nullptr) {
        action();
        return;
    }
    held_ = gathering_->hold(std::move(action));
    awaited_ = {};
}

// A device that is enabled takes a number of a function, which may be that of a device that comes
// back. So neither a second write nor a migration lets it happen earlier.
void Function::enable_with_others(std::uint32_t control) {
    if (std::exchange(enable_is_held_, true)) {
        held_ = {};
    }
    run_with_others([this, control] {
        enable_is_held_ = false;
        device_->write_register(VRDMA_REG_CONTROL, control);
    });
}

void Function::freeze() {
    if (std::exchange(enable_is_held_, false)) {
        held_ = {};
    }
    held_.happen();
    device_->freeze();
}

void Function::end() {
    freeze();
    migration_->end();
}

// The client may have missed any interrupt between two mediators. Those that the device raises when
// it continues come later.
void Function::thaw(bool restored) {
    if (!restored) {
        device_->thaw();
        return;
    }
    if (device_->enabled() && !bus_master()) {
        device_->fatal("it was restored while Bus Master is clear");
    }
    run_with_others([this] {
        device_->raise_all();
        device_->thaw();
        log_.info("continues");
    });
}

void Function::keep() {
    if (!offered_ || !interrupts_->has(interrupts_->request()) || !migration_->runs() ||
        !device_->enabled()) {
        return;
    }
    const auto kept =
        device_->is_whole() ? migration_->keep() : fail(std::errc::operation_canceled);
    if (!kept) {
        log_.warn("fails, as its state cannot be saved: {}", describe(kept.error()));
        return;
    }
    log_.info("stands still, with a state of {} bytes", migration_->length());
}

bool Function::request() {
    if (migration_->kept()) {
        raise(interrupts_->request());
    }
    return migration_->kept();
}

// The client answers the driver with all ones, which mean that the device is gone.
void Function::announce_loss() noexcept {
    if (device_->enabled()) {
        raise(0);
    }
}

Result<> Function::start_anew() {
    reset();
    awaited_ = {};
    offered_ = false;
    interrupts_->clear_all();
    memory_->unmap_all();
    return replace_shared();
}

std::span<vrdma_doorbell_page> Function::doorbells() noexcept {
    return {doorbells_.as<vrdma_doorbell_page>(), type_.limits.doorbell_pages};
}

std::uint64_t Function::region_size(std::uint32_t region) const noexcept {
    if (region == VFIO_PCI_CONFIG_REGION_INDEX) {
        return VRDMA_PCI_CONFIG_SIZE;
    }
    if (region == VFIO_PCI_BAR0_REGION_INDEX + bars_.registers) {
        return bars_.registers_size;
    }
    if (region == VFIO_PCI_BAR0_REGION_INDEX + bars_.doorbells) {
        return doorbells_.size();
    }
    return region == VFIO_PCI_BAR0_REGION_INDEX + bars_.msix ? bars_.msix_size : 0;
}

void Function::read(std::uint32_t region, std::uint64_t offset,
                    std::span<std::byte> data) noexcept {
    if (region == VFIO_PCI_CONFIG_REGION_INDEX) {
        std::memcpy(data.data(), config_.bytes + offset, data.size());
    } else if (region == VFIO_PCI_BAR0_REGION_INDEX + bars_.registers) {
        read_registers(offset, data);
    } else if (region == VFIO_PCI_BAR0_REGION_INDEX + bars_.doorbells && shares_doorbells()) {
        std::memcpy(data.data(), doorbells_.data() + offset, data.size());
    } else { // the client keeps the MSI-X table, and PVRDMA's doorbells read as zero
        std::ranges::fill(data, std::byte{});
    }
}

void Function::write(std::uint32_t region, std::uint64_t offset, std::span<const std::byte> data) {
    if (region == VFIO_PCI_CONFIG_REGION_INDEX) {
        write_config(offset, data);
    } else if (region == VFIO_PCI_BAR0_REGION_INDEX + bars_.registers) {
        write_registers(offset, data);
    } else if (region == VFIO_PCI_BAR0_REGION_INDEX + bars_.doorbells) {
        write_doorbells(offset, data);
    } // the client keeps the MSI-X table
}

// PVRDMA's doorbells are aligned words. Other writes are dropped.
void Function::write_doorbells(std::uint64_t offset, std::span<const std::byte> data) {
    if (shares_doorbells()) {
        std::memcpy(doorbells_.data() + offset, data.data(), data.size());
    } else if (data.size() == register_size && offset % register_size == 0 &&
               migration_->lets_run()) {
        std::uint32_t value = 0;
        std::memcpy(&value, data.data(), sizeof(value));
        device_->write_doorbell(offset, value);
    }
}

// PVRDMA's driver has no interrupt for that.
void Function::tell_driver_of_reset() {
    if (personality_ == PersonalityKind::vrdma) {
        raise(0);
    }
}

// A write may reset the device. If the device was enabled, vector 0 tells its driver, which may not
// know that the write was a reset. It tells the driver again when Bus Master is set, because not
// all clients deliver interrupts before.
void Function::write_config(std::uint64_t offset, std::span<const std::byte> data) {
    const bool resets = vrdma_pci_config_write(&config_, static_cast<unsigned>(offset),
                                               reinterpret_cast<const __u8*>(data.data()),
                                               static_cast<unsigned>(data.size())) != 0;
    if (resets) {
        const bool enabled = device_->enabled();
        reset_device();
        if (enabled) {
            untold_ = true;
            tell_driver_of_reset();
        }
    }
    if (untold_ && bus_master()) {
        untold_ = false;
        tell_driver_of_reset();
    }
}

// Accesses to registers are 32 bits wide and aligned. Other reads return ones, and other writes are
// dropped. The kick page reads as zero.
void Function::read_registers(std::uint64_t offset, std::span<std::byte> data) noexcept {
    for (std::size_t done = 0, step = 0; done < data.size(); done += step) {
        const std::uint64_t at = offset + done;
        step = next_step(data.size() - done, at);
        std::uint32_t value = 0xffffffff;
        if (at >= VRDMA_BAR0_KICK_OFFSET) {
            value = 0;
        } else if (step == register_size) {
            value = std::atomic_ref{registers_[at / register_size]}.load(std::memory_order_acquire);
        }
        std::memcpy(data.data() + done, &value, step);
    }
}

void Function::write_registers(std::uint64_t offset, std::span<const std::byte> data) {
    std::size_t done = 0;
    for (std::size_t step = 0; done < data.size() && offset + done < VRDMA_BAR0_KICK_OFFSET;
         done += step) {
        step = next_step(data.size() - done, offset + done);
        if (step == register_size) {
            std::uint32_t value = 0;
            std::memcpy(&value, data.data() + done, sizeof(value));
            write_register(static_cast<std::uint32_t>(offset + done), value);
        }
    }
    note_faults();
    if (done < data.size()) {
        kick_->signal();
    }
}

// While the client migrates the device, it can only reset it and announce commands.
void Function::write_register(std::uint32_t offset, std::uint32_t value) {
    const bool is_own = personality_ == PersonalityKind::vrdma;
    if (is_own && offset == VRDMA_REG_CONTROL && (value & VRDMA_CONTROL_RESET) != 0) {
        reset_device();
    } else if (!migration_->lets_run() && !(is_own && offset == VRDMA_REG_ADMIN_DOORBELL)) {
        log_.debug("write of {:#x} to register {:#x} dropped: it is migrated", value, offset);
    } else if (!is_own) {
        write_pvrdma_register(offset, value);
    } else if (offset == VRDMA_REG_CONTROL && gathering_ != nullptr && !gathering_->over()) {
        enable_with_others(value);
    } else {
        device_->write_register(offset, value);
    }
}

// The driver reads the result of a write at once, so its device waits for no others. It has only
// one client, and so no number that another one could need. Either write can reset a device that
// was restored, and then it has nothing to continue any more.
void Function::write_pvrdma_register(std::uint32_t offset, std::uint32_t value) {
    if (offset == PVRDMA_REG_SHARED_HIGH || offset == PVRDMA_REG_CONTROL) {
        held_.happen();
    }
    device_->write_register(offset, value);
}

} // namespace vrdma::vfio_user
