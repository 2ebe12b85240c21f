// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/hostile/queues.h"

#include <algorithm>
#include <cstring>

namespace vrdma::torture::hostile {
namespace {

Memory touched(std::size_t size) {
    Memory memory{size};
    std::memset(memory.data(), 1, size);
    return memory;
}

} // namespace

Region::Region(ibv_pd* pd, std::size_t size, int access)
    : memory_{touched(size)},
      region_{made(::ibv_reg_mr(pd, memory_.data(), size, access), "ibv_reg_mr")} {}

Pd make_pd(const Device& device) {
    return Pd{made(::ibv_alloc_pd(device.context()), "ibv_alloc_pd")};
}

Cq make_cq(const Device& device, std::uint32_t depth, ibv_comp_channel* channel) {
    ibv_device_attr limits;
    check(::ibv_query_device(device.context(), &limits), "ibv_query_device");
    return Cq{
        made(::ibv_create_cq(device.context(), std::min(static_cast<int>(depth), limits.max_cqe),
                             nullptr, channel, 0),
             "ibv_create_cq")};
}

Qp make_qp(ibv_pd* pd, ibv_cq* send_cq, ibv_cq* recv_cq, std::uint32_t depth) {
    ibv_qp_init_attr attr{};
    attr.send_cq = send_cq;
    attr.recv_cq = recv_cq;
    attr.cap = {.max_send_wr = depth,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    attr.qp_type = IBV_QPT_RC;
    return Qp{made(::ibv_create_qp(pd, &attr), "ibv_create_qp")};
}

void initialize(const Device& device, ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = port;
    attr.pkey_index = device.pkey_index();
    attr.qp_access_flags = all_access;
    check(::ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
          "modify to INIT");
}

void connect_to_itself(const Device& device, ibv_qp* qp) {
    initialize(device, qp);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = qp->qp_num;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 1;
    attr.ah_attr = device.address(device.gid());
    check(::ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
          "modify to RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    check(::ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
          "modify to RTS");
}

Qp connected_to_itself(const Device& device, ibv_pd* pd, ibv_cq* cq, std::uint32_t depth) {
    Qp qp = make_qp(pd, cq, cq, depth);
    connect_to_itself(device, qp.get());
    return qp;
}

void to_state(ibv_qp* qp, ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    check(::ibv_modify_qp(qp, &attr, IBV_QP_STATE), "modify to ERR or RESET");
}

ibv_send_wr write_request(ibv_sge& from, const Region& to, std::uint64_t offset) {
    ibv_send_wr wr{};
    wr.sg_list = &from;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma = {.remote_addr = to.address() + offset, .rkey = to.key()};
    return wr;
}

bool post(ibv_qp* qp, ibv_send_wr& wr) {
    ibv_send_wr* bad = nullptr;
    return ::ibv_post_send(qp, &wr, &bad) == 0;
}

} // namespace vrdma::torture::hostile
