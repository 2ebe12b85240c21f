// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The same by the extended verbs: posting by ibv_wr_*(), polling by ibv_next_poll().
#pragma once

#include <infiniband/verbs.h>

#include <span>

namespace vrdma::torture {

// As ibv_post_send() would post them.
int post_extended(ibv_qp_ex* qp, const ibv_send_wr* list);

// As ibv_poll_cq() would find them; returns how many.
int poll_extended(ibv_cq_ex* cq, std::span<ibv_wc> completions);

// A QP that can do all that its type can, and a CQ that tells all that a message has.
ibv_qp* create_extended(ibv_pd* pd, const ibv_qp_init_attr& attr);
ibv_cq* create_extended(ibv_context* context, int depth, ibv_comp_channel* channel);

} // namespace vrdma::torture
