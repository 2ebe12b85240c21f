// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/srq.h"

#include "mediator/verbs/ring_check.h"

namespace vrdma::verbs {
namespace {

// `Source` is a command or a saved state. Both have the same names for these fields.
template <typename Source>
Srq srq_from(const Source& source) {
    Srq srq;
    srq.ucontext = UcontextId{source.ucontext};
    srq.spec.pd = PdId{source.pd};
    srq.spec.depth = source.depth;
    srq.spec.stride_shift = static_cast<std::uint8_t>(source.stride_shift);
    srq.spec.max_sge = source.max_sge;
    srq.spec.xrcd = XrcdId{source.xrcd};
    srq.spec.cq = Cqn{source.cq};
    return srq;
}

std::uint64_t buffer_size(hca::QueueFormat format, const hca::SrqSpec& spec) {
    return hca::srq_layout(format, spec.depth, spec.stride_shift).size;
}

bool valid_resize(const vrdma_cmd_resize_srq& cmd) {
    const bool arms = (cmd.flags & VRDMA_RESIZE_SRQ_LIMIT) != 0;
    return cmd.reserved == 0 && (cmd.flags & ~VRDMA_RESIZE_SRQ_LIMIT) == 0 &&
           cmd.limit <= (arms ? cmd.depth : 0);
}

} // namespace

SrqTable::SrqTable(Resources& resources, UcontextTable& ucontexts, PdTable& pds, CqTable& cqs,
                   XrcdTable& xrcds)
    : resources_{resources},
      ucontexts_{ucontexts},
      pds_{pds},
      cqs_{cqs},
      xrcds_{xrcds},
      ids_{resources.limits.max_srq},
      table_{resources.allowed.max_srq, resources.budget, resources.costs.srq} {}

// An SRQ with an XRC domain has a CQ of its own. Other SRQs have neither.
bool SrqTable::valid_xrc(const Srq& srq) const {
    if (srq.spec.xrcd == XrcdId{}) {
        return srq.spec.cq == Cqn{};
    }
    const Cq* cq = cqs_.find(srq.spec.cq);
    return xrcds_.find(srq.spec.xrcd) != nullptr && cq != nullptr && cq->ucontext == srq.ucontext;
}

Result<> SrqTable::check(const Srq& srq) const {
    const Limits& limits = resources_.limits;
    const hca::SrqSpec& spec = srq.spec;
    const Pd* pd = pds_.find(spec.pd);
    if (ucontexts_.find(srq.ucontext) == nullptr || pd == nullptr || pd->ucontext != srq.ucontext ||
        !valid_xrc(srq) || spec.max_sge > limits.max_sge ||
        !valid_depth(spec.depth, limits.max_qp_wr) ||
        !valid_stride(spec.stride_shift, VRDMA_RQ_MIN_STRIDE_SHIFT,
                      receive_size(resources_.slice.format(), spec.max_sge))) {
        return fail(std::errc::invalid_argument);
    }
    return table_.full() ? fail(std::errc::not_enough_memory) : Result<>{};
}

Result<> SrqTable::add(Srq srq, Buffer buffer) {
    if (!valid_offset(buffer.pages, srq.spec.stride_shift)) {
        return fail(std::errc::invalid_argument);
    }
    srq.spec.pages = std::move(buffer.pages);
    srq.lease = std::move(buffer.lease);
    srq.owner = ucontexts_.find(srq.ucontext)->users.hold();
    srq.pd = pds_.find(srq.spec.pd)->users.hold();
    if (srq.spec.xrcd != XrcdId{}) {
        srq.xrcd = xrcds_.find(srq.spec.xrcd)->users.hold();
        srq.cq = cqs_.find(srq.spec.cq)->users.hold();
    }
    const Srqn id = srq.spec.id;
    return table_.insert(id, std::move(srq),
                         [&](const Srq& made) { return resources_.slice.create_srq(made.spec); });
}

Result<Srqn> SrqTable::create(const vrdma_cmd_create_srq& cmd) {
    if (resources_.limits.max_srq == 0) { // the hardware has none
        return fail(std::errc::operation_not_supported);
    }
    if (cmd.reserved0 != 0 || cmd.reserved1 != 0) {
        return fail(std::errc::invalid_argument);
    }
    Srq srq = srq_from(cmd);
    if (const auto valid = check(srq); !valid) {
        return fail(valid.error());
    }
    const hca::QueueFormat format = resources_.slice.format();
    auto buffer = resources_.lists.read_ring(
        cmd.pages, cmd.first_offset,
        hca::buffer_length(format, buffer_size(format, srq.spec), cmd.pages));
    if (!buffer) {
        return fail(buffer.error());
    }
    const auto number = ids_.take();
    if (!number) {
        return fail(number.error());
    }
    const Srqn id{*number};
    srq.spec.id = id;
    if (const auto added = add(std::move(srq), std::move(*buffer)); !added) {
        ids_.give_back(id.value);
        return fail(added.error());
    }
    return id;
}

Result<> SrqTable::modify(const vrdma_cmd_modify_srq& cmd) {
    const Srq* srq = table_.find(Srqn{cmd.srqn});
    if (srq == nullptr || cmd.limit > srq->spec.depth) {
        return fail(std::errc::invalid_argument);
    }
    return resources_.slice.modify_srq(srq->spec.id, cmd.limit);
}

Result<> SrqTable::resize(const vrdma_cmd_resize_srq& cmd) {
    Srq* srq = table_.find(Srqn{cmd.srqn});
    if (srq == nullptr || !valid_resize(cmd) ||
        !valid_depth(cmd.depth, resources_.limits.max_qp_wr)) {
        return fail(std::errc::invalid_argument);
    }
    hca::SrqSpec& spec = srq->spec;
    const std::uint64_t size =
        hca::srq_layout(resources_.slice.format(), cmd.depth, spec.stride_shift).size;
    auto buffer = resources_.lists.read_ring(cmd.pages, cmd.first_offset, size);
    if (!buffer) {
        return fail(buffer.error());
    }
    if (!valid_offset(buffer->pages, spec.stride_shift)) {
        return fail(std::errc::invalid_argument);
    }
    const auto limit =
        (cmd.flags & VRDMA_RESIZE_SRQ_LIMIT) != 0 ? std::optional{cmd.limit} : std::nullopt;
    if (const auto resized = resources_.slice.resize_srq(spec.id, buffer->pages, cmd.depth, limit);
        !resized) {
        return resized;
    }
    spec.pages = std::move(buffer->pages);
    spec.depth = cmd.depth;
    srq->lease = std::move(buffer->lease);
    return {};
}

Result<std::uint32_t> SrqTable::query(Srqn id) const {
    if (table_.find(id) == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    return resources_.slice.query_srq(id);
}

Result<> SrqTable::destroy(Srqn id) {
    const Srq* srq = table_.find(id);
    if (srq == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    if (srq->users.busy()) {
        return fail(std::errc::device_or_resource_busy);
    }
    resources_.slice.destroy_srq(id);
    table_.erase(id);
    ids_.give_back(id.value);
    return {};
}

void SrqTable::save(StateWriter& writer) const {
    writer.begin(Section::srqs, SrqState::version, table_.size());
    for (const Srqn id : table_.sorted_ids()) {
        const Srq& srq = *table_.find(id);
        const hca::SrqSpec& spec = srq.spec;
        writer.put(SrqState{id.value, srq.ucontext.value, spec.pd.value, spec.xrcd.value,
                            spec.cq.value, spec.depth, spec.max_sge, spec.stride_shift,
                            resources_.slice.save_srq(id)});
        save_ring(writer, spec.pages, buffer_size(resources_.slice.format(), spec));
    }
}

Result<> SrqTable::restore_one(StateReader& reader) {
    const auto state = reader.take<SrqState>();
    if (!state || state->stride_shift > VRDMA_MAX_STRIDE_SHIFT ||
        state->slice.limit > state->depth) {
        return fail(std::errc::invalid_argument);
    }
    Srq srq = srq_from(*state);
    const Srqn id{state->id};
    srq.spec.id = id;
    if (const auto valid = check(srq); !valid) {
        return valid;
    }
    auto buffer = restore_pages(reader, resources_.memory, resources_.budget,
                                buffer_size(resources_.slice.format(), srq.spec));
    if (!buffer) {
        return fail(buffer.error());
    }
    if (const auto claimed = ids_.claim(id.value); !claimed) {
        return claimed;
    }
    if (const auto added = add(std::move(srq), std::move(*buffer)); !added) {
        return added;
    }
    return resources_.slice.restore_srq(id, state->slice);
}

Result<> SrqTable::restore(StateReader& reader) {
    return restore_records(reader, Section::srqs, SrqState::version,
                           [this](StateReader& from) { return restore_one(from); });
}

} // namespace vrdma::verbs
