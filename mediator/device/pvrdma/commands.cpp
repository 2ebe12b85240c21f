// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/pvrdma/commands.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <map>

#include "mediator/base/rollback.h"
#include "mediator/device/out_of_memory.h"
#include "mediator/device/pvrdma/qp_attr.h"
#include "mediator/verbs/port_speed.h"

namespace vrdma::pvrdma {
namespace {

constexpr auto invalid = std::errc::invalid_argument;
constexpr auto unsupported = std::errc::operation_not_supported;

// The pages of a directory.
vrdma_page_list page_list(std::uint64_t directory, std::uint32_t pages) {
    return {directory, pages, PVRDMA_PAGE_SHIFT, PVRDMA_DIRECTORY_LEVELS, 0};
}

// The stride that the driver computes: the smallest power of two that holds a WQE. No ring has a
// larger one than a page.
Result<std::uint8_t> stride_shift(std::size_t header, std::uint32_t sges) {
    const std::uint64_t size = header + std::uint64_t{sges} * sizeof(vrdma_sge);
    const int shift = std::bit_width(size - 1);
    return shift <= VRDMA_MAX_STRIDE_SHIFT ? Result<std::uint8_t>{static_cast<std::uint8_t>(shift)}
                                           : fail(invalid);
}

std::uint64_t ring_pages(std::uint32_t depth, unsigned shift) {
    return pvrdma_page_align(std::uint64_t{depth} << shift) >> PVRDMA_PAGE_SHIFT;
}

} // namespace

struct Commands::Command {
    Handler run;
    bool answers;
};

const Commands::Command* Commands::find(std::uint32_t command) noexcept {
    static constexpr std::array<Command, PVRDMA_COMMANDS> table{{
        {&Commands::query_port, true},    {&Commands::query_pkey, true},
        {&Commands::create_pd, true},     {&Commands::destroy_pd, false},
        {&Commands::create_mr, true},     {&Commands::destroy_mr, false},
        {&Commands::create_cq, true},     {nullptr, true}, // RESIZE_CQ
        {&Commands::destroy_cq, false},   {&Commands::create_qp, true},
        {&Commands::modify_qp, true},     {&Commands::query_qp, true},
        {&Commands::destroy_qp, false},   {&Commands::create_uc, true},
        {&Commands::destroy_uc, false},   {&Commands::create_bind, false},
        {&Commands::destroy_bind, false}, {&Commands::create_srq, true},
        {&Commands::modify_srq, false},   {&Commands::query_srq, true},
        {&Commands::destroy_srq, false},
    }};
    return command < table.size() ? &table[command] : nullptr;
}

bool has_response(std::uint32_t command) noexcept {
    const auto* const found = Commands::find(command);
    return found != nullptr && found->answers;
}

Commands::Commands(verbs::Objects& objects, std::uint64_t uar_frame, EqId events)
    : objects_{objects},
      uar_frame_{uar_frame},
      events_{events},
      ucontexts_(objects.resources.limits.doorbell_pages),
      qp_handles_{objects.resources.limits.max_qp} {
    ucontexts_.front() = verbs::kernel;
}

std::optional<pvrdma_response> Commands::run(const pvrdma_request& request) {
    pvrdma_response response{};
    const Command* const command = find(request.header.command);
    const auto done =
        command == nullptr || command->run == nullptr
            ? fail(unsupported)
            : with_what_memory_there_is([&] { return (this->*command->run)(request, response); });
    if (!done && done.error() == verbs::comes_again) {
        return std::nullopt;
    }
    objects_.resources.lists.forget();
    if (!done) {
        response = {};
        response.header.error = static_cast<std::uint8_t>(done.error());
    }
    // MODIFY_QP is the only command whose error the driver reads.
    if (done || request.header.command == PVRDMA_MODIFY_QP) {
        response.header.response = PVRDMA_RESPONSE | request.header.command;
    }
    response.header.cookie = request.header.cookie;
    return response;
}

// --- doorbells ---

std::optional<UcontextId> Commands::ucontext_of(std::uint64_t uar) const {
    return uar < ucontexts_.size() ? ucontexts_[uar] : std::nullopt;
}

const Commands::QpHandle* Commands::find_qp(std::uint64_t uar, std::uint32_t handle) const {
    const auto found = qps_.find(handle);
    return found != qps_.end() && ucontext_of(uar) == found->second.ucontext ? &found->second
                                                                             : nullptr;
}

bool Commands::has_cq(std::uint64_t uar, std::uint32_t handle) const {
    const verbs::Cq* const cq = objects_.cqs.find(Cqn{handle});
    return cq != nullptr && ucontext_of(uar) == cq->ucontext;
}

// --- state ---

std::vector<Commands::Page> Commands::pages() const {
    std::vector<Page> pages;
    for (std::uint32_t number = 1; number < ucontexts_.size(); ++number) {
        if (ucontexts_[number]) {
            pages.push_back({number, ucontexts_[number]->value});
        }
    }
    return pages;
}

Result<> Commands::restore(std::span<const Page> pages) {
    for (const auto& [number, ucontext] : pages) {
        const UcontextId id{ucontext};
        if (number >= ucontexts_.size() || ucontexts_[number] || id == verbs::kernel ||
            objects_.ucontexts.find(id) == nullptr) {
            return fail(invalid);
        }
        ucontexts_[number] = id;
    }
    return restore_handles();
}

// In their order, as the table wants it.
Result<> Commands::restore_handles() {
    std::map<std::uint32_t, const verbs::Qp*> by_handle;
    for (const Qpn qpn : objects_.qps.ids()) {
        const verbs::Qp* const qp = objects_.qps.find(qpn);
        if (!by_handle.try_emplace(qp->spec.handle, qp).second) {
            return fail(invalid);
        }
    }
    for (const auto& [handle, qp] : by_handle) {
        if (const auto claimed = qp_handles_.claim(handle); !claimed) {
            return claimed;
        }
        qps_[handle] = {qp->spec.id, qp->ucontext, qp->doorbell_slot};
    }
    return {};
}

// --- the port ---

Result<> Commands::query_port(const pvrdma_request& request, pvrdma_response& response) {
    constexpr std::uint8_t link_up = 5;
    constexpr std::uint8_t link_disabled = 3;
    if (request.query_port.port != VRDMA_PORT) {
        return fail(invalid);
    }
    const hca::Slice& slice = objects_.resources.slice;
    const verbs::Identity& identity = objects_.function_id.identity();
    const verbs::PortSpeed speed = verbs::port_speed(slice.port_mbps(), identity.port_speed);
    pvrdma_port& port = response.port;
    port.state = slice.port_up() ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    port.max_mtu = IBV_MTU_4096;
    port.active_mtu = slice.max_mtu();
    port.gid_table_len = objects_.resources.limits.gid_table_len;
    port.cap_flags = PVRDMA_PORT_CM | PVRDMA_PORT_IP_BASED_GIDS;
    port.max_message_size = hca::max_message_size;
    port.pkey_table_len = static_cast<std::uint16_t>(identity.pkeys.size());
    port.max_vl = 1;
    port.active_width = speed.width;
    port.active_speed = speed.speed;
    port.physical_state = slice.port_up() ? link_up : link_disabled;
    return {};
}

Result<> Commands::query_pkey(const pvrdma_request& request, pvrdma_response& response) {
    const auto& pkeys = objects_.function_id.identity().pkeys;
    if (request.query_port.port != VRDMA_PORT || request.query_port.pkey_index >= pkeys.size()) {
        return fail(invalid);
    }
    response.pkey.pkey = pkeys[request.query_port.pkey_index];
    return {};
}

Result<> Commands::create_bind(const pvrdma_request& request, pvrdma_response&) {
    const pvrdma_create_bind& cmd = request.create_bind;
    const bool tagged = cmd.vlan != PVRDMA_NO_VLAN;
    if ((cmd.gid_type != PVRDMA_GID_ROCE_V1 && cmd.gid_type != PVRDMA_GID_ROCE_V2) ||
        (tagged && cmd.vlan > VRDMA_MAX_VLAN)) {
        return fail(invalid);
    }
    vrdma_cmd_set_gid set{};
    set.index = cmd.index;
    set.type = cmd.gid_type == PVRDMA_GID_ROCE_V1 ? VRDMA_GID_ROCE_V1 : VRDMA_GID_ROCE_V2;
    set.valid = 1;
    set.vlan = static_cast<std::uint16_t>(tagged ? cmd.vlan : 0);
    std::ranges::copy(cmd.gid, std::begin(set.gid));
    return objects_.gids.set(set);
}

Result<> Commands::destroy_bind(const pvrdma_request& request, pvrdma_response&) {
    vrdma_cmd_set_gid set{};
    set.index = request.destroy_bind.index;
    return objects_.gids.set(set);
}

// --- user contexts and PDs ---

// The driver gives out the UAR pages, and the device gives the user context its name.
Result<> Commands::create_uc(const pvrdma_request& request, pvrdma_response& response) {
    const std::uint64_t page = request.create_uc.uar_frame - uar_frame_;
    if (page >= ucontexts_.size()) {
        return fail(invalid);
    }
    if (ucontexts_[page]) {
        return fail(std::errc::device_or_resource_busy);
    }
    return objects_.ucontexts.alloc().map([&](UcontextId id) {
        ucontexts_[page] = id;
        response.handle.handle = id.value;
    });
}

Result<> Commands::destroy_uc(const pvrdma_request& request, pvrdma_response&) {
    const UcontextId id{request.handle.handle};
    const auto gone = objects_.ucontexts.dealloc(id);
    if (gone) {
        std::ranges::replace(ucontexts_, std::optional{id}, std::nullopt);
    }
    return gone;
}

Result<> Commands::create_pd(const pvrdma_request& request, pvrdma_response& response) {
    return objects_.pds.alloc(UcontextId{request.handle.handle}).map([&](PdId id) {
        response.handle.handle = id.value;
    });
}

Result<> Commands::destroy_pd(const pvrdma_request& request, pvrdma_response&) {
    return objects_.pds.dealloc(PdId{request.handle.handle});
}

// --- memory ---

Result<Key> Commands::create_region(const pvrdma_create_mr& cmd) {
    if (cmd.flags == PVRDMA_MR_FAST) {
        return objects_.mrs.alloc({cmd.pd, cmd.pages});
    }
    vrdma_cmd_reg_mr reg{};
    reg.pd = cmd.pd;
    reg.access_flags = cmd.access_flags;
    if (cmd.flags == PVRDMA_MR_DMA) {
        reg.flags = VRDMA_MR_DMA;
        return objects_.mrs.reg(reg);
    }
    // Every region has pages here. It may not have them on demand.
    if (cmd.flags != 0 || cmd.length == 0 || (cmd.access_flags & IBV_ACCESS_ON_DEMAND) != 0) {
        return fail(invalid);
    }
    reg.pages = page_list(cmd.directory, cmd.pages);
    reg.start = cmd.start;
    reg.length = cmd.length;
    reg.first_offset = static_cast<std::uint32_t>(cmd.start % PVRDMA_PAGE_SIZE);
    return objects_.mrs.reg(reg);
}

Result<> Commands::create_mr(const pvrdma_request& request, pvrdma_response& response) {
    return create_region(request.create_mr).map([&](Key key) {
        response.mr.handle = response.mr.lkey = response.mr.rkey = key.value;
    });
}

Result<> Commands::destroy_mr(const pvrdma_request& request, pvrdma_response&) {
    return objects_.mrs.dereg(Key{request.handle.handle});
}

// --- queues ---

Result<> Commands::create_cq(const pvrdma_request& request, pvrdma_response& response) {
    const pvrdma_create_cq& cmd = request.create_cq;
    const auto cq = objects_.cqs.create(
        {page_list(cmd.directory, cmd.pages), 0, cmd.depth, events_.value, cmd.uc, 0, 0});
    return cq.map([&](Cqn id) { response.cq = {id.value, cmd.depth}; });
}

Result<> Commands::destroy_cq(const pvrdma_request& request, pvrdma_response&) {
    return objects_.cqs.destroy(Cqn{request.handle.handle});
}

Result<> Commands::create_srq(const pvrdma_request& request, pvrdma_response& response) {
    const pvrdma_create_srq& cmd = request.create_srq;
    const verbs::Pd* const pd = objects_.pds.find(PdId{cmd.pd});
    const auto stride = stride_shift(sizeof(pvrdma_rq_wqe), cmd.attr.max_sge);
    if (pd == nullptr || !stride || cmd.type != 0) {
        return fail(invalid);
    }
    vrdma_cmd_create_srq srq{};
    srq.pages = page_list(cmd.directory, cmd.pages);
    srq.ucontext = pd->ucontext.value;
    srq.pd = cmd.pd;
    srq.depth = cmd.attr.depth;
    srq.stride_shift = *stride;
    srq.max_sge = static_cast<std::uint16_t>(cmd.attr.max_sge); // as the stride's, below 4096
    return objects_.srqs.create(srq).map([&](Srqn id) { response.handle.handle = id.value; });
}

Result<> Commands::modify_srq(const pvrdma_request& request, pvrdma_response&) {
    const pvrdma_modify_srq& cmd = request.modify_srq;
    if (cmd.attr_mask != IBV_SRQ_LIMIT) {
        return fail(unsupported);
    }
    return objects_.srqs.modify({cmd.handle, cmd.attr.limit});
}

Result<> Commands::query_srq(const pvrdma_request& request, pvrdma_response& response) {
    const Srqn id{request.handle.handle};
    const auto limit = objects_.srqs.query(id);
    if (!limit) {
        return fail(limit.error());
    }
    const hca::SrqSpec& spec = objects_.srqs.find(id)->spec;
    response.srq = {spec.depth, spec.max_sge, *limit, 0};
    return {};
}

Result<> Commands::destroy_srq(const pvrdma_request& request, pvrdma_response&) {
    return objects_.srqs.destroy(Srqn{request.handle.handle});
}

// The driver lays out the queues by these sizes, so its page counts must be what they give.
Result<vrdma_cmd_create_qp> Commands::qp_command(const pvrdma_create_qp& cmd) {
    const verbs::Pd* const pd = objects_.pds.find(PdId{cmd.pd});
    const bool shares = cmd.has_srq != 0;
    const std::uint32_t rq_depth = shares ? 0 : cmd.rq_depth;
    const std::uint32_t recv_sges = shares ? 0 : cmd.max_recv_sge;
    const auto sq_stride = stride_shift(sizeof(pvrdma_sq_wqe), cmd.max_send_sge);
    const auto rq_stride = stride_shift(sizeof(pvrdma_rq_wqe), std::max(recv_sges, 1u));
    if (pd == nullptr || !sq_stride || !rq_stride || cmd.has_srq > 1 || cmd.signal_all > 1 ||
        cmd.sq_pages != ring_pages(cmd.sq_depth, *sq_stride) ||
        cmd.pages != 1 + cmd.sq_pages + ring_pages(rq_depth, *rq_stride)) {
        return fail(invalid);
    }
    vrdma_cmd_create_qp qp{};
    qp.pages = page_list(cmd.directory, cmd.pages);
    qp.ucontext = pd->ucontext.value;
    qp.pd = cmd.pd;
    qp.send_cq = cmd.send_cq;
    qp.recv_cq = cmd.recv_cq;
    qp.srq = shares ? cmd.srq : 0;
    qp.sq_depth = cmd.sq_depth;
    qp.rq_depth = rq_depth;
    qp.sq_stride_shift = *sq_stride;
    qp.rq_stride_shift = *rq_stride;
    qp.qp_type = cmd.type;
    qp.flags = cmd.signal_all != 0 ? VRDMA_QP_SQ_SIGNAL_ALL : 0;
    qp.max_send_sge = static_cast<std::uint16_t>(cmd.max_send_sge);
    qp.max_recv_sge = static_cast<std::uint16_t>(recv_sges);
    return qp;
}

// A command that comes again takes a handle again.
Result<verbs::NewQp> Commands::add_qp(const vrdma_cmd_create_qp& cmd, std::uint32_t& handle) {
    const auto taken = qp_handles_.take();
    if (!taken) {
        return fail(taken.error());
    }
    Rollback undo{[&] {
        qps_.erase(*taken);
        qp_handles_.give_back(*taken);
    }};
    QpHandle& qp = qps_[*taken];
    const auto made = objects_.qps.create(cmd, *taken);
    if (made) {
        qp = {made->qpn, UcontextId{cmd.ucontext}, made->doorbell_slot};
        handle = *taken;
        undo.keep();
    }
    return made;
}

Result<> Commands::create_qp(const pvrdma_request& request, pvrdma_response& response) {
    constexpr std::uint8_t gsi = 1;
    const pvrdma_create_qp& cmd = request.create_qp;
    if (cmd.type != gsi && cmd.type != static_cast<std::uint8_t>(hca::QpType::rc) &&
        cmd.type != static_cast<std::uint8_t>(hca::QpType::ud)) {
        return fail(unsupported);
    }
    const auto qp = qp_command(cmd);
    if (!qp) {
        return fail(qp.error());
    }
    std::uint32_t handle = 0;
    return add_qp(*qp, handle).map([&](const verbs::NewQp& made) {
        response.qp = {made.qpn.value,
                       handle,
                       {qp->sq_depth, qp->rq_depth, qp->max_send_sge, qp->max_recv_sge, 0},
                       0};
    });
}

Result<Qpn> Commands::qpn_of(std::uint32_t handle) const {
    const auto found = qps_.find(handle);
    return found != qps_.end() ? Result<Qpn>{found->second.qpn} : fail(invalid);
}

Result<> Commands::modify_qp(const pvrdma_request& request, pvrdma_response&) {
    const pvrdma_modify_qp& cmd = request.modify_qp;
    return qpn_of(cmd.handle).and_then([&](Qpn qpn) {
        vrdma_qp_attr attr = from_guest(cmd.attr, cmd.attr_mask);
        // Linux's MAD layer does not name the port of a GSI QP, and the driver passes that on.
        if (qpn == hca::gsi_qpn && (attr.attr_mask & IBV_QP_STATE) != 0 &&
            attr.state == IBV_QPS_INIT) {
            attr.attr_mask |= IBV_QP_PORT;
            attr.port_num = VRDMA_PORT;
        }
        return objects_.qps.modify({qpn.value, 0, attr});
    });
}

Result<> Commands::query_qp(const pvrdma_request& request, pvrdma_response& response) {
    const auto qpn = qpn_of(request.modify_qp.handle);
    const auto attr = qpn.and_then([&](Qpn id) { return objects_.qps.query(id); });
    if (!attr) {
        return fail(attr.error());
    }
    const hca::QpSpec& spec = objects_.qps.find(*qpn)->spec;
    response.qp_attr = to_guest(*attr);
    response.qp_attr.sizes = {spec.sq_depth, spec.rq_depth, spec.max_send_sge, spec.max_recv_sge,
                              0};
    return {};
}

Result<> Commands::destroy_qp(const pvrdma_request& request, pvrdma_response&) {
    const std::uint32_t handle = request.handle.handle;
    const auto gone = qpn_of(handle).and_then([&](Qpn id) { return objects_.qps.destroy(id); });
    if (gone) {
        qps_.erase(handle);
        qp_handles_.give_back(handle);
    }
    return gone;
}

} // namespace vrdma::pvrdma
