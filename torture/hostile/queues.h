// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The objects that most neighbours need: registered memory, CQs, and QPs that are connected to
// themselves.
#pragma once

#include "torture/device.h"

namespace vrdma::torture::hostile {

// Registered memory whose pages are present.
class Region {
  public:
    Region(ibv_pd* pd, std::size_t size, int access = all_access);

    std::byte* data() const { return memory_.data(); }
    std::size_t size() const { return memory_.size(); }
    std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(data()); }
    std::uint32_t key() const { return region_->rkey; }
    ibv_sge piece(std::uint64_t offset, std::uint32_t length) const {
        return {address() + offset, length, region_->lkey};
    }

  private:
    Memory memory_;
    Mr region_;
};

Pd make_pd(const Device& device);
// The CQ is at most as deep as the device allows.
Cq make_cq(const Device& device, std::uint32_t depth, ibv_comp_channel* channel = nullptr);

Qp make_qp(ibv_pd* pd, ibv_cq* send_cq, ibv_cq* recv_cq, std::uint32_t depth);
void initialize(const Device& device, ibv_qp* qp);
// From RESET to RTS, connected to itself.
void connect_to_itself(const Device& device, ibv_qp* qp);
Qp connected_to_itself(const Device& device, ibv_pd* pd, ibv_cq* cq, std::uint32_t depth);
void to_state(ibv_qp* qp, ibv_qp_state state);

// A WRITE of `from` to an address of the region; nothing is signaled.
ibv_send_wr write_request(ibv_sge& from, const Region& to, std::uint64_t offset);
// False: the send queue has no room.
bool post(ibv_qp* qp, ibv_send_wr& wr);

// Takes all completions, whatever they say.
template <typename Take>
void drain(ibv_cq* cq, Take&& take) {
    constexpr int most_at_once = 64;
    std::array<ibv_wc, most_at_once> completions;
    int count = 0;
    do {
        count = ::ibv_poll_cq(cq, most_at_once, completions.data());
        for (int i = 0; i < count; ++i) {
            take(completions[static_cast<std::size_t>(i)]);
        }
    } while (count == most_at_once);
}

} // namespace vrdma::torture::hostile
