// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A UD QP at the host's HCA. Datagrams are short, so they are copied: from the guest to a buffer at
// the HCA, and from such a buffer to the guest, by the way of a datagram that came as a packet. So
// all kinds of guest memory will do.
#pragma once

#include <optional>

#include "mediator/hca/soft/slice/request.h"
#include "mediator/hca/soft/transport/offload/host_qp.h"
#include "mediator/hca/soft/transport/offload/port.h"

namespace vrdma::hca::soft::offload {

class Datagrams final : public NetworkConnection, public Poster {
  public:
    static constexpr unsigned most = HostQp::most_datagrams; // in each direction

    Datagrams(QueuePair& qp, Port& port, HostQp host);

    // ok: the datagram was sent.
    Ack send(const Request& request, const Route& route) noexcept;

    // Only datagrams leave the host, one by one: see NetworkPort::send_datagram().
    void locate_peer() noexcept override {}
    Turn send() noexcept override { return Turn::idle; }
    bool is_ending() const noexcept override { return false; }
    Result<> prepare(const vrdma_qp_attr& attr) override;
    bool fits(std::uint8_t /*path_mtu*/) const noexcept override { return true; }
    void start_receiving() noexcept override;
    void start_sending() noexcept override {}
    void stop() noexcept override;
    void pause() noexcept override {} // what comes meanwhile is dropped
    void resume() noexcept override;
    void let_go() noexcept override;
    std::vector<std::byte> save() const override { return {}; }
    Result<> restore(std::span<const std::byte> /*state*/) override { return {}; }

    void complete(const ibv_wc& wc, bool receive, std::uint16_t sequence) noexcept override;
    void tell(ibv_event_type event) noexcept override;
    Qpn number() const noexcept override { return qp_.id; }

  private:
    std::span<std::byte> outgoing(unsigned sequence) const noexcept;
    std::span<std::byte> incoming(unsigned sequence) const noexcept;
    bool post_receive(unsigned sequence) noexcept;
    void completed_receive(const ibv_wc& wc, unsigned sequence) noexcept;
    void deliver(std::span<const std::byte> header, std::span<const std::byte> payload,
                 const ibv_wc& wc) noexcept;

    QueuePair& qp_;
    Port& port_;
    const HostQp host_;
    bool running_ = false; // the HCA's QP receives
    bool lost_ = false;    // the slice was saved, or may have been
    std::uint32_t place_ = 0;
    std::uint16_t sent_ = 0; // free-running counts
    std::uint16_t completed_ = 0;
};

} // namespace vrdma::hca::soft::offload
