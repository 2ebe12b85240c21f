// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A hostile guest driver: registers, admin commands, page lists and saved state, on a device with
// the soft HCA. Each command, of every kind, starts out valid. The input then spoils it, so that it
// gets past the first checks. The guest's memory changes while it is read. A bystander must go on
// working.
//
// The input is a list of steps. The first byte of each selects its kind (enum Step).
#include <infiniband/verbs.h>

#include <array>
#include <span>

#include "mediator/fuzz/bystander.h"
#include "mediator/fuzz/changing_memory.h"
#include "mediator/fuzz/input.h"
#include "mediator/fuzz/spoiled_state.h"
#include "mediator/tests/guest/admin_client.h"

namespace vrdma {
namespace {

using fuzz::Input;

enum Step : std::uint8_t {
    step_command,  // opcode and kind, spoilers
    step_register, // index into registers, value (4 bytes)
    step_poke,     // offset into the guest's first pages (2 bytes), value
    step_reset,
    step_enable,
    step_poll, // the engine's turn
    step_move, // in parts or not, spoilers of each part and of the stream; announce, save, restore
    step_change, // the guest's memory, when it is next read
    step_count,
};

constexpr int max_steps = 200;
constexpr std::uint64_t arena_size = 1 << 26;

DeviceType device_type() {
    DeviceType type{"fuzz", 1, arena_size, {}};
    type.limits.max_pd = type.limits.max_mr = type.limits.max_cq = type.limits.max_qp =
        type.limits.max_ah = type.limits.max_srq = type.limits.max_xrcd =
            type.limits.max_counter_set = 8; // small enough to be reached
    return type;
}

class Machine {
  public:
    Machine(hca::soft::SoftHca& hca, verbs::GidRegistry& gids) : hca_{hca}, gids_{gids} {
        guest_.enable();
    }

    void step(Input& input) {
        switch (input.take<std::uint8_t>() % step_count) {
            case step_command:
                command(input);
                break;
            case step_register:
                write_register(input);
                break;
            case step_poke: {
                const std::uint64_t at = input.take<std::uint16_t>() / 4 * 4;
                *allocator_.at<std::uint32_t>(Iova{at}) = input.take<std::uint32_t>();
                break;
            }
            case step_reset:
                guest_.reset();
                handles_ = {};
                break;
            case step_enable:
                changing_.turn([&] { guest_.enable(); });
                break;
            case step_poll:
                changing_.turn([&] { hca_.poll(); });
                break;
            case step_move:
                move(input);
                break;
            case step_change:
                changing_.plan(input);
                break;
            default:
                break;
        }
        run_device();
    }

  private:
    void run_device() {
        while (port_.take_wake()) {
            changing_.turn([&] { device_.service(); });
        }
    }

