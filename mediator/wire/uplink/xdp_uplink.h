// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The uplink by AF_XDP sockets. It takes frames for devices' addresses, and no others, where the
// interface's driver has them. Frames that leave go to the driver without a queueing discipline.
//
// Each of the interface's queues has a socket, because the interface chooses the queue by which a
// frame comes. All frames leave by the first. An interface whose MTU is more than a frame in such a
// socket's memory cannot be an uplink of this kind.
//
// A packet socket receives RoCE that the program passes: frames to multicast groups, which others
// may be in as well, and frames by queues that the interface has got since.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "mediator/wire/uplink.h"
#include "mediator/wire/uplink/packet_uplink.h"
#include "mediator/wire/uplink/steering.h"
#include "mediator/wire/uplink/xdp_program.h"
#include "mediator/wire/uplink/xsk_queue.h"

namespace vrdma::wire {

class XdpUplink final : public Uplink {
  public:
    enum class Mode : std::uint8_t {
        zero_copy, // the NIC reads and writes the sockets' memory
        native,    // the driver gives frames to the kernel, which copies them
        generic,   // the kernel's stack does so: any interface
    };
    static const char* name_of(Mode mode) noexcept;

    // The error says why it does not work there, for people. `steering` may be destroyed first.
    static tl::expected<std::unique_ptr<XdpUplink>, std::string> create(
        const std::string& interface, Mode mode, const Steering& steering);

    std::size_t queues() const noexcept { return queues_.size(); }

    std::span<std::byte> prepare(const Mac& target, std::uint8_t priority) noexcept override;
    void commit(std::size_t bytes) noexcept override;
    void flush() noexcept override;
    std::span<const std::byte> receive() noexcept override;
    void release() noexcept override;
    int fd() const noexcept override { return events_.get(); }
    void woken() noexcept override { passed_->woken(); }
    // Frames longer than those that it was made for are never received, whatever the MTU becomes.
    std::size_t frame_size() const noexcept override;

    // Frames that were lost here: refused by the interface, because it is down; received when a
    // queue was full, or too long.
    struct Losses {
        std::uint64_t refused = 0;
        std::uint64_t overrun = 0;
    };
    Losses losses() noexcept;

  private:
    XdpUplink(XdpProgram program, UniqueFd events);

    Result<> add_queues(int link_index, bool zero_copy);
    Result<> add(XskQueue queue);
    Result<> receive_passed(const std::string& interface);
    Result<> watch(int fd) const noexcept;
    void next_source() noexcept;

    std::vector<XskQueue> queues_;
    XdpProgram program_;
    std::unique_ptr<PacketUplink> passed_;
    UniqueFd events_;
    std::size_t source_ = 0;    // of the next frame: a queue, or the packet socket
    std::size_t unflushed_ = 0; // frames
    std::uint64_t refused_ = 0;
};

} // namespace vrdma::wire
