// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The CQs of a conversation: one or two, polled or waited for.
#pragma once

#include <functional>

#include "torture/control_connection.h"
#include "torture/device.h"

namespace vrdma::torture {

// A bit of wr_id.
constexpr std::uint64_t is_receive = 1ull << 63;

class Completions {
  public:
    Completions(const Device& device, Random& random);

    ibv_cq* send_cq() const { return send_.get(); }
    ibv_cq* receive_cq() const { return receive_ ? receive_.get() : send_.get(); }

    using Take = std::function<void(const ibv_wc&)>;
    // Passes completions to `take` until `done` returns true. Ends the process if the last one does
    // not come.
    void await(const ControlConnection& control, Random& random, const std::function<bool()>& done,
               const Take& take) const;

    // Completions may arrive meanwhile.
    void resize(Random& random) const;

    // Whether there is nothing to poll.
    bool empty() const;

  private:
    bool poll(const Take& take) const;
    void await_event() const;

    int poll(ibv_cq* cq, std::span<ibv_wc> completions) const;
    Cq made_cq(const Device& device) const;

    bool extended_; // created and polled as extended CQs
    Channel channel_;
    Cq send_;
    Cq receive_; // or none: one CQ for both
};

} // namespace vrdma::torture
