// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/tests/guest/vm.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace vrdma::test {
namespace {

constexpr std::uint32_t cq_depth = 64;
constexpr std::uint64_t data_size = std::uint64_t{3} * VRDMA_PAGE_SIZE;

// Commands of an honest guest do not fail.
void must(bool succeeded) {
    if (!succeeded) {
        std::abort();
    }
}

} // namespace

Vm::Vm(hca::Hca& hca, verbs::GidRegistry& gids, std::uint8_t number,
       std::unique_ptr<GuestMemory> memory, std::string uplink)
    : hca_{hca},
      gids_{gids},
      uplink_{std::move(uplink)},
      gid{ipv4_gid(number)},
      port{std::move(memory), type_} {
    plug_in();
    admin.emplace(*device, port, allocator);
}

void Vm::plug_in() {
    const verbs::Mac mac{2, 0, 0, 0, 0, gid.back()};
    const verbs::Identity identity{mac, {{gid, 128}}, true, uplink_};
    device.emplace("vm", type_, identity, port, hca_, gids_);
}

void Vm::set_up() {
    must(admin->enable());
    set_address();
    pd_ = create(VRDMA_ADMIN_ALLOC_PD);
    set_up_cq();
    set_up_qp();
    data = allocate(data_size);
    data_list_ = list(data);
    key = register_data();
}

void Vm::set_address() {
    vrdma_admin_cmd cmd{};
    cmd.set_gid = {0, VRDMA_GID_ROCE_V2, 1, 0, {}};
    std::ranges::copy(gid, cmd.set_gid.gid);
    must(admin->run(VRDMA_ADMIN_SET_GID, cmd) == 0);
}

void Vm::set_up_cq() {
    constexpr std::uint32_t depth = 64;
    vrdma_admin_cmd cmd{};
    cmd.create_eq = {list(allocate(sizeof(vrdma_eq_control) + depth * sizeof(vrdma_eqe))), depth,
                     1};
    const std::uint32_t eq = create(VRDMA_ADMIN_CREATE_EQ, cmd);
    const Buffer ring = allocate(VRDMA_QUEUE_CONTROL_SIZE + cq_depth * sizeof(vrdma_cqe));
    cmd = {};
    cmd.create_cq = {list(ring), 0, cq_depth, eq, 0, 0, 0};
    cq.emplace(Cqn{create(VRDMA_ADMIN_CREATE_CQ, cmd)}, ring, cq_depth);
}

void Vm::set_up_qp() {
    const QpShape shape;
    const Buffer queues = allocate(shape.buffer_size());
    vrdma_admin_cmd cmd{};
    cmd.create_qp = {.pages = list(queues),
                     .first_offset = 0,
                     .ucontext = 0,
                     .pd = pd_,
                     .send_cq = cq->id().value,
                     .recv_cq = cq->id().value,
                     .sq_depth = shape.sq_depth,
                     .rq_depth = shape.rq_depth,
                     .sq_stride_shift = shape.sq_stride_shift,
                     .rq_stride_shift = shape.rq_stride_shift,
                     .qp_type = static_cast<std::uint8_t>(shape.type),
                     .flags = 0,
                     .max_inline = shape.max_inline,
                     .max_send_sge = shape.max_send_sge,
                     .max_recv_sge = shape.max_recv_sge,
                     .srq = 0,
                     .xrcd = 0};
    const auto made = admin->execute(VRDMA_ADMIN_CREATE_QP, cmd);
    must(made.status == 0);
    qp.emplace(Qpn{made.create_qp.qpn}, shape, queues,
               Doorbell{&port.doorbells()[0], made.create_qp.doorbell_slot,
                        allocator.at<vrdma_status_page>(admin->status_page()), [] {}});
}

void Vm::connect(const Vm& peer) {
    modify(init_attr());
    modify(rtr_attr(peer.gid, peer.qp->id()));
    modify(rts_attr());
}

void Vm::modify(const vrdma_qp_attr& attr) {
    vrdma_admin_cmd cmd{};
    cmd.modify_qp = {qp->id().value, 0, attr};
    must(admin->run(VRDMA_ADMIN_MODIFY_QP, cmd) == 0);
}

Key Vm::register_data() {
    vrdma_admin_cmd cmd{};
    cmd.reg_mr = {data_list_, start, data.size(), pd_, all_access, 0, 0};
    return Key{create(VRDMA_ADMIN_REG_MR, cmd)};
}

void Vm::deregister(Key region) {
    must(admin->destroy(VRDMA_ADMIN_DEREG_MR, region.value) == 0);
}

std::uint32_t Vm::create(std::uint32_t opcode, const vrdma_admin_cmd& cmd) {
    const std::int64_t made = admin->create(opcode, cmd);
    must(made > 0);
    return static_cast<std::uint32_t>(made);
}

Buffer Vm::allocate(std::uint64_t size) {
    const Iova begin = allocator.allocate(size);
    hca::Translation pages{{}, VRDMA_PAGE_SHIFT, 0, size};
    for (std::uint64_t at = 0; at < size; at += VRDMA_PAGE_SIZE) {
        pages.blocks.push_back(begin + at);
    }
    return {port.memory(), std::move(pages)};
}

vrdma_page_list Vm::list(const Buffer& buffer) {
    return allocator.page_list(buffer.pages().blocks.front(), buffer.size());
}

} // namespace vrdma::test
