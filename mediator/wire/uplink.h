// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A way to the network: Ethernet frames out of and into a host's interface. One thread uses it, and
// sleeps on its fd. It loses frames as a network does, and never waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mediator/wire/packet.h"

namespace vrdma::wire {

class Uplink {
  public:
    virtual ~Uplink() = default;

    // Room for the next frame, which goes to that address with one of Ethernet's 8 priorities:
    // frame_size() bytes at least, or nothing while the network takes no more on the way there.
    // What is not committed is given again.
    virtual std::span<std::byte> prepare(const Mac& target, std::uint8_t priority) noexcept = 0;
    virtual void commit(std::size_t bytes) noexcept = 0;
    // Hands what was committed to the network: one system call, and one more for each frame that it
    // refuses. What it does not take now stays for the next flush.
    virtual void flush() noexcept = 0;

    // The next frame that has arrived, valid until release(); nothing if there is none.
    virtual std::span<const std::byte> receive() noexcept = 0;
    virtual void release() noexcept = 0;

    // Readable when a frame arrives.
    virtual int fd() const noexcept = 0;
    // Whether fd() becomes readable as well when there is room again.
    virtual bool wakes_for_room() const noexcept { return false; }
    // Whether prepare() or receive() has taken notice of something that fd() will not tell of any
    // more. The thread then looks once more before it sleeps.
    virtual bool restless() const noexcept { return false; }
    // To be called when fd() has woken its thread: what is no frame (the interface went down) is
    // seen here, and does not wake it again.
    virtual void woken() noexcept = 0;
    // The longest frame, from the interface's present MTU: Ethernet header, tag and all. Any thread
    // may ask.
    virtual std::size_t frame_size() const noexcept = 0;
    // Whether frames can go to an Ethernet address, which a guest has found by itself or which was
    // its peer's. For others its peer's has to be asked for.
    virtual bool knows(const Mac& /*target*/) const noexcept { return true; }
    // How often a frame to that address leaves.
    virtual std::size_t copies(const Mac& /*target*/) const noexcept { return 1; }
};

} // namespace vrdma::wire
