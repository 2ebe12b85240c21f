// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a guest's driver sees of a device: its registers, its doorbells, and how commands arrive and
// are answered. A device has one personality for its whole life. The verbs below do not know which.
// Pollers may call raise(). All else runs on the control thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "mediator/base/log.h"
#include "mediator/base/result.h"
#include "mediator/device/device_state.h"
#include "mediator/device/device_type.h"
#include "mediator/device/host_port.h"
#include "mediator/hca/queue_format.h"
#include "mediator/verbs/objects.h"
#include "mediator/verbs/saved_state.h"

namespace vrdma {

class Personality {
  public:
    // The device.
    class Owner {
      public:
        virtual HostPort& port() noexcept = 0;
        virtual const DeviceType& type() const noexcept = 0;
        virtual const verbs::FunctionId& function_id() const noexcept = 0;
        virtual DeviceLog& log() noexcept = 0;
        virtual bool enabled() const noexcept = 0;
        virtual bool failed() const noexcept = 0;
        // The versions of RoCE that it may use.
        virtual verbs::Protocols protocols() const noexcept = 0;

        // The driver asks for these.
        virtual void want_enabled(bool wanted) = 0;
        virtual void reset() = 0;
        virtual void fail_device(std::string_view why) = 0;
        // There is a command.
        virtual void service() = 0;
        // The objects of an enabled device, else nullptr.
        virtual verbs::Objects* objects() noexcept = 0;

      protected:
        ~Owner() = default;
    };

    Personality(const Personality&) = delete;
    Personality& operator=(const Personality&) = delete;
    virtual ~Personality() = default;

    virtual hca::QueueFormat queue_format() const noexcept = 0;

    // A reset begins with show_reset(). reset() then forgets all that the driver has written.
    virtual void show_reset() = 0;
    virtual void reset() = 0;
    virtual void show_identity() = 0;
    virtual void show_enabled() = 0;
    // The driver learns by an interrupt on this vector that the device has failed.
    virtual void show_failed() = 0;
    virtual unsigned failure_vector() const noexcept = 0;

    virtual void write_register(std::uint32_t offset, std::uint32_t value) = 0;
    // A store to a doorbell page that the guest does not share with the poller.
    virtual void write_doorbell(std::uint64_t /*offset*/, std::uint32_t /*value*/) {}

    // The device is being enabled, in this order: before it has a slice, and before and after it
    // has objects. An error keeps it from being enabled.
    virtual Result<> prepare() = 0;
    virtual Result<> attach(hca::Slice& slice) = 0;
    virtual Result<> start(verbs::Objects& objects) = 0;
    // It is disabled: no command is pending any more.
    virtual void stop() = 0;

    enum class Served : std::uint8_t { nothing, step, command };
    // Whether serve() may find a command.
    virtual bool pending() const noexcept = 0;
    // Executes the next command, or a step of it. An error is fatal for the device.
    virtual Result<Served> serve(verbs::Objects& objects) = 0;
    // The turn ends in which commands were executed.
    virtual void end_turn() = 0;
    // The device has made a step of its work.
    virtual void count_step() noexcept = 0;
    // A command that is under way will be executed again from its beginning.
    virtual void abandon() = 0;

    virtual void raise(unsigned vector) noexcept = 0;
    // Raises each vector whose interrupt the guest may have missed.
    virtual void raise_all() noexcept = 0;

    // Sets its fields of the record. save_section() then writes what it has in a section of its
    // own, in the named format. Nothing: it has none.
    virtual void save(DeviceState& state) const = 0;
    virtual std::optional<verbs::SectionFormat> section() const noexcept { return std::nullopt; }
    virtual void save_section(StateWriter& /*writer*/) const {}
    // Takes the registers of a device that is restored, after a reset; then, once it is enabled and
    // has its objects again, the position in its commands.
    virtual Result<> restore(const DeviceState& state, StateReader& reader) = 0;
    virtual Result<> restore_enabled(const DeviceState& state, verbs::Objects& objects) = 0;

  protected:
    // The owner must outlive it.
    explicit Personality(Owner& owner) : owner_{owner} {}

    void show(std::uint32_t offset, std::uint32_t value) noexcept;
    std::uint32_t shown(std::uint32_t offset) const noexcept;
    // In two registers, its first byte in the lowest one of `low`.
    void show_mac(std::uint32_t low, std::uint32_t high) noexcept;
    // A command was taken then, and is done.
    void count_time(std::chrono::steady_clock::time_point taken);
    // Whether the guest asked for an address that is another one's, which is logged as a warning.
    // Other errors concern only the guest itself.
    static bool is_of_others(std::uint32_t error) noexcept;

    Owner& owner_;
};

} // namespace vrdma
