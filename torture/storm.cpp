// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Objects are created and destroyed in any legal order, and in some illegal ones. Nothing is sent.
#include <sys/mman.h>

#include "torture/conversation.h"

namespace vrdma::torture {
namespace {

constexpr std::uint32_t most_objects = 64;

struct Region {
    Memory memory;
    Mr mr;
};

class Storm {
  public:
    explicit Storm(Conversation& c)
        : c_{c}, pd_{made(::ibv_alloc_pd(c.device.context()), "ibv_alloc_pd")} {}

    void blow();

  private:
    void register_memory();
    void create_cq();
    void create_srq();
    void create_qp();
    void create_ah();
    void destroy_one();
    void destroy_in_use();
    ibv_pd* some_pd() { return pds_.empty() ? pd_.get() : c_.own.pick(pds_).get(); }

    Conversation& c_;
    // Members are in this order so that users are destroyed before the objects that they use.
    Pd pd_; // for some_pd() while pds_ is empty
    std::vector<Pd> pds_;
    std::vector<Cq> cqs_;
    std::vector<Region> regions_;
    std::vector<Srq> srqs_;
    std::vector<Ah> ahs_;
    std::vector<Qp> qps_;
};

void Storm::register_memory() {
    Region region{Memory{c_.own.between(1, 1 << 20)}, nullptr};
    if (c_.own.chance(50)) {
        fill({region.memory.data(), region.memory.size()}, 1);
    }
    region.mr.reset(made(::ibv_reg_mr(some_pd(), region.memory.data(), region.memory.size(),
                                      c_.own.chance(50) ? all_access : 0),
                         "ibv_reg_mr"));
    regions_.push_back(std::move(region));
}

void Storm::create_cq() {
    const auto depth = static_cast<int>(c_.own.between(1, 1000));
    cqs_.emplace_back(
        made(::ibv_create_cq(c_.device.context(), depth, nullptr, nullptr, 0), "ibv_create_cq"));
}

void Storm::create_srq() {
    ibv_srq_init_attr attr{};
    attr.attr = {.max_wr = c_.own.between(1, 100), .max_sge = c_.own.between(1, 8), .srq_limit = 0};
    srqs_.emplace_back(made(::ibv_create_srq(some_pd(), &attr), "ibv_create_srq"));
}

void Storm::create_qp() {
    if (cqs_.empty()) {
        return;
    }
    ibv_qp_init_attr attr{};
    attr.send_cq = c_.own.pick(cqs_).get();
    attr.recv_cq = c_.own.pick(cqs_).get();
    attr.srq = srqs_.empty() || c_.own.chance(50) ? nullptr : c_.own.pick(srqs_).get();
    attr.cap = {.max_send_wr = c_.own.between(1, 100),
                .max_recv_wr = c_.own.between(1, 100),
                .max_send_sge = c_.own.between(1, 8),
                .max_recv_sge = c_.own.between(1, 8),
                .max_inline_data = c_.own.below(100)};
    attr.qp_type = c_.own.chance(70) ? IBV_QPT_RC : IBV_QPT_UD;
    qps_.emplace_back(made(::ibv_create_qp(some_pd(), &attr), "ibv_create_qp"));
    if (c_.own.chance(50)) {
        ibv_qp_attr change{};
        change.qp_state = IBV_QPS_INIT;
        change.port_num = port;
        const int kind = attr.qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
        check(::ibv_modify_qp(qps_.back().get(), &change,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | kind),
              "modify to INIT");
    }
}

void Storm::create_ah() {
    ibv_ah_attr attr = c_.device.address(c_.device.gid());
    ahs_.emplace_back(made(::ibv_create_ah(some_pd(), &attr), "ibv_create_ah"));
}

void Storm::destroy_one() {
    const auto drop = [&](auto& list) {
        if (!list.empty()) {
            std::swap(c_.own.pick(list), list.back());
            list.pop_back();
        }
    };
    switch (c_.own.below(3)) {
        case 0:
            return drop(qps_);
        case 1:
            return drop(regions_);
        default:
            return drop(ahs_);
    }
}

// Objects in use cannot be destroyed, and go on working.
void Storm::destroy_in_use() {
    if (!qps_.empty()) {
        require(::ibv_destroy_cq(qps_.back()->send_cq) == EBUSY, "a CQ in use was destroyed");
        require(::ibv_dealloc_pd(qps_.back()->pd) == EBUSY, "a PD in use was destroyed");
    }
}

void Storm::blow() {
    for (std::uint32_t left = c_.own.length(most_objects); left > 0; --left) {
        switch (c_.own.below(8)) {
            case 0:
                pds_.emplace_back(made(::ibv_alloc_pd(c_.device.context()), "ibv_alloc_pd"));
                break;
            case 1:
                register_memory();
                break;
            case 2:
                create_cq();
                break;
            case 3:
                create_srq();
                break;
            case 4:
                create_qp();
                break;
            case 5:
                create_ah();
                break;
            case 6:
                destroy_one();
                break;
            default:
                destroy_in_use();
        }
    }
}

} // namespace

void storm(Conversation& c) {
    place.doing = "storm";
    Storm{c}.blow();
}

} // namespace vrdma::torture
