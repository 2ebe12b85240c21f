// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The guest's end of a completion queue.
#pragma once

#include <infiniband/verbs.h>

#include <bit>
#include <optional>

#include "mediator/tests/guest/buffer.h"
#include "vrdma/queue.h"

namespace vrdma::test {

// A decoded CQE.
struct Completion {
    ibv_wc_status status = IBV_WC_SUCCESS;
    ibv_wc_opcode opcode = IBV_WC_SEND;
    bool receive = false;
    bool with_imm = false;
    bool with_inv = false; // imm is the key
    bool with_grh = false;
    std::uint32_t qpn = 0;
    std::uint32_t index = 0;
    std::uint32_t byte_len = 0;
    std::uint32_t imm = 0;
    std::uint32_t src_qpn = 0;
    std::uint32_t srqn = 0; // XRC
    std::uint32_t vendor_err = 0;
    std::uint8_t header = 0;
    std::uint16_t vlan = 0;
    std::uint64_t timestamp = 0;
};

class GuestCq {
  public:
    GuestCq(Cqn id, Buffer buffer, std::uint32_t depth);

    Cqn id() const { return id_; }
    vrdma_cq_control& control() const { return *control_; }

    // The next completion, if there is one.
    std::optional<Completion> poll();
    // Whether there is one, without decoding or taking it.
    bool ready() const { return valid(*next_); }
    void take();
    // As ibv_req_notify_cq; poll once more after it.
    void arm(bool solicited_only);

    // Another ring (see vrdma_cmd_resize_cq). Call prepare() before the command, and adopt() after
    // it.
    void prepare(Buffer& buffer, std::uint32_t depth) const;
    void adopt(Buffer buffer, std::uint32_t depth);

  private:
    bool valid(const vrdma_cqe& entry) const;
    static vrdma_cqe* place(Buffer& buffer, std::uint32_t index, std::uint32_t depth);
    void seek();

    Cqn id_;
    Buffer buffer_;
    std::uint32_t depth_;
    vrdma_cq_control* control_;
    vrdma_cqe* next_ = nullptr;
    std::uint32_t consumer_ = 0;
    std::uint32_t sequence_ = 0;
};

} // namespace vrdma::test
