// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The guest's end of a shared receive queue: posts WQEs as a provider does.
#pragma once

#include <algorithm>
#include <span>

#include "mediator/memory/shared_words.h"
#include "mediator/tests/guest/buffer.h"
#include "vrdma/queue.h"

namespace vrdma::test {

struct SrqShape {
    std::uint32_t depth = 16;
    std::uint8_t stride_shift = 6;
    std::uint16_t max_sge = 3;
    PdId pd{1};
    XrcdId xrcd{};
    Cqn cq{}; // with an XRC domain
};

class GuestSrq {
  public:
    GuestSrq(Srqn id, const SrqShape& shape, Buffer buffer)
        : id_{id}, shape_{shape}, buffer_{std::move(buffer)} {}

    Srqn id() const { return id_; }
    const SrqShape& shape() const { return shape_; }
    const hca::Translation& pages() const { return buffer_.pages(); }

    void post_recv(std::uint32_t cookie, std::span<const vrdma_sge> sges) {
        auto& wqe = *buffer_.at<vrdma_rq_wqe>(place());
        wqe.cookie = cookie;
        const auto bytes = std::as_bytes(sges);
        std::copy(bytes.begin(), bytes.end(), buffer_.at(place() + VRDMA_RQ_PAYLOAD_OFFSET));
        const auto num_sge = static_cast<std::uint32_t>(sges.size());
        publish(VRDMA_SET(VRDMA_WQE_NUM_SGE, num_sge));
    }

    // Posts an entry of any content, and makes it valid. No provider does that.
    void post_raw(std::uint32_t ctrl, std::span<const std::byte> rest) {
        const std::size_t room = (std::size_t{1} << shape_.stride_shift) - sizeof(ctrl);
        const auto bytes = rest.first(std::min(rest.size(), room));
        std::copy(bytes.begin(), bytes.end(), buffer_.at(place() + sizeof(ctrl)));
        publish(ctrl);
    }

    // Another ring (see vrdma_cmd_resize_srq). Call prepare() before the command, and adopt() after
    // it.
    void prepare(Buffer& buffer, std::uint32_t depth) {
        const std::size_t stride = std::size_t{1} << shape_.stride_shift;
        for (std::uint32_t index = head_ - depth; index != head_; ++index) {
            std::byte* to = buffer.at(place(index, depth));
            if (head_ - index <= shape_.depth) {
                std::copy_n(buffer_.at(place(index, shape_.depth)), stride, to);
            }
            auto& ctrl = *reinterpret_cast<std::uint32_t*>(to);
            ctrl = (ctrl & ~VRDMA_WQE_PHASE) | phase(index, depth);
        }
    }
    void adopt(Buffer buffer, std::uint32_t depth) {
        buffer_ = std::move(buffer);
        shape_.depth = depth;
    }

  private:
    std::uint64_t place(std::uint32_t index, std::uint32_t depth) const {
        return std::uint64_t{index & (depth - 1)} << shape_.stride_shift;
    }
    std::uint64_t place() const { return place(head_, shape_.depth); }
    static std::uint32_t phase(std::uint32_t index, std::uint32_t depth) {
        return (index & depth) == 0 ? VRDMA_WQE_PHASE : 0;
    }
    void publish(std::uint32_t ctrl) {
        store_release(*buffer_.at<std::uint32_t>(place()),
                      (ctrl & ~VRDMA_WQE_PHASE) | phase(head_, shape_.depth));
        ++head_;
    }

    Srqn id_;
    SrqShape shape_;
    Buffer buffer_;
    std::uint32_t head_ = 0;
};

} // namespace vrdma::test
