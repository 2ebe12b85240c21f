// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/extended.h"

#include <cerrno>
#include <vector>

#include "torture/failure.h"

namespace vrdma::torture {
namespace {

void start(ibv_qp_ex* qp, const ibv_send_wr& wr) {
    switch (wr.opcode) {
        case IBV_WR_SEND:
            return ibv_wr_send(qp);
        case IBV_WR_SEND_WITH_IMM:
            return ibv_wr_send_imm(qp, wr.imm_data);
        case IBV_WR_RDMA_WRITE:
            return ibv_wr_rdma_write(qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
        case IBV_WR_RDMA_WRITE_WITH_IMM:
            return ibv_wr_rdma_write_imm(qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr, wr.imm_data);
        case IBV_WR_RDMA_READ:
            return ibv_wr_rdma_read(qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
        case IBV_WR_ATOMIC_CMP_AND_SWP:
            return ibv_wr_atomic_cmp_swp(qp, wr.wr.atomic.rkey, wr.wr.atomic.remote_addr,
                                         wr.wr.atomic.compare_add, wr.wr.atomic.swap);
        case IBV_WR_ATOMIC_FETCH_AND_ADD:
            return ibv_wr_atomic_fetch_add(qp, wr.wr.atomic.rkey, wr.wr.atomic.remote_addr,
                                           wr.wr.atomic.compare_add);
        default:
            fail("an opcode that is not posted by ibv_wr_*()");
    }
}

void set_data(ibv_qp_ex* qp, const ibv_send_wr& wr) {
    if ((wr.send_flags & IBV_SEND_INLINE) == 0) {
        return ibv_wr_set_sge_list(qp, static_cast<std::size_t>(wr.num_sge), wr.sg_list);
    }
    std::vector<ibv_data_buf> buffers;
    for (const ibv_sge& piece : std::span{wr.sg_list, static_cast<std::size_t>(wr.num_sge)}) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr)
        buffers.push_back({reinterpret_cast<void*>(piece.addr), piece.length});
    }
    ibv_wr_set_inline_data_list(qp, buffers.size(), buffers.data());
}

std::uint64_t operations(ibv_qp_type type) {
    constexpr std::uint64_t sends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    constexpr std::uint64_t writes = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    constexpr std::uint64_t fetches = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                      IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    switch (type) {
        case IBV_QPT_UD:
            return sends;
        case IBV_QPT_UC:
            return sends | writes;
        default:
            return sends | writes | fetches;
    }
}

ibv_wc read(ibv_cq_ex* cq) {
    ibv_wc completion{};
    completion.wr_id = cq->wr_id;
    completion.status = cq->status;
    completion.vendor_err = ibv_wc_read_vendor_err(cq);
    completion.qp_num = ibv_wc_read_qp_num(cq);
    if (cq->status == IBV_WC_SUCCESS) {
        completion.opcode = ibv_wc_read_opcode(cq);
        completion.wc_flags = ibv_wc_read_wc_flags(cq);
        completion.byte_len = ibv_wc_read_byte_len(cq);
        completion.imm_data = ibv_wc_read_imm_data(cq);
        completion.src_qp = ibv_wc_read_src_qp(cq);
    }
    return completion;
}

} // namespace

int post_extended(ibv_qp_ex* qp, const ibv_send_wr* list) {
    ibv_wr_start(qp);
    for (const ibv_send_wr* wr = list; wr != nullptr; wr = wr->next) {
        qp->wr_id = wr->wr_id;
        qp->wr_flags = wr->send_flags & ~unsigned{IBV_SEND_INLINE};
        start(qp, *wr);
        if (qp->qp_base.qp_type == IBV_QPT_UD) {
            ibv_wr_set_ud_addr(qp, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
        } else if (qp->qp_base.qp_type == IBV_QPT_XRC_SEND) {
            ibv_wr_set_xrc_srqn(qp, wr->qp_type.xrc.remote_srqn);
        }
        set_data(qp, *wr);
    }
    return ibv_wr_complete(qp);
}

int poll_extended(ibv_cq_ex* cq, std::span<ibv_wc> completions) {
    ibv_poll_cq_attr attr{};
    int result = ibv_start_poll(cq, &attr);
    if (result == ENOENT) {
        return 0;
    }
    std::size_t count = 0;
    while (result == 0) {
        completions[count++] = read(cq);
        result = count < completions.size() ? ibv_next_poll(cq) : ENOENT;
    }
    ibv_end_poll(cq);
    require(result == ENOENT, "ibv_next_poll failed");
    return static_cast<int>(count);
}

ibv_qp* create_extended(ibv_pd* pd, const ibv_qp_init_attr& attr) {
    ibv_qp_init_attr_ex extended{};
    extended.send_cq = attr.send_cq;
    extended.recv_cq = attr.recv_cq;
    extended.srq = attr.srq;
    extended.cap = attr.cap;
    extended.qp_type = attr.qp_type;
    extended.sq_sig_all = attr.sq_sig_all;
    extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    extended.pd = pd;
    extended.send_ops_flags = operations(attr.qp_type);
    return ibv_create_qp_ex(pd->context, &extended);
}

ibv_cq* create_extended(ibv_context* context, int depth, ibv_comp_channel* channel) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = static_cast<std::uint32_t>(depth);
    attr.channel = channel;
    attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |
                    IBV_WC_EX_WITH_SRC_QP;
    ibv_cq_ex* const cq = ibv_create_cq_ex(context, &attr);
    return cq != nullptr ? ibv_cq_ex_to_cq(cq) : nullptr;
}

} // namespace vrdma::torture
