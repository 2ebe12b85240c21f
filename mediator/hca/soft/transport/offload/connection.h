// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A connected QP whose peer is on the network: its work is at the QP of the host's HCA. Whether the
// peer is there is decided once, when the QP enters RTR.
//
// The control thread brings the host's QP to RTR and RTS, since this may take long: the host's
// kernel asks for the peer's Ethernet address. The poller posts, and resets the host's QP when the
// guest's fails or ends.
#pragma once

#include <atomic>

#include "mediator/hca/soft/common/ring.h"
#include "mediator/hca/soft/transport/offload/host_qp.h"
#include "mediator/hca/soft/transport/offload/port.h"

namespace vrdma::hca::soft::offload {

// A send WQE that is at the HCA.
struct Posted {
    std::uint32_t index = 0; // in the send queue
    vrdma_sq_opcode opcode = VRDMA_SQ_SEND;
    bool signaled = false;
    std::uint64_t length = 0;
};

// A receive WQE that is there. The head of the receive queue is the oldest of them.
struct Taken {
    WqeName name;
    std::uint64_t length = 0;
};

// A completion that came while the slice was frozen.
struct Held {
    ibv_wc wc;
    bool receive;
    std::uint16_t sequence;
};

class Connection final : public NetworkConnection, public Poster {
  public:
    // Without a host's QP, no peer on the network can be connected.
    Connection(QueuePair& qp, Port& port, std::optional<HostQp> host);

    void locate_peer() noexcept override {}
    Turn send() noexcept override;
    bool is_ending() const noexcept override { return false; }
    Result<> prepare(const vrdma_qp_attr& attr) override;
    void look_for_receives() noexcept override;
    bool fits(std::uint8_t path_mtu) const noexcept override;
    void start_receiving() noexcept override;
    void start_sending() noexcept override {}
    void stop() noexcept override;
    void pause() noexcept override;
    void resume() noexcept override;
    void let_go() noexcept override;
    std::vector<std::byte> save() const override;
    Result<> restore(std::span<const std::byte> state) override;

    void complete(const ibv_wc& wc, bool receive, std::uint16_t sequence) noexcept override;
    Qpn number() const noexcept override { return qp.id; }
    void look() noexcept override;
    void tell(ibv_event_type event) noexcept override;

    QueuePair& qp;
    Port& port;
    const std::optional<HostQp> host;
    std::uint32_t place = 0; // at the port, while the peer is on the network
    Ring<Posted, HostQp::most_posted> sends;
    Ring<Taken, HostQp::most_posted> receives;

  private:
    Result<> prepare_outward(const vrdma_qp_attr& attr);
    bool is_outward(const vrdma_qp_attr& attr) const;
    Result<> forward(const vrdma_qp_attr& attr);
    void completed_send(const ibv_wc& wc, std::uint16_t sequence) noexcept;
    void completed_receive(const ibv_wc& wc, std::uint16_t sequence) noexcept;
    bool finish_oldest(ibv_wc_status status, vrdma_vendor_err reason) noexcept;
    void finish_receive(const ibv_wc& wc) noexcept;
    void distrust() noexcept;

    // Of the host's QP. The poller resets it while the control thread may bring it further, which
    // then fails.
    std::atomic<ibv_qp_state> state_{IBV_QPS_RESET};
    std::atomic<bool> outward_{false}; // it goes to a peer on the network
    bool stopping_ = false;
    bool paused_ = false;
    Ring<Held, std::size_t{2} * HostQp::most_posted> held_; // there is no more work
    bool lost_ = false; // the slice was saved, or may have been, while the peer was there
};

} // namespace vrdma::hca::soft::offload
