// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The uplink that works everywhere: a packet socket bound to an interface with an Ethernet address.
// The interface is a NIC (frames have the VLAN tags that the network gave them), a VLAN of a NIC
// (they have none), or a port of a bridge: frames are seen before the bridge has them, and leave
// without it.
//
// Frames are sent through the interface's queueing discipline, so that a driver's short queue does
// not lose a window's frames, and an administrator's shaping holds. There, and at a VLAN's
// egress-qos-map, frames have their priority. Each priority has a socket of its own: frames of a
// priority that is paused (PFC), or has used its share, do not delay others.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "mediator/base/unique_fd.h"
#include "mediator/wire/priorities.h"
#include "mediator/wire/uplink.h"
#include "mediator/wire/uplink/link.h"
#include "mediator/wire/uplink/receiver.h"
#include "mediator/wire/uplink/segmentation_doubt.h"
#include "mediator/wire/uplink/send_batch.h"

namespace vrdma::wire {

class PacketUplink final : public Uplink {
  public:
    static Result<std::unique_ptr<PacketUplink>> create(const std::string& interface);
    PacketUplink(const PacketUplink&) = delete;
    PacketUplink& operator=(const PacketUplink&) = delete;
    ~PacketUplink() override;

    std::span<std::byte> prepare(const Mac& target, std::uint8_t priority) noexcept override;
    void commit(std::size_t bytes) noexcept override { prepared_->batch.commit(bytes); }
    void flush() noexcept override;
    std::span<const std::byte> receive() noexcept override { return receiver_.receive(); }
    void release() noexcept override { receiver_.release(); }
    bool resembles_last() const noexcept override { return receiver_.resembles_last(); }
    void note_silence() noexcept override { doubt_.note_silence(); }
    int fd() const noexcept override { return receiver_.fd(); }
    void woken() noexcept override;
    // If the interface's MTU becomes smaller, longer frames are lost, as in a network whose MTU
    // becomes smaller.
    // Flushes go by the size that was asked for last: who watches the interface asks after a
    // change.
    std::size_t frame_size() const noexcept override;

    // Frames that were lost here: refused by the interface, because it is down or its MTU too
    // small; longer than any of RoCE; received when the ring was full.
    struct Losses {
        std::uint64_t refused = 0;
        std::uint64_t truncated = 0;
        std::uint64_t overrun = 0;
    };
    Losses losses() noexcept;

  private:
    // The sending side of a priority.
    struct Sender {
        UniqueFd socket;
        SendBatch batch;
    };
    using Senders = std::array<Sender, Priorities::count>;

    PacketUplink(std::string interface, const Link& link, Receiver receiver,
                 std::unique_ptr<Senders> senders);

    void flush(Sender& sender) noexcept;
    void check_gone() noexcept;

    std::string interface_;
    Receiver receiver_;
    std::unique_ptr<Senders> senders_;
    Sender* prepared_ = &senders_->front();
    std::uint32_t first_mtu_;
    mutable std::atomic<std::size_t> frame_size_;
    SegmentationDoubt doubt_;
    Losses losses_;
    bool gone_ = false;
};

} // namespace vrdma::wire
