// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// One virtual function: its life, and while it is enabled its slice of the HCA and its objects. Its
// personality has its registers and takes its commands. Pollers may call raise() and fatal(), and
// wake the control thread. All else runs on the control thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mediator/base/log.h"
#include "mediator/device/device_report.h"
#include "mediator/device/device_state.h"
#include "mediator/device/device_type.h"
#include "mediator/device/host_port.h"
#include "mediator/device/personality.h"
#include "mediator/hca/hca.h"
#include "mediator/sniffer/ring.h"
#include "mediator/verbs/objects.h"
#include "mediator/verbs/saved_state.h"

namespace vrdma {

class Device final : public hca::SliceHost, private Personality::Owner {
  public:
    // The port must have as many doorbell pages as the type. All arguments must outlive the device.
    Device(std::string name, const DeviceType& type, verbs::FunctionId function_id, HostPort& port,
           hca::Hca& hca, verbs::GidRegistry& gids,
           PersonalityKind personality = PersonalityKind::vrdma);
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    ~Device() override;

    const std::string& name() const noexcept { return log_.device(); }

    // The guest wrote to a register.
    void write_register(std::uint32_t offset, std::uint32_t value);
    // The guest wrote to a doorbell page that it does not share with the poller.
    void write_doorbell(std::uint64_t offset, std::uint32_t value);

    // Does a bounded amount of the pending work. Asks the port for another turn if there is more.
    void service() override;

    // Is called for the guest's driver, or from outside.
    void reset() override;

    bool enabled() const noexcept override { return enabled_.has_value(); }

    // Only between a reset and the guest's next access, and only if the device shares its identity
    // with no other function.
    void set_identity(verbs::Identity identity);

    // Holds from now on, also after resets.
    void set_share(const hca::Share& share);
    // Hold from now on, also after resets and for a device that is restored here. EBUSY: it has
    // more of something.
    Result<> set_quotas(const verbs::Quotas& quotas);
    const verbs::Quotas& quotas() const noexcept { return quotas_; }
    // The versions of RoCE that the device may use. Holds from now on, also after resets. EBUSY: an
    // object uses one that is taken away. EAGAIN: the device is frozen.
    Result<> set_protocols(verbs::Protocols protocols);
    verbs::Protocols protocols() const noexcept override { return protocols_; }
    verbs::Objects::Users users_of(verbs::Protocols protocols) const;
    // Until it is disabled, or told otherwise: see hca/slice.h.
    void set_pace(std::uint64_t bytes_per_second);

    // The guest has lost this memory.
    void revoke(Iova first, std::uint64_t length);

    // Records the frames of its messages in the ring, also after resets, until it is stopped or the
    // device goes. The device must not have a sniffer.
    void start_sniffer(sniffer::Ring ring);
    // Returns whether there was one.
    bool stop_sniffer();
    bool sniffed() const noexcept { return sniffer_.has_value(); }

    // The device stands still from freeze() to thaw(). save() and restore() need that. Call
    // restore() after a reset, on a guest whose memory equals that of the saved one. A failed
    // restore() resets the device.
    void freeze();
    void thaw();
    bool frozen() const noexcept { return frozen_; }
    // False if the control thread has died while it changed the device's objects: then they cannot
    // be saved.
    bool is_whole() const noexcept { return !changes_; }
    // All of its state has been saved, and it may continue on another host. Peers that look for its
    // addresses then find it there.
    void give_way();
    std::vector<std::byte> save() const { return save_state().image; }
    SavedState save_state() const;
    Result<> restore(std::span<const std::byte> image);

    // Returns what the device needs of the one that takes its place on another host. The device may
    // run meanwhile.
    std::vector<std::byte> announce() const;
    // Returns what is lasting of its image. The device may run meanwhile.
    SavedState save_ahead() const;
    // How long the rest of its image would be, in bytes, as an estimate.
    std::uint64_t estimate_rest() const;
    // Fails, and logs why, if the device that has announced this cannot be restored here. Call it
    // after a reset.
    Result<> admit(std::span<const std::byte> announcement);

