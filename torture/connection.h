// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A QP on each side, connected to each other. With XRC, each side has two: one sends, and one
// receives.
#pragma once

#include "torture/completions.h"
#include "torture/control_connection.h"
#include "torture/device.h"

namespace vrdma::torture {

inline constexpr std::uint32_t atomic_size = sizeof(std::uint64_t);

// The properties that both sides have in common.
struct Shape {
    ibv_qp_type type = IBV_QPT_RC;
    bool shared = false; // receives from the conversation's SRQ
    bool signal_all = false;
    bool extended = false;        // posts by ibv_wr_*()
    std::uint8_t rnr_retries = 7; // 7: waits without limit for a receive
    std::uint32_t send_depth = 1;
    std::uint32_t receive_depth = 1;
    std::uint32_t send_sges = 1;
    std::uint32_t receive_sges = 1;
    std::uint32_t inline_size = 0;
    std::uint8_t rd_atomic = 1;
    std::uint8_t rnr_timer = 1;
    std::uint8_t timeout = 14; // 67 ms, eight times with retries

    static Shape drawn(Random& script);
    // The same for a network that loses packets, or is silent for seconds.
    Shape on_lossy_network() const;
    std::uint32_t longest() const;
    bool patient() const { return rnr_retries == 7; }
    bool reliable() const { return type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND; }
    std::size_t header() const { return type == IBV_QPT_UD ? grh_size : 0; }
};

// The objects of a conversation that its connections use.
struct Parts {
    ibv_pd* pd;
    const Completions& completions;
    ibv_srq* srq;
    ibv_xrcd* xrcd;
    ibv_srq* xrc_srq;
};

class Connection {
  public:
    Connection(const Shape& shape, const Device& device, const Parts& parts);

    const Shape& shape() const { return shape_; }
    ibv_qp* qp() const { return qp_.get(); }
    // The QP that receives. With XRC, it is another one.
    ibv_qp* receiver() const { return receiver_ ? receiver_.get() : qp(); }
    // Whether one of its QPs has this number.
    bool has(std::uint32_t qpn) const;
    // Sets the destination of a datagram, or of an XRC request.
    void address(ibv_send_wr& wr) const;
    std::uint32_t peer_qpn() const { return peer_.qpn; }

    // From RESET to RTS. The peer does it at the same time.
    void connect(const ControlConnection& control, Random& own);
    void to_state(ibv_qp_state state) const;
    ibv_qp_state state() const;

    void post(ibv_send_wr* list) const;
    void post_receive(std::uint64_t id, std::span<ibv_sge> pieces) const;

  private:
    struct Names {
        std::uint32_t qpn;
        std::uint32_t receiver;
        std::uint32_t srqn; // XRC
        std::uint32_t psn;
        ibv_gid gid;
    };
    Names names(Random& own) const;
    void initialize(ibv_qp* qp) const;
    void ready_to_receive(ibv_qp* qp, std::uint32_t from, ibv_ah_attr path) const;
    void ready_to_send(std::uint32_t psn) const;

    Shape shape_;
    const Device& device_;
    Parts parts_;
    Ah ah_;
    Qp qp_;
    Qp receiver_; // XRC
    Names peer_{};
};

} // namespace vrdma::torture
