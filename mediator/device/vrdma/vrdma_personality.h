// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdma's own function: the registers and the admin queue of vrdma/device.h.
#pragma once

#include <chrono>
#include <optional>

#include "mediator/device/personality.h"
#include "mediator/device/vrdma/admin_queue.h"

namespace vrdma {

class VrdmaPersonality final : public Personality {
  public:
    explicit VrdmaPersonality(Owner& owner) : Personality{owner} {}

    hca::QueueFormat queue_format() const noexcept override { return hca::QueueFormat::vrdma; }
    void show_reset() override;
    void reset() override;
    void show_identity() override;
    void show_enabled() override;
    void show_failed() override;
    unsigned failure_vector() const noexcept override { return 0; }
    void write_register(std::uint32_t offset, std::uint32_t value) override;
    Result<> prepare() override;
    Result<> attach(hca::Slice& slice) override;
    Result<> start(verbs::Objects&) override { return {}; }
    void stop() override;
    bool pending() const noexcept override { return pending_; }
    Result<Served> serve(verbs::Objects& objects) override;
    void end_turn() override;
    void count_step() noexcept override;
    void abandon() override;
    void raise(unsigned vector) noexcept override { owner_.port().raise(vector); }
    void raise_all() noexcept override;
    void save(DeviceState& state) const override;
    Result<> restore(const DeviceState& state, StateReader& reader) override;
    Result<> restore_enabled(const DeviceState& state, verbs::Objects& objects) override;

  private:
    // The registers that the guest's driver sets before ENABLE.
    struct QueueRegisters {
        AdminQueueSpec admin;
        Iova status_page{};
    };

    struct Command {
        vrdma_admin_cmd cmd;
        std::chrono::steady_clock::time_point taken; // from the queue
    };

    void write_control(std::uint32_t value);
    bool write_queue_register(std::uint32_t offset, std::uint32_t value);
    void show_constants();
    void show_queue_registers();
    Result<std::optional<Command>> next_command();
    void complete(const Command& command, const vrdma_admin_cpl& cpl);
    void log_command(const vrdma_admin_cmd& cmd, const vrdma_admin_cpl& cpl);

    QueueRegisters registers_;
    std::optional<AdminQueue> admin_;
    std::optional<Command> under_way_; // a command that takes several steps
    bool pending_ = false;
    std::uint32_t admin_steps_ = 0;
};

} // namespace vrdma
