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

    // Returns room for the next frame, which goes to `target` with one of Ethernet's 8 priorities:
    // frame_size() bytes at least, or nothing while the network takes no more on the way there.
    // Room that is not committed is returned again.
    virtual std::span<std::byte> prepare(const Mac& target, std::uint8_t priority) noexcept = 0;
    virtual void commit(std::size_t bytes) noexcept = 0;
    // Hands the committed frames to the network, by one system call, and one more per frame that it
    // refuses. Frames that the network does not take now stay for the next flush.
    virtual void flush() noexcept = 0;

    // The next frame that has arrived, valid until release(); nothing if there is none.
    virtual std::span<const std::byte> receive() noexcept = 0;
    virtual void release() noexcept = 0;
    // Whether the frame that receive() has returned has the headers of the frame before, apart from
    // lengths, checksums and identification, and no bytes after its ICRC.
    virtual bool resembles_last() const noexcept { return false; }

    // Several frames that were sent one after the other were not answered in time.
    virtual void note_silence() noexcept {}

    // Readable when a frame arrives.
    virtual int fd() const noexcept = 0;
    // Whether fd() also becomes readable when there is room again.
    virtual bool wakes_for_room() const noexcept { return false; }
    // Whether prepare() or receive() has noticed something that fd() will not report any more. The
    // thread then looks once more before it sleeps.
    virtual bool restless() const noexcept { return false; }
    // Must be called when fd() has woken its thread. It sees events that are not frames (the
    // interface went down), so that they do not wake the thread again.
    virtual void woken() noexcept = 0;
    // The longest frame by the interface's present MTU, including Ethernet header and tag. Any
    // thread may ask.
    virtual std::size_t frame_size() const noexcept = 0;
    // Whether frames can go to an Ethernet address, which a guest has found by itself or which was
    // its peer's. If not, the peer's address has to be asked for.
    virtual bool knows(const Mac& /*target*/) const noexcept { return true; }
    // The number of copies of a frame to that address that leave.
    virtual std::size_t copies(const Mac& /*target*/) const noexcept { return 1; }
};

} // namespace vrdma::wire
