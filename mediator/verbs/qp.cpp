// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/qp.h"

#include <infiniband/verbs.h>

#include <algorithm>

#include "mediator/verbs/qp_transition.h"
#include "mediator/verbs/ring_check.h"
#include "mediator/verbs/ucontext.h"

namespace vrdma::verbs {
namespace {

constexpr std::uint8_t gsi_type = 1; // enum ib_qp_type
constexpr std::uint32_t psn_mask = 0xffffff;
constexpr std::uint32_t qpn_mask = 0xffffff;
constexpr std::uint8_t max_timer = 31;
constexpr std::uint8_t max_retries = 7;
// Permissions of FLUSH, which libibverbs has since version 46. No request of this kind comes.
constexpr std::uint32_t access_flush_global = 1u << 8;
constexpr std::uint32_t access_flush_persistent = 1u << 9;
// Programs give a QP the flags of their regions. Flags that mean nothing for a QP are ignored.
constexpr std::uint32_t qp_access =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND |
    IBV_ACCESS_HUGETLB | access_flush_global | access_flush_persistent |
    std::uint32_t{IBV_ACCESS_OPTIONAL_RANGE};

bool has_queues(const hca::QpSpec& spec) {
    return spec.type != hca::QpType::xrc_recv;
}

std::uint64_t buffer_size(hca::QueueFormat format, const hca::QpSpec& spec) {
    return hca::qp_layout(format, spec.sq_depth, spec.sq_stride_shift, spec.rq_depth,
                          spec.rq_stride_shift)
        .size;
}

// A GSI QP sends datagrams, as a UD QP does. It differs in its number, and only the guest's kernel
// may have it.
bool valid_type(std::uint8_t type, UcontextId owner) {
    if (type == gsi_type) {
        return owner == kernel;
    }
    switch (hca::QpType{type}) {
        case hca::QpType::rc:
        case hca::QpType::uc:
        case hca::QpType::ud:
        case hca::QpType::xrc_send:
        case hca::QpType::xrc_recv:
            return true;
    }
    return false;
}

hca::QpType slice_type(std::uint8_t type) {
    return type == gsi_type ? hca::QpType::ud : hca::QpType{type};
}

std::uint8_t saved_type(const hca::QpSpec& spec) {
    return spec.id == hca::gsi_qpn ? gsi_type : static_cast<std::uint8_t>(spec.type);
}

// Accepts a ring, or none (a depth of 0).
bool valid_ring(std::uint32_t depth, std::uint32_t max_depth, unsigned shift, unsigned min_shift,
                std::uint64_t wqe_size) {
    return valid_stride(shift, min_shift, wqe_size) &&
           (depth == 0 || valid_depth(depth, max_depth));
}

// An engine's own state, behind its length.
void save_connection(StateWriter& writer, std::span<const std::byte> state) {
    writer.put(static_cast<std::uint32_t>(state.size()));
    writer.put_all(state);
}

Result<std::span<const std::byte>> take_connection(StateReader& reader) {
    const auto size = reader.take<std::uint32_t>();
    if (!size || *size > hca::max_connection_state) {
        return fail(std::errc::invalid_argument);
    }
    return reader.take_bytes(*size);
}

// `Source` is a command or a saved state. Both have the same names for these fields.
template <typename Source>
Qp qp_from(const Source& source) {
    Qp qp;
    qp.ucontext = UcontextId{source.ucontext};
    qp.spec.pd = PdId{source.pd};
    qp.spec.send_cq = Cqn{source.send_cq};
    qp.spec.recv_cq = Cqn{source.recv_cq};
    qp.spec.srq = Srqn{source.srq};
    qp.spec.xrcd = XrcdId{source.xrcd};
    qp.spec.sq_depth = source.sq_depth;
    qp.spec.rq_depth = source.rq_depth;
    qp.spec.sq_stride_shift = source.sq_stride_shift;
    qp.spec.rq_stride_shift = source.rq_stride_shift;
    qp.spec.max_inline = source.max_inline;
    qp.spec.max_send_sge = source.max_send_sge;
    qp.spec.max_recv_sge = source.max_recv_sge;
    qp.spec.type = slice_type(source.qp_type);
    qp.spec.signal_all = (source.flags & VRDMA_QP_SQ_SIGNAL_ALL) != 0;
    qp.spec.blocks_own_multicast = (source.flags & VRDMA_QP_BLOCK_SELF_MULTICAST) != 0;
    qp.spec.doorbell_page = source.ucontext;
    return qp;
}

// Only UD QPs have the flag for multicast groups.
bool valid_flags(std::uint8_t flags, std::uint8_t type) {
    const std::uint32_t known = slice_type(type) == hca::QpType::ud
                                    ? VRDMA_QP_SQ_SIGNAL_ALL | VRDMA_QP_BLOCK_SELF_MULTICAST
                                    : VRDMA_QP_SQ_SIGNAL_ALL;
    return (flags & ~known) == 0;
}

std::uint8_t saved_flags(const hca::QpSpec& spec) {
    return static_cast<std::uint8_t>(
        (spec.signal_all ? VRDMA_QP_SQ_SIGNAL_ALL : 0) |
        (spec.blocks_own_multicast ? VRDMA_QP_BLOCK_SELF_MULTICAST : 0));
}

bool is_pvrdma(const Resources& resources) {
    return resources.slice.format() == hca::QueueFormat::pvrdma;
}

bool is_connected(const vrdma_qp_attr& attr) {
    return attr.state >= IBV_QPS_RTR && attr.state <= IBV_QPS_SQE;
}

bool has(const vrdma_qp_attr& attr, std::uint32_t field) {
    return (attr.attr_mask & field) != 0;
}

// Checks the ranges of the scalar attributes that the mask names.
bool valid_ranges(const vrdma_qp_attr& attr, const Resources& resources) {
    const Limits& limits = resources.limits;
    const auto above = [&](std::uint32_t field, std::uint32_t value, std::uint32_t max) {
        return has(attr, field) && value > max;
    };
    return !(above(IBV_QP_STATE, attr.state, IBV_QPS_ERR) ||
             above(IBV_QP_CUR_STATE, attr.cur_state, IBV_QPS_ERR) ||
             (has(attr, IBV_QP_PKEY_INDEX) && attr.pkey_index >= resources.pkeys) ||
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
             (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > resources.slice.max_mtu())) &&
           !(has(attr, IBV_QP_ACCESS_FLAGS) && (attr.access_flags & ~qp_access) != 0);
}

} // namespace

QpTable::QpTable(Resources& resources, UcontextTable& ucontexts, PdTable& pds, CqTable& cqs,
                 SrqTable& srqs, XrcdTable& xrcds, CounterSetTable& counter_sets,
                 const GidTable& gids, const hca::QpnRange& qpns)
    : resources_{resources},
      ucontexts_{ucontexts},
      pds_{pds},
      cqs_{cqs},
      srqs_{srqs},
      xrcds_{xrcds},
      counter_sets_{counter_sets},
      gids_{gids},
      qpns_{qpns.first, qpns.last},
      table_{resources.allowed.max_qp, resources.budget, resources.costs.qp} {}

// All objects that a queue pair uses must belong to the queue pair's user context.
Result<> QpTable::check_owner(UcontextId ucontext, const hca::QpSpec& spec) const {
    const auto owns = [&](const auto* object) {
        return object != nullptr && object->ucontext == ucontext;
    };
    const bool receives = spec.type != hca::QpType::xrc_send;
    if (ucontexts_.find(ucontext) == nullptr || spec.xrcd != XrcdId{} ||
        !owns(pds_.find(spec.pd)) || !owns(cqs_.find(spec.send_cq)) ||
        !(receives ? owns(cqs_.find(spec.recv_cq)) : spec.recv_cq == Cqn{})) {
        return fail(std::errc::invalid_argument);
    }
    return check_srq(ucontext, spec);
}

// A QP that takes its receive WQEs from an SRQ, or receives nothing, has no RQ of its own.
Result<> QpTable::check_srq(UcontextId ucontext, const hca::QpSpec& spec) const {
    const bool no_rq = spec.rq_depth == 0 && spec.max_recv_sge == 0;
    bool valid = true;
    if (spec.type == hca::QpType::xrc_send) {
        valid = no_rq && spec.srq == Srqn{};
    } else if (spec.srq != Srqn{}) {
        const Srq* srq = srqs_.find(spec.srq);
        valid = no_rq && srq != nullptr && srq->ucontext == ucontext && srq->spec.xrcd == XrcdId{};
    }
    return valid ? Result<>{} : fail(std::errc::invalid_argument);
}

// An XRC_RECV QP must belong to the guest's kernel, because it outlives the user context that made
// it if others have opened it.
Result<> QpTable::check_xrc_recv(const Qp& qp) const {
    const hca::QpSpec& spec = qp.spec;
    const bool bare = qp.ucontext == UcontextId{} && spec.pd == PdId{} && spec.send_cq == Cqn{} &&
                      spec.recv_cq == Cqn{} && spec.srq == Srqn{} && spec.sq_depth == 0 &&
                      spec.rq_depth == 0 && spec.sq_stride_shift == 0 &&
                      spec.rq_stride_shift == 0 && spec.max_inline == 0 && spec.max_send_sge == 0 &&
                      spec.max_recv_sge == 0 && !spec.signal_all;
    return bare && xrcds_.find(spec.xrcd) != nullptr ? Result<>{}
                                                     : fail(std::errc::invalid_argument);
}

Result<> QpTable::check_sizes(const hca::QpSpec& spec) const {
    const Limits& limits = resources_.limits;
    const hca::QueueFormat format = resources_.slice.format();
    const std::uint64_t send_sges = std::uint64_t{spec.max_send_sge} * sizeof(vrdma_sge);
    const std::uint64_t xrc = spec.type == hca::QpType::xrc_send ? sizeof(vrdma_sq_xrc) : 0;
    const std::uint64_t send_payload = xrc + std::max<std::uint64_t>(send_sges, spec.max_inline);
    const bool valid =
        spec.max_inline <= limits.max_inline && spec.max_send_sge <= limits.max_sge &&
        spec.max_recv_sge <= limits.max_sge &&
        valid_ring(spec.sq_depth, limits.max_qp_wr, spec.sq_stride_shift, VRDMA_SQ_MIN_STRIDE_SHIFT,
                   hca::send_header(format) + send_payload) &&
        valid_ring(spec.rq_depth, limits.max_qp_wr, spec.rq_stride_shift, VRDMA_RQ_MIN_STRIDE_SHIFT,
                   receive_size(format, spec.max_recv_sge));
    return valid ? Result<>{} : fail(std::errc::invalid_argument);
}

Result<> QpTable::check(const Qp& qp) const {
    const auto valid =
        qp.spec.type == hca::QpType::xrc_recv
            ? check_xrc_recv(qp)
            : check_owner(qp.ucontext, qp.spec).and_then([&] { return check_sizes(qp.spec); });
    if (!valid) {
        return valid;
    }
    return table_.full() ? fail(std::errc::not_enough_memory) : Result<>{};
}

Result<std::uint32_t> QpTable::add(Qp qp, Buffer buffer) {
    qp.spec.pages = std::move(buffer.pages);
    if (!valid_offset(qp.spec.pages, std::max(qp.spec.sq_stride_shift, qp.spec.rq_stride_shift))) {
        return fail(std::errc::invalid_argument);
    }
    qp.lease = std::move(buffer.lease);
    const auto hold = [](auto* object) {
        return object != nullptr ? object->users.hold() : UseCount::Hold{};
    };
    qp.owner = hold(ucontexts_.find(qp.ucontext));
    qp.pd = hold(pds_.find(qp.spec.pd));
    qp.send_cq = hold(cqs_.find(qp.spec.send_cq));
    qp.recv_cq = hold(cqs_.find(qp.spec.recv_cq));
    qp.srq = hold(srqs_.find(qp.spec.srq));
    qp.xrcd = hold(xrcds_.find(qp.spec.xrcd));
    const Qpn id = qp.spec.id;
    return table_.insert(id, std::move(qp), [&](Qp& made) {
        return resources_.slice.create_qp(made.spec).map(
            [&](std::uint32_t slot) { return made.doorbell_slot = slot; });
    });
}

Result<Buffer> QpTable::read_queues(const vrdma_cmd_create_qp& cmd, const hca::QpSpec& spec) {
    if (has_queues(spec)) {
        const hca::QueueFormat format = resources_.slice.format();
        return resources_.lists.read_ring(
            cmd.pages, cmd.first_offset,
            hca::buffer_length(format, buffer_size(format, spec), cmd.pages));
    }
    const vrdma_page_list& list = cmd.pages;
    const bool none = list.root == 0 && list.count == 0 && list.levels == 0 &&
                      list.page_shift == 0 && list.reserved == 0 && cmd.first_offset == 0;
    return none ? Result<Buffer>{} : fail(std::errc::invalid_argument);
}

// There is one GSI QP, and no other has its number. A number that the slice chose may be that of a
// QP which was restored.
Result<Qpn> QpTable::pick_number(const hca::QpSpec& spec, std::uint8_t type) {
    if (type == gsi_type) {
        return table_.find(hca::gsi_qpn) == nullptr ? Result<Qpn>{hca::gsi_qpn}
                                                    : fail(std::errc::device_or_resource_busy);
    }
    const auto named = resources_.slice.name_qp(spec);
    if (!named) {
        return fail(named.error());
    }
    if (*named) {
        return table_.find(**named) == nullptr ? Result<Qpn>{**named}
                                               : fail(std::errc::resource_unavailable_try_again);
    }
    const auto id =
        qpns_.pick([this](std::uint32_t qpn) { return table_.find(Qpn{qpn}) != nullptr; });
    return id ? Result<Qpn>{Qpn{*id}} : fail(id.error());
}

Result<NewQp> QpTable::create(const vrdma_cmd_create_qp& cmd, std::uint32_t handle) {
    if (!valid_type(cmd.qp_type, UcontextId{cmd.ucontext})) {
        return fail(std::errc::operation_not_supported);
    }
    if (!valid_flags(cmd.flags, cmd.qp_type)) {
        return fail(std::errc::invalid_argument);
    }
    Qp qp = qp_from(cmd);
    qp.spec.handle = handle;
    if (const auto valid = check(qp); !valid) {
        return fail(valid.error());
    }
    auto buffer = read_queues(cmd, qp.spec);
    if (!buffer) {
        return fail(buffer.error());
    }
    const auto id = pick_number(qp.spec, cmd.qp_type);
    if (!id) {
        return fail(id.error());
    }
    qp.spec.id = *id;
    const auto slot = add(std::move(qp), std::move(*buffer));
    if (!slot) {
        return fail(slot.error());
    }
    return NewQp{*id, *slot};
}

Result<> QpTable::check_path(const vrdma_qp_attr& attr) const {
    if (!has(attr, IBV_QP_AV)) {
        return {};
    }
    Gid peer;
    std::copy(std::begin(attr.av.dgid), std::end(attr.av.dgid), peer.begin());
    if (is_multicast(peer)) {
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
    if (!valid_ranges(attr, resources_)) {
        return fail(std::errc::invalid_argument);
    }
    if (const auto reachable = check_path(attr); !reachable) {
        return reachable;
    }
    // Programs pass random 32-bit numbers as PSNs, and every HCA uses only the bits that it needs.
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

Result<vrdma_counters> QpTable::counters(Qpn id) const {
    if (table_.find(id) == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    return resources_.slice.qp_counters(id);
}

Result<> QpTable::bind_counter_set(Qpn id, CounterSetId set) {
    Qp* qp = table_.find(id);
    CounterSet* wanted = counter_sets_.find(set);
    if (qp == nullptr || (wanted == nullptr && set != CounterSetId{})) {
        return fail(std::errc::invalid_argument);
    }
    if (wanted != nullptr && qp->counter_set != CounterSetId{}) {
        return fail(std::errc::device_or_resource_busy);
    }
    resources_.slice.bind_counter_set(id, set);
    qp->counter_set = set;
    qp->held_counter_set = wanted != nullptr ? wanted->users.hold() : UseCount::Hold{};
    return {};
}

Result<> QpTable::destroy(Qpn id) {
    const Qp* qp = table_.find(id);
    if (qp == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    if (qp->users.busy()) {
        return fail(std::errc::device_or_resource_busy);
    }
    resources_.slice.destroy_qp(id);
    table_.erase(id);
    qpns_.give_back(id.value);
    return {};
}

std::size_t QpTable::users_of(Protocols protocols) const {
    return static_cast<std::size_t>(std::ranges::count_if(table_.sorted_ids(), [&](Qpn id) {
        if (table_.find(id)->spec.type == hca::QpType::ud) {
            return false;
        }
        const auto attr = resources_.slice.query_qp(id);
        return attr && is_connected(*attr) && gids_.is_of(attr->av.sgid_index, protocols);
    }));
}

void QpTable::save(StateWriter& writer) const {
    writer.begin(Section::qps, QpState::version, table_.size());
    for (const Qpn id : table_.sorted_ids()) {
        const Qp& qp = *table_.find(id);
        const hca::QpSpec& spec = qp.spec;
        const QpState state{
            .qpn = id.value,
            .ucontext = qp.ucontext.value,
            .pd = spec.pd.value,
            .send_cq = spec.send_cq.value,
            .recv_cq = spec.recv_cq.value,
            .srq = spec.srq.value,
            .xrcd = spec.xrcd.value,
            .counter_set = qp.counter_set.value,
            .sq_depth = spec.sq_depth,
            .rq_depth = spec.rq_depth,
            .max_inline = spec.max_inline,
            .max_send_sge = spec.max_send_sge,
            .max_recv_sge = spec.max_recv_sge,
            .sq_stride_shift = spec.sq_stride_shift,
            .rq_stride_shift = spec.rq_stride_shift,
            .qp_type = saved_type(spec),
            .flags = saved_flags(spec),
            .slice = resources_.slice.save_qp(id),
        };
        writer.put(state);
        writer.put_all<vrdma_sge>(resources_.slice.save_held_receive(id));
        if (is_pvrdma(resources_)) {
            writer.put(PvrdmaQpState{resources_.slice.save_held_number(id), spec.handle, 0});
        }
        if (state.slice.connected != 0) {
            save_connection(writer, resources_.slice.save_connection(id));
        }
        if (has_queues(spec)) {
            save_ring(writer, spec.pages, buffer_size(resources_.slice.format(), spec));
        }
    }
}

bool QpTable::valid_number(const QpState& state) const {
    return state.qp_type == gsi_type
               ? Qpn{state.qpn} == hca::gsi_qpn
               : qpns_.in_range(state.qpn) ||
                     (resources_.slice.chooses_names() && state.qpn > hca::gsi_qpn.value &&
                      state.qpn < VRDMA_MULTICAST_QPN);
}

Result<PvrdmaQpState> QpTable::take_pvrdma_state(StateReader& reader) const {
    const auto state = is_pvrdma(resources_) ? reader.take<PvrdmaQpState>() : PvrdmaQpState{};
    return state && state->reserved != 0 ? fail(std::errc::invalid_argument) : state;
}

Result<> QpTable::restore_slice(Qpn id, const QpState& state, std::span<const vrdma_sge> held,
                                const PvrdmaQpState& pvrdma) {
    const auto restored = resources_.slice.restore_qp(id, state.slice, held);
    if (!restored) {
        return restored;
    }
    table_.find(id)->doorbell_slot = state.slice.doorbell_slot;
    return is_pvrdma(resources_) ? resources_.slice.restore_held_number(id, pvrdma.held_number)
                                 : Result<>{};
}

Result<> QpTable::restore_one(StateReader& reader) {
    const auto state = reader.take<QpState>();
    if (!state || !valid_type(state->qp_type, UcontextId{state->ucontext}) ||
        !valid_flags(state->flags, state->qp_type) || !valid_number(*state) ||
        table_.find(Qpn{state->qpn}) != nullptr) {
        return fail(std::errc::invalid_argument);
    }
    const auto held_receive = reader.take_all<vrdma_sge>(state->slice.held_sges);
    if (!held_receive) {
        return fail(held_receive.error());
    }
    const auto pvrdma = take_pvrdma_state(reader);
    if (!pvrdma) {
        return fail(pvrdma.error());
    }
    const auto connection = state->slice.connected != 0 ? take_connection(reader)
                                                        : Result<std::span<const std::byte>>{};
    if (!connection) {
        return fail(connection.error());
    }
    Qp qp = qp_from(*state);
    qp.spec.id = Qpn{state->qpn};
    qp.spec.handle = pvrdma->handle;
    if (const auto valid = check(qp); !valid) {
        return valid;
    }
    auto buffer = has_queues(qp.spec)
                      ? restore_pages(reader, resources_.memory, resources_.budget,
                                      buffer_size(resources_.slice.format(), qp.spec))
                      : Result<Buffer>{};
    if (!buffer) {
        return fail(buffer.error());
    }
    if (const auto slot = add(std::move(qp), std::move(*buffer)); !slot) {
        return fail(slot.error());
    }
    const Qpn id{state->qpn};
    if (const auto restored = restore_slice(id, *state, *held_receive, *pvrdma); !restored) {
        return restored;
    }
    if (state->counter_set != 0) {
        if (const auto bound = bind_counter_set(id, CounterSetId{state->counter_set}); !bound) {
            return bound;
        }
    }
    return state->slice.connected != 0 ? resources_.slice.restore_connection(id, *connection)
                                       : Result<>{};
}

Result<> QpTable::restore(StateReader& reader) {
    return restore_records(reader, Section::qps, QpState::version,
                           [this](StateReader& from) { return restore_one(from); });
}

} // namespace vrdma::verbs