    // A command that would succeed, with the newest handles. An object belongs to the guest's
    // kernel, or to a user context if it is made for a PD that does.
    vrdma_admin_cmd good_command(std::uint32_t opcode, unsigned kind) {
        vrdma_admin_cmd cmd{};
        const auto pages = [&](std::uint64_t size) {
            return allocator_.page_list(allocator_.allocate(size), size);
        };
        switch (opcode) {
            case VRDMA_ADMIN_CREATE_EQ:
                cmd.create_eq = {pages(sizeof(vrdma_eq_control) + 16 * sizeof(vrdma_eqe)), 16, 0};
                break;
            case VRDMA_ADMIN_ALLOC_PD:
                owner_ = kind % 2 != 0 ? handle(VRDMA_ADMIN_ALLOC_UCONTEXT) : 0;
                cmd.alloc_pd = {owner_, 0};
                break;
            case VRDMA_ADMIN_REG_MR:
                cmd.reg_mr = {pages(9000), 0x10000, 9000, handle(VRDMA_ADMIN_ALLOC_PD), 15, 0, 0};
                on_demand_ = !on_demand_;
                if (on_demand_) {
                    cmd.reg_mr.pages = {};
                    cmd.reg_mr.length = VRDMA_ON_DEMAND_MAX_SIZE;
                    cmd.reg_mr.access_flags |= IBV_ACCESS_ON_DEMAND;
                }
                break;
            case VRDMA_ADMIN_MAP_PAGES:
                on_demand_ = !on_demand_;
                if (on_demand_) {
                    cmd.map_pages = {pages(2 * VRDMA_PAGE_SIZE), 511, handle(VRDMA_ADMIN_REG_MR),
                                     VRDMA_MAP_WRITABLE};
                } else {
                    cmd.map_pages = {
                        {0, 3, 0, 0, 0}, 0, handle(VRDMA_ADMIN_REG_MR), VRDMA_MAP_REFUSED};
                }
                break;
            case VRDMA_ADMIN_UNMAP_PAGES:
                cmd.unmap_pages = {0, UINT64_MAX, handle(VRDMA_ADMIN_REG_MR), 0};
                break;
            case VRDMA_ADMIN_REREG_MR:
                cmd.rereg_mr = {pages(5000),
                                0x1000,
                                5000,
                                handle(VRDMA_ADMIN_ALLOC_PD),
                                15,
                                0,
                                7,
                                handle(VRDMA_ADMIN_REG_MR),
                                0};
                break;
            case VRDMA_ADMIN_ALLOC_MW:
                cmd.alloc_mw = {handle(VRDMA_ADMIN_ALLOC_PD), IBV_MW_TYPE_2};
                break;
            case VRDMA_ADMIN_ALLOC_MR:
                cmd.alloc_mr = {handle(VRDMA_ADMIN_ALLOC_PD), 4};
                break;
            case VRDMA_ADMIN_CREATE_CQ:
                cmd.create_cq = {pages(VRDMA_QUEUE_CONTROL_SIZE + 16 * sizeof(vrdma_cqe)),
                                 0,
                                 16,
                                 handle(VRDMA_ADMIN_CREATE_EQ),
                                 owner_,
                                 kind % (2 * VRDMA_CQ_IGNORE_OVERRUN),
                                 0};
                break;
            case VRDMA_ADMIN_RESIZE_CQ:
                cmd.resize_cq = {pages(VRDMA_QUEUE_CONTROL_SIZE + 32 * sizeof(vrdma_cqe)), 0, 32,
                                 handle(VRDMA_ADMIN_CREATE_CQ), 0};
                break;
            case VRDMA_ADMIN_MODIFY_CQ:
                cmd.modify_cq = {handle(VRDMA_ADMIN_CREATE_CQ), 4, 10};
                break;
            case VRDMA_ADMIN_CREATE_QP:
                cmd.create_qp = next_qp(kind);
                break;
            case VRDMA_ADMIN_CREATE_SRQ:
                cmd.create_srq = {pages(vrdma_srq_buffer_size(16, 5)),
                                  0,
                                  owner_,
                                  handle(VRDMA_ADMIN_ALLOC_PD),
                                  16,
                                  5,
                                  0,
                                  1,
                                  0,
                                  0,
                                  0};
                if (next_is_xrc()) {
                    cmd.create_srq.xrcd = handle(VRDMA_ADMIN_ALLOC_XRCD);
                    cmd.create_srq.cq = handle(VRDMA_ADMIN_CREATE_CQ);
                }
                break;
            case VRDMA_ADMIN_MODIFY_SRQ:
                cmd.modify_srq = {handle(VRDMA_ADMIN_CREATE_SRQ), 4};
                break;
            case VRDMA_ADMIN_RESIZE_SRQ:
                cmd.resize_srq = {pages(vrdma_srq_buffer_size(32, 5)),
                                  0,
                                  32,
                                  handle(VRDMA_ADMIN_CREATE_SRQ),
                                  kind % (2 * VRDMA_RESIZE_SRQ_LIMIT),
                                  kind % (2 * VRDMA_RESIZE_SRQ_LIMIT) * 4,
                                  0};
                break;
            case VRDMA_ADMIN_MODIFY_QP:
                cmd.modify_qp = next_state();
                break;
            case VRDMA_ADMIN_ATTACH_MCAST:
            case VRDMA_ADMIN_DETACH_MCAST:
                cmd.multicast = {handle(VRDMA_ADMIN_CREATE_QP), 0, {0xff, 2}};
                break;
            case VRDMA_ADMIN_CREATE_AH:
                cmd.create_ah.pd = handle(VRDMA_ADMIN_ALLOC_PD);
                cmd.create_ah.av = av();
                break;
            case VRDMA_ADMIN_SET_GID:
                cmd.set_gid = {0, VRDMA_GID_ROCE_V2, 1, 0, {0xfd, 1}};
                break;
            case VRDMA_ADMIN_QUERY_COUNTERS:
                cmd.query_counters = {0, kind % 2 != 0 ? handle(VRDMA_ADMIN_CREATE_QP) : 0,
                                      kind % 3 == 2 ? handle(VRDMA_ADMIN_ALLOC_COUNTER_SET) : 0, 0};
                break;
            case VRDMA_ADMIN_BIND_COUNTER_SET:
                cmd.bind_counter_set = {handle(VRDMA_ADMIN_CREATE_QP),
                                        kind % 2 != 0 ? handle(VRDMA_ADMIN_ALLOC_COUNTER_SET) : 0};
                break;
            default:
                cmd.handle.handle = victim(opcode, kind);
                break;
        }
        return cmd;
    }

