// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The control path of a guest's driver, in this process. It uses registers, admin queue and page
// lists exactly as a guest does, and its memory is an arena.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mediator/base/event_fd.h"
#include "mediator/device/device.h"
#include "mediator/device/host_port.h"
#include "mediator/memory/arena_memory.h"
#include "vrdma/device.h"

namespace vrdma::test {

// The machine that a device is plugged into.
class GuestPort final : public HostPort {
  public:
    GuestPort(std::unique_ptr<GuestMemory> memory, const DeviceType& type);

    std::span<std::uint32_t> registers() noexcept override { return registers_; }
    std::span<vrdma_doorbell_page> doorbells() noexcept override { return doorbells_; }
    GuestMemory& memory() noexcept override { return *memory_; }
    int kick_fd() const noexcept override { return kick_.fd(); }
    void raise(unsigned vector) noexcept override;
    void wake() noexcept override { wakes_.fetch_add(1); }

    std::uint32_t read(std::uint32_t offset) const { return registers_[offset / 4]; }
    unsigned raised(unsigned vector) const { return raised_[vector].load(); }

    // Whether the device asked for a turn since the last call.
    bool take_wake() { return wakes_.exchange(0) != 0; }

    void note_faults() noexcept override { ++looks_at_faults_; }
    unsigned looks_at_faults() const { return looks_at_faults_; }
    Activity* activity() noexcept override { return &activity_; }
    bool keeps_doorbells() const noexcept override { return keeps_doorbells_; }
    void keep_doorbells() { keeps_doorbells_ = true; }

  private:
    std::unique_ptr<GuestMemory> memory_;
    std::vector<std::uint32_t> registers_;
    std::unique_ptr<vrdma_doorbell_page, void (*)(void*)> doorbell_pages_;
    std::span<vrdma_doorbell_page> doorbells_;
    std::array<std::atomic<unsigned>, VRDMA_MAX_VECTORS> raised_{};
    std::atomic<unsigned> wakes_ = 0;
    unsigned looks_at_faults_ = 0;
    bool keeps_doorbells_ = false;
    Activity activity_;
    EventFd kick_ = *EventFd::create();
};

// Allocates zeroed guest memory, which is never freed. Address 0 stays unused.
class GuestAllocator {
  public:
    explicit GuestAllocator(GuestMemory& memory) : memory_{memory} {}

    Iova allocate(std::uint64_t size, std::uint64_t alignment = VRDMA_PAGE_SIZE);

    // The page list of [begin, begin + length), with as many levels as it needs, but at least
    // min_levels.
    vrdma_page_list page_list(Iova begin, std::uint64_t length,
                              unsigned page_shift = VRDMA_PAGE_SHIFT, unsigned min_levels = 0);

    template <typename T>
    T* at(Iova iova) const {
        return reinterpret_cast<T*>(memory_.at(iova, sizeof(T)));
    }

  private:
    GuestMemory& memory_;
    std::uint64_t next_ = VRDMA_PAGE_SIZE;
};

// The guest driver's side of the admin queue.
class AdminClient {
  public:
    static constexpr std::uint32_t depth = 16;
    static constexpr std::uint32_t vector = 1;

    AdminClient(Device& device, GuestPort& port, GuestAllocator& allocator);

    void write(std::uint32_t offset, std::uint32_t value) { device_.write_register(offset, value); }
    std::uint32_t status() const { return port_.read(VRDMA_REG_STATUS); }

    // Sets the queue registers and ENABLE.
    void set_queue_registers();
    bool enable();
    void reset();

    // Queues a command without ringing the doorbell. Returns its id.
    std::uint16_t post(std::uint32_t opcode, vrdma_admin_cmd cmd);
    void ring() { write(VRDMA_REG_ADMIN_DOORBELL, 1); }

    // Gives the device the turns it asks for.
    void run_device();
    std::optional<vrdma_admin_cpl> poll();

    // Posts a command, rings, and returns its completion, which must be there.
    vrdma_admin_cpl execute(std::uint32_t opcode, const vrdma_admin_cmd& cmd = {});

    // The returned value or, negative, the errno.
    std::int64_t create(std::uint32_t opcode, const vrdma_admin_cmd& cmd = {});
    int run(std::uint32_t opcode, const vrdma_admin_cmd& cmd = {});
    int destroy(std::uint32_t opcode, std::uint32_t handle);

    Iova submissions() const { return submissions_; }
    Iova completions() const { return completions_; }
    Iova status_page() const { return status_page_; }
    std::uint32_t admin_steps() const;

  private:
    Device& device_;
    GuestPort& port_;
    GuestAllocator& allocator_;
    Iova submissions_;
    Iova completions_;
    Iova status_page_;
    std::uint32_t posted_ = 0;
    std::uint32_t taken_ = 0;
};

} // namespace vrdma::test
