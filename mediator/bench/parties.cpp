// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/bench/parties.h"

namespace vrdma::bench {
namespace {

hca::soft::Config config(unsigned pollers) {
    hca::soft::Config config;
    config.pollers = pollers;
    if (pollers < std::thread::hardware_concurrency()) {
        config.poll = {std::chrono::seconds{10}, std::chrono::seconds{10}};
    }
    return config;
}

} // namespace

Pair::Pair(const PairOptions& options) {
    if (options.pollers == 1) {
        pin_to_core(poller_core);
    } else {
        pin_to_any_core();
    }
    hca_ = std::move(*hca::soft::SoftHca::create(config(options.pollers)));
    pin_to_core(guest_core);
    a_ = std::make_unique<test::Guest>(*hca_, "a", test::ipv4_gid(1));
    b_ = std::make_unique<test::Guest>(*hca_, "b", test::ipv4_gid(2));
    a_cq_ = std::make_unique<test::GuestCq>(a_->create_cq(1024));
    b_cq_ = std::make_unique<test::GuestCq>(b_->create_cq(1024));
    a_mr_ = a_->register_mr(options.region_size, {.scattered = false});
    b_mr_ = b_->register_mr(options.region_size, {.scattered = false});
    add_idle_pairs(options.idle_pairs);
    const test::QpShape shape{.sq_depth = 256, .sq_stride_shift = 6, .max_inline = 40};
    a_qp_ = std::make_unique<test::GuestQp>(a_->create_qp(*a_cq_, *a_cq_, shape));
    b_qp_ = std::make_unique<test::GuestQp>(b_->create_qp(*b_cq_, *b_cq_, shape));
    connect_both(*a_, *a_qp_, *b_, *b_qp_);
}

void Pair::add_idle_pairs(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
        const test::GuestQp from = a_->create_qp(*a_cq_, *a_cq_);
        const test::GuestQp to = b_->create_qp(*b_cq_, *b_cq_);
        connect_both(*a_, from, *b_, to);
    }
}

void Pair::write_word(test::GuestQp& qp, const test::MemoryRegion& to, std::uint64_t value) {
    qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                  .flags = VRDMA_SQ_INLINE,
                  .inline_data = std::as_bytes(std::span{&value, 1}),
                  .rkey = to.key,
                  .raddr = to.start});
    const auto& target = *to.buffer.at<std::uint64_t>(0);
    while (load_acquire(target) != value) {
    }
}

} // namespace vrdma::bench