    static vrdma_av av() {
        vrdma_av av{};
        av.dgid[0] = 0xfd;
        av.dgid[1] = 1;
        av.port_num = 1;
        return av;
    }

    // Takes the types in turn. The last has an SRQ.
    vrdma_cmd_create_qp next_qp(unsigned kind) {
        static constexpr std::uint8_t gsi = 1;
        static constexpr std::array<std::uint8_t, 6> types{
            IBV_QPT_RC, IBV_QPT_UD, IBV_QPT_UC, IBV_QPT_XRC_SEND, gsi, IBV_QPT_RC};
        vrdma_cmd_create_qp cmd{};
        state_ = 0;
        if (next_is_xrc()) {
            type_of_qp_ = cmd.qp_type = IBV_QPT_XRC_RECV;
            cmd.xrcd = handle(VRDMA_ADMIN_ALLOC_XRCD);
            return cmd;
        }
        type_of_qp_ = types[kind % types.size()];
        const bool shared = kind % types.size() == types.size() - 1;
        const bool receives = type_of_qp_ != IBV_QPT_XRC_SEND && !shared;
        const std::uint64_t size = vrdma_qp_buffer_size(16, 6, receives ? 16 : 0, 5);
        cmd.pages = allocator_.page_list(allocator_.allocate(size), size);
        cmd.ucontext = owner_;
        cmd.pd = handle(VRDMA_ADMIN_ALLOC_PD);
        cmd.send_cq = handle(VRDMA_ADMIN_CREATE_CQ);
        cmd.recv_cq = type_of_qp_ == IBV_QPT_XRC_SEND ? 0 : cmd.send_cq;
        cmd.sq_depth = 16;
        cmd.rq_depth = receives ? 16 : 0;
        cmd.sq_stride_shift = 6;
        cmd.rq_stride_shift = 5;
        cmd.qp_type = type_of_qp_;
        cmd.max_send_sge = 1;
        cmd.max_recv_sge = receives ? 1 : 0;
        cmd.srq = shared ? handle(VRDMA_ADMIN_CREATE_SRQ) : 0;
        return cmd;
    }

    // The attributes that a move to INIT, RTR or RTS needs beside the state.
    std::uint32_t attributes() const {
        constexpr std::uint32_t identity = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
        constexpr std::uint32_t path =
            IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        constexpr std::uint32_t retries =
            IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        using Masks = std::array<std::uint32_t, IBV_QPS_RTS + 1>;
        const Masks masks = [&]() -> Masks {
            constexpr std::uint32_t connected = identity | IBV_QP_ACCESS_FLAGS;
            constexpr std::uint32_t asked = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
            switch (type_of_qp_) {
                case IBV_QPT_RC:
                    return {0, connected, path | asked, IBV_QP_SQ_PSN | retries};
                case IBV_QPT_UC:
                    return {0, connected, path, IBV_QP_SQ_PSN};
                case IBV_QPT_XRC_SEND:
                    return {0, connected, path, IBV_QP_SQ_PSN | retries};
                case IBV_QPT_XRC_RECV:
                    return {0, connected, path | asked, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT};
                default:
                    return {0, identity | IBV_QP_QKEY, 0, IBV_QP_SQ_PSN};
            }
        }();
        return masks[state_];
    }

    // RESET to INIT, INIT to RTR, RTR to RTS, and from the beginning.
    vrdma_cmd_modify_qp next_state() {
        vrdma_cmd_modify_qp cmd{};
        state_ = static_cast<std::uint8_t>((state_ + 1) % (IBV_QPS_RTS + 1));
        cmd.qpn = handle(VRDMA_ADMIN_CREATE_QP);
        cmd.attr.state = state_;
        cmd.attr.attr_mask = IBV_QP_STATE | attributes();
        cmd.attr.port_num = 1;
        cmd.attr.path_mtu = 3;
        cmd.attr.dest_qpn = cmd.qpn;
        cmd.attr.av = av();
        return cmd;
    }

    std::uint32_t handle(std::uint32_t opcode) const { return handles_[opcode]; }

    // Every second time, once there is an XRC domain.
    bool next_is_xrc() { return handle(VRDMA_ADMIN_ALLOC_XRCD) != 0 && (xrc_ = !xrc_); }