    // Freezes a device whose memory made others wait. A reset does not end that. If the guest
    // enables the device meanwhile, resume() enables it.
    void suspend();
    void resume();
    bool suspended() const noexcept { return suspended_since_.has_value(); }

    DeviceReport report() const;
    // Since it was enabled. None: it is not.
    std::optional<vrdma_counters> counters() const;

    void raise(unsigned vector) noexcept override { personality_->raise(vector); }
    // The guest may have missed any interrupt.
    void raise_all() noexcept { personality_->raise_all(); }
    // NOLINTNEXTLINE(bugprone-exception-escape)
    void fatal(std::string_view why) noexcept override;

  private:
    // Marks a time in which the device's objects are not to be looked at. Times may be nested.
    class Change {
      public:
        explicit Change(std::atomic<bool>& mark) noexcept
            : mark_{mark}, before_{mark.exchange(true)} {}
        Change(const Change&) = delete;
        Change& operator=(const Change&) = delete;
        ~Change() { mark_ = before_; }

      private:
        std::atomic<bool>& mark_;
        const bool before_;
    };

    // Members are destroyed in reverse order: the slice goes last, with its queues.
    struct Enabled {
        Enabled(verbs::FunctionNumber number_, std::unique_ptr<hca::Slice> slice_,
                const Device& device);

        verbs::FunctionNumber number;
        std::unique_ptr<hca::Slice> slice;
        verbs::Objects objects;
    };

    HostPort& port() noexcept override { return port_; }
    const DeviceType& type() const noexcept override { return type_; }
    const verbs::FunctionId& function_id() const noexcept override { return function_id_; }
    DeviceLog& log() noexcept override { return log_; }
    bool failed() const noexcept override { return failed_; }
    verbs::Objects* objects() noexcept override { return enabled_ ? &enabled_->objects : nullptr; }
    void want_enabled(bool wanted) override;
    void fail_device(std::string_view why) override;

    void reserve_address();
    void give_back_address();

    void enable();
    Result<> try_enable(verbs::FunctionNumber number);
    Result<std::unique_ptr<hca::Slice>> carve(const verbs::FunctionId& id);
    void disable();
    void take_turn();
    void serve_commands();
    void abandon_command();
    DeviceReport::State reported_state() const;
    DeviceState state() const;
    Result<DeviceState> take_state(StateReader& reader);
    Result<> admit_protocols();
    std::vector<verbs::SectionFormat> formats() const;
    Result<> admit_formats(StateReader& reader);
    Result<> admit_usage(StateReader& reader, unsigned function);
    Result<> admit_gids(StateReader& reader);
    Result<> restore_from(StateReader& reader);
    Result<> restore_enabled(StateReader& reader, const DeviceState& state);

    DeviceLog log_;
    const DeviceType& type_;
    verbs::FunctionId function_id_;
    HostPort& port_;
    hca::Hca& hca_;
    verbs::GidRegistry& gids_;

    hca::Share share_;
    verbs::Quotas quotas_;
    verbs::Protocols protocols_ = verbs::Protocols{}.set();
    const std::unique_ptr<Personality> personality_;
    std::atomic<bool> changes_ = false; // its objects, just now
    bool address_reserved_ = false;
    bool failed_ = false;
    bool frozen_ = false;
    std::optional<std::chrono::steady_clock::time_point> suspended_since_;
    bool thawing_ = false;       // the device runs again, but its slice has steps of thaw() left
    bool enabled_later_ = false; // the guest enabled it while it was suspended
    std::atomic<bool> slice_failed_ = false; // set by pollers
    std::optional<sniffer::Ring> sniffer_;
    std::optional<Enabled> enabled_; // whose slice uses the ring
};

} // namespace vrdma
