// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device's interface to the front end that connects it to a guest: the kernel module, a socket,
// or a test.
#pragma once

#include <cstdint>
#include <span>

#include "mediator/device/activity.h"
#include "mediator/memory/guest_memory.h"
#include "vrdma/queue.h"

namespace vrdma {

class HostPort {
  public:
    virtual ~HostPort() = default;

    // Page 0 of BAR0 as the guest reads it, and BAR2.
    virtual std::span<std::uint32_t> registers() noexcept = 0;
    virtual std::span<vrdma_doorbell_page> doorbells() noexcept = 0;
    virtual GuestMemory& memory() noexcept = 0;

    // An eventfd that is signalled for each write to the kick page. It stays until the next reset.
    virtual int kick_fd() const noexcept = 0;

    // Whether the device may touch the guest's memory. If not, it cannot be enabled.
    virtual bool bus_master() const noexcept { return true; }

    // Whether doorbells that are not shared with the poller wait for the device while it is saved.
    // If not, they get lost.
    virtual bool keeps_doorbells() const noexcept { return false; }

    // For any thread. raise() signals the vector. wake() makes the control thread call
    // Device::service() soon.
    virtual void raise(unsigned vector) noexcept = 0;
    virtual void wake() noexcept = 0;

    // Is called when the control thread has executed a command, or a step of one, and its turn
    // continues. The front end now notes the page faults, because the kernel keeps only a limited
    // number of them.
    virtual void note_faults() noexcept {}

    // Where the device counts what it does. nullptr: nobody wants to know.
    virtual Activity* activity() noexcept { return nullptr; }

    // Is called after each object that is restored. If it returns false, the restore fails, because
    // the guest's memory makes others wait for too long.
    virtual bool restores_on() noexcept { return true; }
};

} // namespace vrdma
