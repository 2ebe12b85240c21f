// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/offload/completions.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace vrdma::hca::soft::offload {

unsigned Completions::depth() const noexcept {
    constexpr int enough = 8191;
    return static_cast<unsigned>(std::clamp(device_->attr().max_cqe, 1, enough));
}

void Completions::make_valid(ibv_wc& wc) noexcept {
    std::uint32_t status = 0;
    std::uint32_t opcode = 0;
    static_assert(sizeof(status) == sizeof(wc.status) && sizeof(opcode) == sizeof(wc.opcode));
    std::memcpy(&status, &wc.status, sizeof(status));
    std::memcpy(&opcode, &wc.opcode, sizeof(opcode));
    if (status > IBV_WC_GENERAL_ERR) {
        wc.status = IBV_WC_GENERAL_ERR;
    }
    if (opcode > IBV_WC_RECV_RDMA_WITH_IMM) {
        wc.opcode = IBV_WC_SEND;
    }
}

Result<Completions::Queue*> Completions::add() {
    const std::size_t count = count_.load(std::memory_order_relaxed);
    if (count == most) {
        return fail(std::errc::not_enough_memory);
    }
    auto cq = host::create_cq(device_, static_cast<int>(depth()), channel_);
    if (!cq) {
        return fail(cq.error());
    }
    queues_[count] = std::make_unique<Queue>(Queue{std::move(*cq), depth()});
    count_.store(count + 1, std::memory_order_release);
    return queues_[count].get();
}

Result<Completions::Share> Completions::take(unsigned entries) {
    if (entries > depth()) {
        return fail(std::errc::not_enough_memory);
    }
    const std::size_t count = count_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < count; ++i) {
        if (queues_[i]->left >= entries) {
            queues_[i]->left -= entries;
            return Share{*queues_[i], entries};
        }
    }
    return add().map([&](Queue* queue) {
        queue->left -= entries;
        return Share{*queue, entries};
    });
}

void Completions::arm() noexcept {
    const std::size_t count = count_.load(std::memory_order_acquire);
    for (; armed_ < count; ++armed_) {
        broken_ |= ibv_req_notify_cq(queues_[armed_]->cq.get(), 0) != 0;
    }
}

void Completions::take_events() noexcept {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    while (device_->library().get_cq_event(channel_.get(), &cq, &context) == 0) {
        device_->library().ack_cq_events(cq, 1);
        armed_ = 0;
    }
}

} // namespace vrdma::hca::soft::offload
