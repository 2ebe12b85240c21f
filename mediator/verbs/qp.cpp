// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/qp.h"

#include <infiniband/verbs.h>

#include <algorithm>

#include "mediator/verbs/qp_transition.h"
#include "mediator/verbs/ring_check.h"

namespace vrdma::verbs {
namespace {

constexpr std::uint32_t last_qpn = 0xfffffe; // the one after it means multicast
constexpr std::uint32_t psn_mask = 0xffffff;
constexpr std::uint32_t qpn_mask = 0xffffff;
constexpr std::uint8_t max_timer = 31;
constexpr std::uint8_t max_retries = 7;
constexpr std::uint32_t known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

std::uint64_t buffer_size(const hca::QpSpec& spec) {
    return vrdma_qp_buffer_size(spec.sq_depth, spec.sq_stride_shift, spec.rq_depth,
                                spec.rq_stride_shift);
}

bool valid_type(std::uint8_t type) {
    return type >= static_cast<std::uint8_t>(hca::QpType::rc) &&
           type <= static_cast<std::uint8_t>(hca::QpType::ud);
}

// A ring, or none.
bool valid_ring(std::uint32_t depth, std::uint32_t max_depth, unsigned shift, unsigned min_shift,
                std::uint64_t wqe_size) {
    return valid_stride(shift, min_shift, wqe_size) &&
           (depth == 0 || valid_depth(depth, max_depth));
}

// A command and a saved state name what a queue pair is made of alike.
template <typename Source>
Qp from(const Source& source) {
    Qp qp;
    qp.ucontext = UcontextId{source.ucontext};
    qp.spec.pd = PdId{source.pd};
    qp.spec.send_cq = Cqn{source.send_cq};
    qp.spec.recv_cq = Cqn{source.recv_cq};
    qp.spec.srq = Srqn{source.srq};
    qp.spec.sq_depth = source.sq_depth;
    qp.spec.rq_depth = source.rq_depth;
    qp.spec.sq_stride_shift = source.sq_stride_shift;
    qp.spec.rq_stride_shift = source.rq_stride_shift;
    qp.spec.max_inline = source.max_inline;
    qp.spec.max_send_sge = source.max_send_sge;
    qp.spec.max_recv_sge = source.max_recv_sge;
    qp.spec.type = hca::QpType{source.qp_type};
    qp.spec.signal_all = (source.flags & VRDMA_QP_SQ_SIGNAL_ALL) != 0;
    qp.spec.doorbell_page = source.ucontext;
    return qp;
}

bool has(const vrdma_qp_attr& attr, std::uint32_t field) {
    return (attr.attr_mask & field) != 0;
}

// Ranges of the scalar attributes that the mask names.
bool valid_ranges(const vrdma_qp_attr& attr, const Limits& limits) {
    const auto above = [&](std::uint32_t field, std::uint32_t value, std::uint32_t max) {
        return has(attr, field) && value > max;
    };
    return !(above(IBV_QP_STATE, attr.state, IBV_QPS_ERR) ||
             above(IBV_QP_CUR_STATE, attr.cur_state, IBV_QPS_ERR) ||
             above(IBV_QP_PKEY_INDEX, attr.pkey_index, 0) ||
             above(IBV_QP_DEST_QPN, attr.dest_qpn, qpn_mask) ||
             above(IBV_QP_TIMEOUT, attr.timeout, max_timer) ||
             above(IBV_QP_MIN_RNR_TIMER, attr.min_rnr_timer, max_timer) ||
             above(IBV_QP_RETRY_CNT, attr.retry_cnt, max_retries) ||
             above(IBV_QP_RNR_RETRY, attr.rnr_retry, max_retries) ||
             above(IBV_QP_MAX_QP_RD_ATOMIC, attr.max_rd_atomic, limits.max_rd_atomic) ||
             above(IBV_QP_MAX_DEST_RD_ATOMIC, attr.max_dest_rd_atomic, limits.max_rd_atomic) ||
             above(IBV_QP_EN_SQD_ASYNC_NOTIFY, attr.sq_drained_notify, 1)) &&
           !(has(attr, IBV_QP_PORT) && attr.port_num != port_number) &&
           !(has(attr, IBV_QP_PATH_MTU) &&
             (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > IBV_MTU_4096)) &&
           !(has(attr, IBV_QP_ACCESS_FLAGS) && (attr.access_flags & ~known_access) != 0);
}

} // namespace

QpTable::QpTable(Resources& resources, UcontextTable& ucontexts, PdTable& pds, CqTable& cqs,
                 SrqTable& srqs, const GidTable& gids)
    : resources_{resources},
      ucontexts_{ucontexts},
      pds_{pds},
      cqs_{cqs},
      srqs_{srqs},
      gids_{gids},
      qpns_{last_qpn},
      table_{resources.limits.max_qp} {}

// All that a queue pair uses belongs to the user context that it belongs to.
Result<> QpTable::check_owner(UcontextId ucontext, const hca::QpSpec& spec) const {
    const Pd* pd = pds_.find(spec.pd);
    const Cq* send_cq = cqs_.find(spec.send_cq);
    const Cq* recv_cq = cqs_.find(spec.recv_cq);
    if (ucontexts_.find(ucontext) == nullptr || pd == nullptr || send_cq == nullptr ||
        recv_cq == nullptr || pd->ucontext != ucontext || send_cq->ucontext != ucontext ||
        recv_cq->ucontext != ucontext) {
        return fail(std::errc::invalid_argument);
    }
    if (spec.srq == Srqn{}) {
        return {};
    }
    const Srq* srq = srqs_.find(spec.srq);
    const bool valid =
        srq != nullptr && srq->ucontext == ucontext && spec.rq_depth == 0 && spec.max_recv_sge == 0;
    return valid ? Result<>{} : fail(std::errc::invalid_argument);
}

Result<> QpTable::check_sizes(const hca::QpSpec& spec) const {
    const Limits& limits = resources_.limits;
    const std::uint64_t send_sges = std::uint64_t{spec.max_send_sge} * sizeof(vrdma_sge);
    const std::uint64_t send_payload = std::max<std::uint64_t>(send_sges, spec.max_inline);
    const bool valid =
        spec.max_inline <= limits.max_inline && spec.max_send_sge <= limits.max_sge &&
        spec.max_recv_sge <= limits.max_sge &&
        valid_ring(spec.sq_depth, limits.max_qp_wr, spec.sq_stride_shift, VRDMA_SQ_MIN_STRIDE_SHIFT,
                   VRDMA_SQ_PAYLOAD_OFFSET + send_payload) &&
        valid_ring(spec.rq_depth, limits.max_qp_wr, spec.rq_stride_shift, VRDMA_RQ_MIN_STRIDE_SHIFT,
                   receive_size(spec.max_recv_sge));
    return valid ? Result<>{} : fail(std::errc::invalid_argument);
}

Result<> QpTable::check(const Qp& qp) const {
    if (const auto valid = check_owner(qp.ucontext, qp.spec); !valid) {
        return valid;
    }
    if (const auto valid = check_sizes(qp.spec); !valid) {
        return valid;
    }
    return table_.full() ? fail(std::errc::not_enough_memory) : Result<>{};
}

Result<std::uint32_t> QpTable::add(Qp qp, Buffer buffer) {
    qp.spec.pages = std::move(buffer.pages);
    if (!valid_offset(qp.spec.pages, std::max(qp.spec.sq_stride_shift, qp.spec.rq_stride_shift))) {
        return fail(std::errc::invalid_argument);
    }
    const auto slot = resources_.slice.create_qp(qp.spec);
    if (!slot) {
        return slot;
    }
    qp.lease = std::move(buffer.lease);
    qp.owner = ucontexts_.find(qp.ucontext)->users.hold();
    qp.pd = pds_.find(qp.spec.pd)->users.hold();
    qp.send_cq = cqs_.find(qp.spec.send_cq)->users.hold();
    qp.recv_cq = cqs_.find(qp.spec.recv_cq)->users.hold();
    if (Srq* srq = srqs_.find(qp.spec.srq); srq != nullptr) {
        qp.srq = srq->users.hold();
    }
    const Qpn id = qp.spec.id;
    table_.insert(id, std::move(qp));
    return slot;
}

Result<NewQp> QpTable::create(const vrdma_cmd_create_qp& cmd) {
    if (!valid_type(cmd.qp_type)) {
        return fail(std::errc::operation_not_supported);
    }
    if ((cmd.flags & ~VRDMA_QP_SQ_SIGNAL_ALL) != 0 || cmd.reserved != 0) {
        return fail(std::errc::invalid_argument);
    }
    Qp qp = from(cmd);
    if (const auto valid = check(qp); !valid) {
        return fail(valid.error());
    }
    auto buffer = read_page_list(resources_.memory, resources_.blocks, cmd.pages, cmd.first_offset,
                                 buffer_size(qp.spec));
    if (!buffer) {
        return fail(buffer.error());
    }
    const auto id =
        qpns_.pick([this](std::uint32_t qpn) { return table_.find(Qpn{qpn}) != nullptr; });
    if (!id) {
        return fail(id.error());
    }
    qp.spec.id = Qpn{*id};
    const auto slot = add(std::move(qp), std::move(*buffer));
    if (!slot) {
        return fail(slot.error());
    }
    return NewQp{Qpn{*id}, *slot};
}

Result<> QpTable::check_path(const vrdma_qp_attr& attr) const {
    constexpr std::uint8_t multicast = 0xff;
    if (!has(attr, IBV_QP_AV)) {
        return {};
    }
    if (attr.av.dgid[0] == multicast) {
        return fail(std::errc::invalid_argument);
    }
    return check_av(attr.av, gids_);
}

Result<> QpTable::modify(const vrdma_cmd_modify_qp& cmd) {
    const Qp* qp = table_.find(Qpn{cmd.qpn});
    vrdma_qp_attr attr = cmd.attr;
    if (qp == nullptr || cmd.reserved != 0 || attr.reserved != 0 || attr.sq_draining != 0) {
        return fail(std::errc::invalid_argument);
    }
    const auto now = resources_.slice.query_qp(qp->spec.id);
    if (!now) {
        return fail(now.error());
    }
    if (has(attr, IBV_QP_CUR_STATE) && attr.cur_state != now->state) {
        return fail(std::errc::invalid_argument);
    }
    const std::uint8_t to = has(attr, IBV_QP_STATE) ? attr.state : now->state;
    if (const auto legal = check_transition(qp->spec.type, now->state, to, attr.attr_mask);
        !legal) {
        return legal;
    }
    if (!valid_ranges(attr, resources_.limits)) {
        return fail(std::errc::invalid_argument);
    }
    if (const auto reachable = check_path(attr); !reachable) {
        return reachable;
    }
    // Programs hand in random 32-bit numbers, and every HCA takes what it needs of them.
    attr.rq_psn &= psn_mask;
    attr.sq_psn &= psn_mask;
    return resources_.slice.modify_qp(qp->spec.id, attr);
}

Result<vrdma_qp_attr> QpTable::query(Qpn id) const {
    if (table_.find(id) == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    return resources_.slice.query_qp(id);
}

Result<> QpTable::destroy(Qpn id) {
    if (table_.find(id) == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    resources_.slice.destroy_qp(id);
    table_.erase(id);
    qpns_.give_back(id.value);
    return {};
}

void QpTable::save(StateWriter& writer) const {
    writer.begin(Section::qps, QpState::version, table_.size());
    for (const Qpn id : table_.sorted_ids()) {
        const Qp& qp = *table_.find(id);
        const hca::QpSpec& spec = qp.spec;
        writer.put(QpState{
            .qpn = id.value,
            .ucontext = qp.ucontext.value,
            .pd = spec.pd.value,
            .send_cq = spec.send_cq.value,
            .recv_cq = spec.recv_cq.value,
            .srq = spec.srq.value,
            .sq_depth = spec.sq_depth,
            .rq_depth = spec.rq_depth,
            .max_inline = spec.max_inline,
            .max_send_sge = spec.max_send_sge,
            .max_recv_sge = spec.max_recv_sge,
            .sq_stride_shift = spec.sq_stride_shift,
            .rq_stride_shift = spec.rq_stride_shift,
            .qp_type = static_cast<std::uint8_t>(spec.type),
            .flags = static_cast<std::uint8_t>(spec.signal_all ? VRDMA_QP_SQ_SIGNAL_ALL : 0),
            .slice = resources_.slice.save_qp(id),
        });
        writer.put_all<vrdma_sge>(resources_.slice.save_held_receive(id));
        save_pages(writer, spec.pages);
    }
}

Result<> QpTable::restore_one(StateReader& reader) {
    const auto state = reader.take<QpState>();
    if (!state || !valid_type(state->qp_type) || (state->flags & ~VRDMA_QP_SQ_SIGNAL_ALL) != 0 ||
        !qpns_.in_range(state->qpn) || table_.find(Qpn{state->qpn}) != nullptr) {
        return fail(std::errc::invalid_argument);
    }
    const auto held_receive = reader.take_all<vrdma_sge>(state->slice.held_sges);
    if (!held_receive) {
        return fail(held_receive.error());
    }
    Qp qp = from(*state);
    qp.spec.id = Qpn{state->qpn};
    if (const auto valid = check(qp); !valid) {
        return valid;
    }
    auto buffer = restore_pages(reader, resources_.memory, resources_.blocks, buffer_size(qp.spec));
    if (!buffer) {
        return fail(buffer.error());
    }
    if (const auto slot = add(std::move(qp), std::move(*buffer)); !slot) {
        return fail(slot.error());
    }
    return resources_.slice.restore_qp(Qpn{state->qpn}, state->slice, *held_receive);
}

Result<> QpTable::restore(StateReader& reader) {
    return restore_records(reader, Section::qps, QpState::version,
                           [this](StateReader& from) { return restore_one(from); });
}

} // namespace vrdma::verbs
