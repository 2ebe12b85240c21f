// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What a device needs of whoever plugs it into a guest: the kernel module, a socket, or a test.
#pragma once

#include <cstdint>
#include <span>

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

    // The device may touch the guest's memory: it is not enabled otherwise.
    virtual bool bus_master() const noexcept { return true; }

    // From any thread: signal the vector; have the control thread call Device::service() soon.
    virtual void raise(unsigned vector) noexcept = 0;
    virtual void wake() noexcept = 0;

    // The control thread has executed a command, or a step of one, in a turn that goes on. What it
    // had to wait for is noted now: the kernel keeps a limited number of faults.
    virtual void note_faults() noexcept {}
};

} // namespace vrdma
