// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The extended verbs: posting by ibv_wr_*(), polling by ibv_next_poll().
#pragma once

#include <infiniband/verbs.h>

#include <span>

namespace vrdma::torture {

// Posts the list as ibv_post_send() would.
int post_extended(ibv_qp_ex* qp, const ibv_send_wr* list);

// Polls as ibv_poll_cq() would. Returns the number of completions.
int poll_extended(ibv_cq_ex* cq, std::span<ibv_wc> completions);

// A QP with all operations of its type, and a CQ that reports all fields of a completion.
ibv_qp* create_extended(ibv_pd* pd, const ibv_qp_init_attr& attr);
ibv_cq* create_extended(ibv_context* context, int depth, ibv_comp_channel* channel);

} // namespace vrdma::torture
