// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/vrdma/admin_commands.h"

#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include "mediator/base/errno.h"
#include "mediator/base/gid_text.h"
#include "mediator/device/out_of_memory.h"
#include "mediator/device/version.h"
#include "mediator/verbs/port_speed.h"

namespace vrdma {
namespace {

using verbs::Objects;

using Handler = Result<> (*)(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl& cpl);

Result<> query_device(Objects& objects, const vrdma_admin_cmd&, vrdma_admin_cpl& cpl) {
    const verbs::Limits& limits = objects.resources.limits;
    vrdma_cpl_query_device& out = cpl.query_device;
    out.max_mr_size = limits.max_mr_size;
    out.page_size_cap = VRDMA_MASK(VRDMA_MAX_PAGE_SHIFT, VRDMA_PAGE_SHIFT);
    out.max_ucontext = limits.max_ucontext();
    out.max_pd = limits.max_pd;
    out.max_mr = limits.max_mr;
    out.max_cq = limits.max_cq;
    out.max_cqe = limits.max_cqe;
    out.max_qp = limits.max_qp;
    out.max_qp_wr = limits.max_qp_wr;
    out.max_srq = limits.max_srq;
    out.max_srq_wr = limits.max_srq != 0 ? limits.max_qp_wr : 0;
    out.max_mcast_grp = limits.max_mcast_grp;
    out.max_mcast_qp_attach = limits.max_mcast_qp_attach;
    out.max_total_mcast_qp_attach = limits.max_total_mcast_qp_attach;
    out.max_srq_sge = limits.max_srq != 0 ? limits.max_sge : std::uint16_t{0};
    out.max_ah = limits.max_ah;
    out.max_inline = limits.max_inline;
    out.max_eq = limits.max_eq;
    out.max_send_sge = limits.max_sge;
    out.max_recv_sge = limits.max_sge;
    out.gid_table_len = limits.gid_table_len;
    out.pkey_table_len = static_cast<std::uint16_t>(objects.function_id.identity().pkeys.size());
    out.max_qp_rd_atomic = limits.max_rd_atomic;
    out.max_qp_init_rd_atomic = limits.max_rd_atomic;
    // The GUID is the interface part of the link-local address.
    const verbs::Gid address = verbs::link_local(objects.function_id.identity().mac);
    std::copy_n(address.begin() + 8, sizeof(out.node_guid), out.node_guid);
    out.firmware_version = firmware_version;
    out.function_bits = static_cast<std::uint8_t>(objects.function_id.endport->function_bits());
    out.function = static_cast<std::uint8_t>(objects.function_id.function);
    return {};
}

Result<> query_port(Objects& objects, const vrdma_admin_cmd&, vrdma_admin_cpl& cpl) {
    cpl.query_port.state = objects.resources.slice.port_up() ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    cpl.query_port.active_mtu = objects.resources.slice.max_mtu();
    const verbs::PortSpeed speed = verbs::port_speed(objects.resources.slice.port_mbps(),
                                                     objects.function_id.identity().port_speed);
    cpl.query_port.active_speed = speed.speed;
    cpl.query_port.active_width = speed.width;
    cpl.query_port.max_message_size = hca::max_message_size;
    std::ranges::copy(objects.function_id.identity().pkeys, std::begin(cpl.query_port.pkeys));
    return {};
}

Result<vrdma_counters> counters_of(Objects& objects, const vrdma_cmd_query_counters& cmd) {
    if (cmd.reserved != 0 || (cmd.qpn != 0 && cmd.counter_set != 0)) {
        return fail(std::errc::invalid_argument);
    }
    if (cmd.qpn != 0) {
        return objects.qps.counters(Qpn{cmd.qpn});
    }
    if (cmd.counter_set == VRDMA_ALL_COUNTER_SETS) {
        return objects.resources.slice.counters_of_sets();
    }
    return cmd.counter_set != 0 ? objects.counter_sets.counters(CounterSetId{cmd.counter_set})
                                : objects.resources.slice.counters();
}

Result<> query_counters(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl& cpl) {
    const std::uint32_t first = cmd.query_counters.first;
    if (first >= VRDMA_NUM_COUNTERS) {
        return fail(std::errc::invalid_argument);
    }
    const auto counters = counters_of(objects, cmd.query_counters);
    if (!counters) {
        return fail(counters.error());
    }
    const std::span rest = std::span{counters->value}.subspan(first);
    std::ranges::copy(rest.first(std::min<std::size_t>(rest.size(), VRDMA_COUNTERS_PER_REPLY)),
                      std::begin(cpl.query_counters.value));
    return {};
}

// Most commands return an id, or take one.
template <typename IdType>
Result<> return_handle(const Result<IdType>& made, vrdma_admin_cpl& cpl) {
    if (!made) {
        return fail(made.error());
    }
    cpl.handle.handle = made->value;
    return {};
}

template <typename IdType>
Result<IdType> handle_of(const vrdma_admin_cmd& cmd) {
    if (cmd.handle.reserved != 0) {
        return fail(std::errc::invalid_argument);
    }
    return IdType{cmd.handle.handle};
}

Result<> create_eq(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl& cpl) {
    return return_handle(objects.eqs.create(cmd.create_eq), cpl);
}

Result<> destroy_eq(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return handle_of<EqId>(cmd).and_then([&](EqId id) { return objects.eqs.destroy(id); });
}

Result<> alloc_ucontext(Objects& objects, const vrdma_admin_cmd&, vrdma_admin_cpl& cpl) {
    const auto id = objects.ucontexts.alloc();
    if (!id) {
        return fail(id.error());
    }
    cpl.alloc_ucontext.handle = id->value;
    cpl.alloc_ucontext.doorbell_page = id->value;
    return {};
}

Result<> dealloc_ucontext(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return handle_of<UcontextId>(cmd).and_then(
        [&](UcontextId id) { return objects.ucontexts.dealloc(id); });
}

Result<> alloc_pd(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl& cpl) {
    if (cmd.alloc_pd.reserved != 0) {
        return fail(std::errc::invalid_argument);
    }
    return return_handle(objects.pds.alloc(UcontextId{cmd.alloc_pd.ucontext}), cpl);
}

Result<> dealloc_pd(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return handle_of<PdId>(cmd).and_then([&](PdId id) { return objects.pds.dealloc(id); });
}

Result<> alloc_xrcd(Objects& objects, const vrdma_admin_cmd&, vrdma_admin_cpl& cpl) {
    return return_handle(objects.xrcds.alloc(), cpl);
}

Result<> dealloc_xrcd(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return handle_of<XrcdId>(cmd).and_then([&](XrcdId id) { return objects.xrcds.dealloc(id); });
}

Result<> alloc_counter_set(Objects& objects, const vrdma_admin_cmd&, vrdma_admin_cpl& cpl) {
    return return_handle(objects.counter_sets.alloc(), cpl);
}

Result<> dealloc_counter_set(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return handle_of<CounterSetId>(cmd).and_then(
        [&](CounterSetId id) { return objects.counter_sets.dealloc(id); });
}

Result<> bind_counter_set(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    const auto& [qpn, set] = cmd.bind_counter_set;
    return objects.qps.bind_counter_set(Qpn{qpn}, CounterSetId{set});
}

Result<> reg_mr(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl& cpl) {
    return return_handle(objects.mrs.reg(cmd.reg_mr), cpl);
}

Result<> dereg_mr(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return handle_of<Key>(cmd).and_then([&](Key key) { return objects.mrs.dereg(key); });
}

Result<> rereg_mr(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return objects.mrs.rereg(cmd.rereg_mr);
}

Result<> alloc_mr(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl& cpl) {
    return return_handle(objects.mrs.alloc(cmd.alloc_mr), cpl);
}

Result<> alloc_mw(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl& cpl) {
    return return_handle(objects.mws.alloc(cmd.alloc_mw), cpl);
}

Result<> dealloc_mw(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return handle_of<Key>(cmd).and_then([&](Key key) { return objects.mws.dealloc(key); });
}

Result<> map_pages(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return objects.mrs.map_pages(cmd.map_pages);
}

Result<> unmap_pages(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return objects.mrs.unmap_pages(cmd.unmap_pages);
}

Result<> create_cq(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl& cpl) {
    return return_handle(objects.cqs.create(cmd.create_cq), cpl);
}

Result<> destroy_cq(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return handle_of<Cqn>(cmd).and_then([&](Cqn id) { return objects.cqs.destroy(id); });
}

Result<> resize_cq(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return objects.cqs.resize(cmd.resize_cq);
}

Result<> modify_cq(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return objects.cqs.modify(cmd.modify_cq);
}

Result<> listen(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return objects.listeners.listen(cmd.listen.service_id);
}

Result<> unlisten(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return objects.listeners.unlisten(cmd.listen.service_id);
}

Result<> query_clock(Objects& objects, const vrdma_admin_cmd&, vrdma_admin_cpl& cpl) {
    cpl.query_clock.clock = objects.resources.slice.clock();
    return {};
}

Result<> create_srq(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl& cpl) {
    return return_handle(objects.srqs.create(cmd.create_srq), cpl);
}

Result<> modify_srq(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return objects.srqs.modify(cmd.modify_srq);
}

Result<> resize_srq(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return objects.srqs.resize(cmd.resize_srq);
}

Result<> query_srq(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl& cpl) {
    const auto limit =
        handle_of<Srqn>(cmd).and_then([&](Srqn id) { return objects.srqs.query(id); });
    if (!limit) {
        return fail(limit.error());
    }
    cpl.query_srq.limit = *limit;
    return {};
}

Result<> destroy_srq(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return handle_of<Srqn>(cmd).and_then([&](Srqn id) { return objects.srqs.destroy(id); });
}

Result<> create_qp(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl& cpl) {
    const auto made = objects.qps.create(cmd.create_qp);
    if (!made) {
        return fail(made.error());
    }
    cpl.create_qp.qpn = made->qpn.value;
    cpl.create_qp.doorbell_slot = made->doorbell_slot;
    return {};
}

Result<> modify_qp(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return objects.qps.modify(cmd.modify_qp);
}

Result<> query_qp(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl& cpl) {
    const auto attr = handle_of<Qpn>(cmd).and_then([&](Qpn id) { return objects.qps.query(id); });
    if (!attr) {
        return fail(attr.error());
    }
    cpl.query_qp = *attr;
    return {};
}

Result<> destroy_qp(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return handle_of<Qpn>(cmd).and_then([&](Qpn id) { return objects.qps.destroy(id); });
}

Result<> attach_mcast(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return objects.multicast.attach(cmd.multicast);
}

Result<> detach_mcast(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return objects.multicast.detach(cmd.multicast);
}

Result<> create_ah(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl& cpl) {
    return return_handle(objects.ahs.create(cmd.create_ah), cpl);
}

Result<> destroy_ah(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return handle_of<AhId>(cmd).and_then([&](AhId id) { return objects.ahs.destroy(id); });
}

Result<> set_gid(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl&) {
    return objects.gids.set(cmd.set_gid);
}

struct Command {
    std::string_view name;
    Handler run = nullptr;
    std::size_t argument_size = 0; // in bytes; all after it is reserved
};

constexpr auto commands = [] {
    std::array<Command, VRDMA_ADMIN_OPCODE_END> table{};
    constexpr std::size_t handle = sizeof(vrdma_cmd_handle);
    table[VRDMA_ADMIN_QUERY_DEVICE] = {"query_device", query_device, 0};
    table[VRDMA_ADMIN_CREATE_EQ] = {"create_eq", create_eq, sizeof(vrdma_cmd_create_eq)};
    table[VRDMA_ADMIN_DESTROY_EQ] = {"destroy_eq", destroy_eq, handle};
    table[VRDMA_ADMIN_ALLOC_UCONTEXT] = {"alloc_ucontext", alloc_ucontext, 0};
    table[VRDMA_ADMIN_DEALLOC_UCONTEXT] = {"dealloc_ucontext", dealloc_ucontext, handle};
    table[VRDMA_ADMIN_ALLOC_PD] = {"alloc_pd", alloc_pd, sizeof(vrdma_cmd_alloc_pd)};
    table[VRDMA_ADMIN_DEALLOC_PD] = {"dealloc_pd", dealloc_pd, handle};
    table[VRDMA_ADMIN_REG_MR] = {"reg_mr", reg_mr, sizeof(vrdma_cmd_reg_mr)};
    table[VRDMA_ADMIN_DEREG_MR] = {"dereg_mr", dereg_mr, handle};
    table[VRDMA_ADMIN_CREATE_CQ] = {"create_cq", create_cq, sizeof(vrdma_cmd_create_cq)};
    table[VRDMA_ADMIN_DESTROY_CQ] = {"destroy_cq", destroy_cq, handle};
    table[VRDMA_ADMIN_CREATE_QP] = {"create_qp", create_qp, sizeof(vrdma_cmd_create_qp)};
    table[VRDMA_ADMIN_MODIFY_QP] = {"modify_qp", modify_qp, sizeof(vrdma_cmd_modify_qp)};
    table[VRDMA_ADMIN_QUERY_QP] = {"query_qp", query_qp, handle};
    table[VRDMA_ADMIN_DESTROY_QP] = {"destroy_qp", destroy_qp, handle};
    table[VRDMA_ADMIN_CREATE_AH] = {"create_ah", create_ah, sizeof(vrdma_cmd_create_ah)};
    table[VRDMA_ADMIN_DESTROY_AH] = {"destroy_ah", destroy_ah, handle};
    table[VRDMA_ADMIN_SET_GID] = {"set_gid", set_gid, sizeof(vrdma_cmd_set_gid)};
    table[VRDMA_ADMIN_QUERY_PORT] = {"query_port", query_port, 0};
    table[VRDMA_ADMIN_CREATE_SRQ] = {"create_srq", create_srq, sizeof(vrdma_cmd_create_srq)};
    table[VRDMA_ADMIN_MODIFY_SRQ] = {"modify_srq", modify_srq, sizeof(vrdma_cmd_modify_srq)};
    table[VRDMA_ADMIN_RESIZE_SRQ] = {"resize_srq", resize_srq, sizeof(vrdma_cmd_resize_srq)};
    table[VRDMA_ADMIN_QUERY_SRQ] = {"query_srq", query_srq, handle};
    table[VRDMA_ADMIN_ALLOC_XRCD] = {"alloc_xrcd", alloc_xrcd, 0};
    table[VRDMA_ADMIN_ATTACH_MCAST] = {"attach_mcast", attach_mcast, sizeof(vrdma_cmd_multicast)};
    table[VRDMA_ADMIN_DETACH_MCAST] = {"detach_mcast", detach_mcast, sizeof(vrdma_cmd_multicast)};
    table[VRDMA_ADMIN_DEALLOC_XRCD] = {"dealloc_xrcd", dealloc_xrcd, handle};
    table[VRDMA_ADMIN_DESTROY_SRQ] = {"destroy_srq", destroy_srq, handle};
    table[VRDMA_ADMIN_MAP_PAGES] = {"map_pages", map_pages, sizeof(vrdma_cmd_map_pages)};
    table[VRDMA_ADMIN_UNMAP_PAGES] = {"unmap_pages", unmap_pages, sizeof(vrdma_cmd_unmap_pages)};
    table[VRDMA_ADMIN_QUERY_COUNTERS] = {"query_counters", query_counters,
                                         sizeof(vrdma_cmd_query_counters)};
    table[VRDMA_ADMIN_ALLOC_COUNTER_SET] = {"alloc_counter_set", alloc_counter_set, 0};
    table[VRDMA_ADMIN_DEALLOC_COUNTER_SET] = {"dealloc_counter_set", dealloc_counter_set, handle};
    table[VRDMA_ADMIN_BIND_COUNTER_SET] = {"bind_counter_set", bind_counter_set,
                                           sizeof(vrdma_cmd_bind_counter_set)};
    table[VRDMA_ADMIN_REREG_MR] = {"rereg_mr", rereg_mr, sizeof(vrdma_cmd_rereg_mr)};
    table[VRDMA_ADMIN_ALLOC_MW] = {"alloc_mw", alloc_mw, sizeof(vrdma_cmd_alloc_mw)};
    table[VRDMA_ADMIN_DEALLOC_MW] = {"dealloc_mw", dealloc_mw, handle};
    table[VRDMA_ADMIN_ALLOC_MR] = {"alloc_mr", alloc_mr, sizeof(vrdma_cmd_alloc_mr)};
    table[VRDMA_ADMIN_RESIZE_CQ] = {"resize_cq", resize_cq, sizeof(vrdma_cmd_resize_cq)};
    table[VRDMA_ADMIN_MODIFY_CQ] = {"modify_cq", modify_cq, sizeof(vrdma_cmd_modify_cq)};
    table[VRDMA_ADMIN_LISTEN] = {"listen", listen, sizeof(vrdma_cmd_listen)};
    table[VRDMA_ADMIN_UNLISTEN] = {"unlisten", unlisten, sizeof(vrdma_cmd_listen)};
    table[VRDMA_ADMIN_QUERY_CLOCK] = {"query_clock", query_clock, 0};
    return table;
}();

const Command* find_command(std::uint32_t header) {
    const std::uint32_t opcode = VRDMA_GET(VRDMA_ADMIN_OPCODE, header);
    return opcode < commands.size() && commands[opcode].run != nullptr ? &commands[opcode]
                                                                       : nullptr;
}

Result<> run(Objects& objects, const vrdma_admin_cmd& cmd, vrdma_admin_cpl& cpl) {
    const Command* command = find_command(cmd.header);
    if (command == nullptr) {
        return fail(std::errc::operation_not_supported);
    }
    const auto unused = std::span{cmd.bytes}.subspan(command->argument_size);
    if (cmd.reserved != 0 || (cmd.header & VRDMA_ADMIN_RESERVED) != 0 ||
        std::ranges::any_of(unused, [](std::uint8_t byte) { return byte != 0; })) {
        return fail(std::errc::invalid_argument);
    }
    return with_what_memory_there_is([&] { return command->run(objects, cmd, cpl); });
}

} // namespace

std::optional<vrdma_admin_cpl> run_admin_command(Objects& objects, const vrdma_admin_cmd& cmd) {
    vrdma_admin_cpl cpl{};
    const auto done = run(objects, cmd, cpl);
    if (!done && done.error() == verbs::comes_again) {
        return std::nullopt;
    }
    objects.resources.lists.forget();
    if (!done) {
        cpl = {};
        cpl.status = static_cast<std::uint32_t>(done.error());
    }
    cpl.header = cmd.header & (VRDMA_ADMIN_OPCODE | VRDMA_ADMIN_ID);
    return cpl;
}

// What an administrator has to know of a refused address.
std::string describe_gid(const vrdma_cmd_set_gid& cmd) {
    Gid gid{};
    std::ranges::copy(cmd.gid, gid.begin());
    return cmd.vlan == 0 ? gid_text(gid) : fmt::format("{} in VLAN {}", gid_text(gid), cmd.vlan);
}

std::string describe(const vrdma_admin_cmd& cmd, const vrdma_admin_cpl& cpl) {
    const Command* command = find_command(cmd.header);
    const std::string_view name = command == nullptr ? "unknown command" : command->name;
    if (cpl.status != 0) {
        const std::string object = VRDMA_GET(VRDMA_ADMIN_OPCODE, cmd.header) == VRDMA_ADMIN_SET_GID
                                       ? describe_gid(cmd.set_gid)
                                       : fmt::format("{:#x}", cmd.handle.handle);
        return fmt::format("{} {}: {}", name, object, describe(static_cast<std::errc>(cpl.status)));
    }
    // The completion has the handle of a new object. Otherwise the command has the object's handle.
    const bool makes =
        name.starts_with("create") || name.starts_with("alloc") || name.starts_with("reg");
    return fmt::format("{} {:#x}", name, makes ? cpl.handle.handle : cmd.handle.handle);
}

} // namespace vrdma