    std::uint32_t victim(std::uint32_t opcode, unsigned kind) const {
        switch (opcode) {
            case VRDMA_ADMIN_DESTROY_EQ:
                return handle(VRDMA_ADMIN_CREATE_EQ);
            case VRDMA_ADMIN_DEALLOC_UCONTEXT:
                return handle(VRDMA_ADMIN_ALLOC_UCONTEXT);
            case VRDMA_ADMIN_DEALLOC_PD:
                return handle(VRDMA_ADMIN_ALLOC_PD);
            case VRDMA_ADMIN_DEALLOC_XRCD:
                return handle(VRDMA_ADMIN_ALLOC_XRCD);
            case VRDMA_ADMIN_DEALLOC_COUNTER_SET:
                return handle(VRDMA_ADMIN_ALLOC_COUNTER_SET);
            case VRDMA_ADMIN_DEREG_MR:
                return handle(kind % 2 != 0 ? VRDMA_ADMIN_ALLOC_MR : VRDMA_ADMIN_REG_MR);
            case VRDMA_ADMIN_DEALLOC_MW:
                return handle(VRDMA_ADMIN_ALLOC_MW);
            case VRDMA_ADMIN_DESTROY_CQ:
                return handle(VRDMA_ADMIN_CREATE_CQ);
            case VRDMA_ADMIN_QUERY_QP:
            case VRDMA_ADMIN_DESTROY_QP:
                return handle(VRDMA_ADMIN_CREATE_QP);
            case VRDMA_ADMIN_QUERY_SRQ:
            case VRDMA_ADMIN_DESTROY_SRQ:
                return handle(VRDMA_ADMIN_CREATE_SRQ);
            case VRDMA_ADMIN_DESTROY_AH:
                return handle(VRDMA_ADMIN_CREATE_AH);
            default:
                return 0;
        }
    }

    void command(Input& input) {
        constexpr std::uint32_t opcodes = VRDMA_ADMIN_OPCODE_END + 2;
        const std::uint32_t draw = input.take<std::uint8_t>();
        const std::uint32_t opcode = draw % opcodes;
        vrdma_admin_cmd cmd = good_command(opcode, draw / opcodes);
        input.spoil<std::uint16_t>(
            std::as_writable_bytes(std::span{&cmd, 1}).subspan(sizeof(cmd.header)));
        guest_.post(opcode, cmd);
        changing_.turn([&] { guest_.ring(); });
        run_device();
        for (auto cpl = guest_.poll(); cpl; cpl = guest_.poll()) {
            const auto done = VRDMA_GET(VRDMA_ADMIN_OPCODE, cpl->header);
            if (cpl->status == 0 && done < handles_.size()) {
                handles_[done] = cpl->handle.handle;
            }
        }
    }

    void write_register(Input& input) {
        const std::uint32_t offset = input.take<std::uint8_t>() * 4;
        const auto value = input.take<std::uint32_t>();
        changing_.turn([&] { guest_.write(offset, value); });
    }

    void move(Input& input) {
        auto stream = fuzz::spoiled_state(device_, input);
        input.spoil<std::uint16_t>(stream);
        changing_.turn([&] { fuzz::try_to_restore(device_, type_, stream); });
        device_.thaw();
    }

    hca::soft::SoftHca& hca_;
    verbs::GidRegistry& gids_;
    DeviceType type_ = device_type();
    test::GuestPort port_{ArenaMemory::create(arena_size).value(), type_};
    test::GuestAllocator allocator_{port_.memory()};
    fuzz::ChangingMemory changing_{{allocator_.at<std::byte>(Iova{0}), arena_size}};
    // One of two functions of an endport. It may listen.
    std::shared_ptr<verbs::Endport> endport_ =
        std::make_shared<verbs::Endport>(verbs::Identity{{2, 0, 0, 0, 0, 1}, {}, true}, 2);
    Device device_{"fuzz", type_, {endport_, 1}, port_, hca_, gids_};
    test::AdminClient guest_{device_, port_, allocator_};
    std::array<std::uint32_t, VRDMA_ADMIN_OPCODE_END> handles_{};
    std::uint32_t owner_ = 0;
    std::uint8_t type_of_qp_ = 0; // of the newest QP, like state_
    std::uint8_t state_ = 0;
    bool xrc_ = false;
    bool on_demand_ = false;
};

} // namespace
} // namespace vrdma

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return vrdma::fuzz::beside_bystander({data, size}, [](auto& hca, auto& gids, auto& input) {
        vrdma::Machine machine{hca, gids};
        for (int i = 0; i < vrdma::max_steps && !input.empty(); ++i) {
            machine.step(input);
        }
    });
}
