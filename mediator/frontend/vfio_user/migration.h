// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The migration of a function from or to another mediator, by the states and the stream of VFIO's
// protocol. Its client asks for each state, and moves the data.
#pragma once

#include <linux/vfio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "mediator/device/incoming_state.h"
#include "mediator/frontend/vfio_user/wait_debt.h"

namespace vrdma::vfio_user {

class Migration {
  public:
    // These stop the device, and let it run again. `restored`: it has the state of another one.
    struct Steps {
        std::function<void()> freeze;
        std::function<void(bool restored)> thaw;
    };

    // The device must outlive it.
    Migration(Device& device, std::uint64_t max_length, Steps steps)
        : device_{device}, max_length_{max_length}, steps_{std::move(steps)} {}

    vfio_device_mig_state state() const noexcept { return state_; }
    bool runs() const noexcept { return state_ == VFIO_DEVICE_STATE_RUNNING; }

    // Goes to the state, by others if the protocol says so. EINVAL: there is no such state, or no
    // way to it. EBUSY: vrdmad is about to end, or the client did this too often. After another
    // error, the state is one on the way.
    Result<> go_to(std::uint32_t state);

    // Returns the next bytes of the device's state, at most `size`. Only in STOP_COPY.
    Result<std::span<const std::byte>> read(std::size_t size);
    // Takes the next bytes. Only in RESUMING.
    Result<> write(std::span<const std::byte> piece);

    // The device was reset, and runs.
    void forget();

    // No device runs any more, because this vrdmad ends.
    void end() noexcept { ending_ = true; }
    bool lets_run() const noexcept { return runs() && !ending_; }
    // At the end of a vrdmad: the device is frozen, and stays so unless it is reset. The client
    // gets the state that the device has now.
    Result<> keep();
    // Whether keep() has succeeded, and the device was not reset since.
    bool kept() const noexcept { return kept_; }
    // In bytes, of the state that a client can read.
    std::size_t length() const noexcept { return stream_.size(); }

  private:
    Result<> leave();
    Result<> enter(std::uint32_t state);
    Result<> finish_restore();
    // Calls it, and charges its time to the client.
    Result<> at_cost(const std::function<Result<>()>& work);

    Device& device_;
    std::uint64_t max_length_;
    Steps steps_;
    vfio_device_mig_state state_ = VFIO_DEVICE_STATE_RUNNING;
    // Other clients wait while a state is saved or restored. The debt survives resets.
    WaitDebt debt_;
    bool ending_ = false;   // see end()
    bool kept_ = false;     // the stream is the one for the next vrdmad
    bool restored_ = false; // and has not run since
    std::vector<std::byte> stream_;
    std::size_t read_ = 0; // bytes of the stream
    std::optional<IncomingState> incoming_;
};

} // namespace vrdma::vfio_user
