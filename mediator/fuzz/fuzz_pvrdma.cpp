// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A hostile guest of a device with PVRDMA's personality, on the soft HCA: registers, the shared
// region, commands, page directories, WQEs, indices, doorbells and saved state. Each command, WQE
// and state starts out valid. The input then spoils it, so that it gets past the first checks. The
// guest's memory changes while it is read. A bystander must go on working.
//
// The input is a list of steps. The first byte of each selects its kind (enum Step).
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <span>

#include "mediator/fuzz/bystander.h"
#include "mediator/fuzz/changing_memory.h"
#include "mediator/fuzz/input.h"
#include "mediator/fuzz/spoiled_state.h"
#include "mediator/tests/guest/admin_client.h"
#include "mediator/tests/guest/guest.h"
#include "vrdma/pvrdma/device.h"
#include "vrdma/pvrdma/queue.h"

namespace vrdma {
namespace {

using fuzz::Input;

enum Step : std::uint8_t {
    step_command,  // number and kind, spoilers
    step_register, // index, value (4 bytes)
    step_region,   // spoilers of the shared region, which the driver then offers again
    step_poke,     // offset into the guest's first pages (2 bytes), value (4 bytes)
    step_reset,
    step_poll,     // the engine's turn
    step_post,     // send or receive, opcode, spoilers of the WQE; rings its doorbell
    step_doorbell, // offset (2 bytes), value (4 bytes)
    step_change,   // the guest's memory, when it is next read
    step_connect,  // all objects of a QP, and its way to RTS
    step_move,     // in parts or not, spoilers of each part; announce, save, restore
    step_count,
};

constexpr int max_steps = 200;
constexpr std::uint64_t arena_size = 1 << 26;
constexpr std::uint32_t uar_frame = 0xfe800;
constexpr std::uint32_t depth = 16;
constexpr std::uint32_t max_sge = 3;
constexpr unsigned sq_shift = 7;
constexpr unsigned rq_shift = 6;
constexpr std::uint64_t start = 0x7f0000000000;
constexpr std::uint64_t mr_size = 4 * PVRDMA_PAGE_SIZE;

DeviceType device_type() {
    DeviceType type{"fuzz", 1, arena_size, {}};
    type.limits.max_pd = type.limits.max_mr = type.limits.max_cq = type.limits.max_qp =
        type.limits.max_srq = 8; // small enough to be reached
    return type;
}

class Machine {
  public:
    Machine(hca::soft::SoftHca& hca, verbs::GidRegistry& gids) : hca_{hca}, gids_{gids} {
        fill_region();
        offer_region();
    }

    void step(Input& input) {
        switch (input.take<std::uint8_t>() % step_count) {
            case step_command: {
                const std::uint32_t draw = input.take<std::uint8_t>();
                const std::uint32_t command = draw % (PVRDMA_COMMANDS + 1);
                pvrdma_request request = good_request(command, draw / (PVRDMA_COMMANDS + 1));
                input.spoil<std::uint8_t>(
                    std::as_writable_bytes(std::span{&request, 1}).subspan(sizeof(request.header)));
                execute(command, request);
                break;
            }
            case step_register: {
                const std::uint32_t offset = input.take<std::uint8_t>() * 4;
                write(offset, input.take<std::uint32_t>());
                break;
            }
            case step_region:
                fill_region();
                input.spoil<std::uint8_t>(std::as_writable_bytes(std::span{region(), 1}));
                offer_region();
                break;
            case step_poke: {
                const std::uint64_t at = input.take<std::uint16_t>() / 4 * 4;
                *allocator_.at<std::uint32_t>(Iova{at}) = input.take<std::uint32_t>();
                break;
            }
            case step_reset:
                write(PVRDMA_REG_CONTROL, PVRDMA_CONTROL_RESET);
                handles_ = {};
                fill_region();
                offer_region();
                break;
            case step_poll:
                changing_.turn([&] { hca_.poll(); });
                break;
            case step_post:
                post(input);
                break;
            case step_doorbell: {
                const std::uint32_t offset = input.take<std::uint16_t>();
                ring(offset, input.take<std::uint32_t>());
                break;
            }
            case step_change:
                changing_.plan(input);
                break;
            case step_connect:
                connect();
                break;
            case step_move:
                move(input);
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

    void write(std::uint32_t offset, std::uint32_t value) {
        changing_.turn([&] { device_.write_register(offset, value); });
    }
    void ring(std::uint32_t offset, std::uint32_t value) {
        changing_.turn([&] { device_.write_doorbell(offset, value); });
    }

    void move(Input& input) {
        const auto stream = fuzz::spoiled_state(device_, input);
        changing_.turn([&] { fuzz::try_to_restore(device_, type_, stream); });
        device_.raise_all();
        device_.thaw();
    }

    pvrdma_shared_region* region() { return allocator_.at<pvrdma_shared_region>(region_); }

    Iova allocate(std::uint64_t pages) { return allocator_.allocate(pages * PVRDMA_PAGE_SIZE); }
    std::uint64_t directory(Iova begin, std::uint64_t pages) {
        return allocator_
            .page_list(begin, pages * PVRDMA_PAGE_SIZE, PVRDMA_PAGE_SHIFT, PVRDMA_DIRECTORY_LEVELS)
            .root;
    }

    void fill_region() {
        pvrdma_shared_region good{};
        good.driver_version = PVRDMA_VERSION;
        good.command_slot = raw(command_);
        good.response_slot = raw(response_);
        good.async_events = {2, 0, async_};
        good.completion_events = {2, 0, completions_};
        good.uar_frame = uar_frame;
        *region() = good;
    }

    void offer_region() {
        write(PVRDMA_REG_SHARED_LOW, static_cast<std::uint32_t>(raw(region_)));
        write(PVRDMA_REG_SHARED_HIGH, static_cast<std::uint32_t>(raw(region_) >> 32));
        write(PVRDMA_REG_MASK, 0);
        write(PVRDMA_REG_CONTROL, PVRDMA_CONTROL_ACTIVATE);
        run_device();
    }

    std::uint32_t& handle(std::uint32_t of) { return handles_.at(of); }

    // The user context of an object: one, or the guest's kernel.
    std::uint32_t owner(unsigned kind) {
        owner_ = kind % 2 != 0 ? handle(PVRDMA_CREATE_UC) : 0;
        return owner_;
    }

    // A request that would succeed, with the newest handles.
    pvrdma_request good_request(std::uint32_t command, unsigned kind) {
        pvrdma_request request{};
        switch (command) {
            case PVRDMA_CREATE_PD:
                request.handle.handle = owner(kind);
                break;
            case PVRDMA_CREATE_MR:
                request.create_mr = good_mr(kind);
                break;
            case PVRDMA_CREATE_CQ: {
                constexpr std::uint32_t pages = 2;
                request.create_cq = {
                    directory(allocate(pages), pages), owner_, 2 * depth, pages, {}};
                break;
            }
            case PVRDMA_CREATE_QP:
                request.create_qp = good_qp(kind);
                break;
            case PVRDMA_CREATE_SRQ: {
                constexpr std::uint32_t pages = 2;
                request.create_srq.directory = directory(allocate(pages), pages);
                request.create_srq.pd = handle(PVRDMA_CREATE_PD);
                request.create_srq.pages = pages;
                request.create_srq.attr = {depth, max_sge, 0, 0};
                break;
            }
            case PVRDMA_CREATE_UC:
                request.create_uc.uar_frame = uar_frame + 1;
                break;
            case PVRDMA_CREATE_BIND:
                request.create_bind.vlan = PVRDMA_NO_VLAN;
                request.create_bind.gid_type = PVRDMA_GID_ROCE_V2;
                std::ranges::copy(test::ipv4_gid(1), std::begin(request.create_bind.gid));
                break;
            case PVRDMA_MODIFY_QP:
                request.modify_qp = next_state();
                break;
            case PVRDMA_QUERY_QP:
            case PVRDMA_DESTROY_QP:
                request.handle.handle = handle(PVRDMA_CREATE_QP);
                break;
            case PVRDMA_MODIFY_SRQ:
                request.modify_srq = {handle(PVRDMA_CREATE_SRQ), IBV_SRQ_LIMIT, {0, 0, 1, 0}};
                break;
            case PVRDMA_QUERY_SRQ:
            case PVRDMA_DESTROY_SRQ:
                request.handle.handle = handle(PVRDMA_CREATE_SRQ);
                break;
            case PVRDMA_DESTROY_PD:
            case PVRDMA_DESTROY_MR:
            case PVRDMA_DESTROY_UC:
                request.handle.handle = handle(command - 1);
                break;
            case PVRDMA_DESTROY_CQ:
                request.handle.handle = handle(PVRDMA_CREATE_CQ);
                break;
            default:
                break;
        }
        return request;
    }

    pvrdma_create_mr good_mr(unsigned kind) {
        pvrdma_create_mr mr{};
        mr.pd = handle(PVRDMA_CREATE_PD);
        mr.access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                          IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        if (kind % 4 == 2) {
            mr.flags = PVRDMA_MR_DMA;
        } else if (kind % 4 == 3) {
            mr.flags = PVRDMA_MR_FAST;
            mr.pages = 2;
        } else {
            mr.start = start;
            mr.length = mr_size;
            mr.pages = mr_size / PVRDMA_PAGE_SIZE;
            mr.directory = directory(allocate(mr.pages), mr.pages);
        }
        return mr;
    }

    pvrdma_create_qp good_qp(unsigned kind) {
        constexpr std::uint16_t pages = 3; // indices, SQ and RQ
        rings_ = allocate(pages);
        pvrdma_create_qp qp{};
        qp.directory = directory(rings_, pages);
        qp.pd = handle(PVRDMA_CREATE_PD);
        qp.send_cq = qp.recv_cq = handle(PVRDMA_CREATE_CQ);
        qp.sq_depth = qp.rq_depth = depth;
        qp.max_send_sge = qp.max_recv_sge = max_sge;
        qp.pages = pages;
        qp.sq_pages = 1;
        constexpr std::array<std::uint8_t, 3> types{IBV_QPT_RC, IBV_QPT_UD, 1};
        qp.type = types[kind % types.size()];
        if (kind % 5 == 4) {
            qp.has_srq = 1;
            qp.srq = handle(PVRDMA_CREATE_SRQ);
            qp.rq_depth = qp.max_recv_sge = 0;
            qp.pages = 2;
        }
        state_ = IBV_QPS_RESET;
        type_of_qp_ = qp.type;
        return qp;
    }

    // On the newest QP's way to RTS, connected to itself.
    pvrdma_modify_qp next_state() {
        pvrdma_modify_qp modify{};
        modify.handle = handle(PVRDMA_CREATE_QP);
        state_ = state_ >= IBV_QPS_RTS ? static_cast<std::uint32_t>(IBV_QPS_RESET) : state_ + 1;
        const bool rc = type_of_qp_ == IBV_QPT_RC;
        modify.attr_mask = IBV_QP_STATE;
        if (state_ == IBV_QPS_INIT) {
            modify.attr_mask |=
                IBV_QP_PKEY_INDEX | IBV_QP_PORT | (rc ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY);
        } else if (state_ == IBV_QPS_RTR && rc) {
            modify.attr_mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        } else if (state_ == IBV_QPS_RTS) {
            modify.attr_mask |= IBV_QP_SQ_PSN;
            if (rc) {
                modify.attr_mask |=
                    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
            }
        }
        pvrdma_qp_attr& attr = modify.attr;
        attr.state = state_;
        attr.port = attr.path.port = 1;
        attr.access_flags =
            IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        attr.path_mtu = IBV_MTU_1024;
        attr.dest_qpn = qpn_;
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1;
        attr.timeout = attr.min_rnr_timer = 1;
        attr.retry_cnt = attr.rnr_retry = 1;
        std::ranges::copy(test::ipv4_gid(1), std::begin(attr.path.dgid));
        attr.path.hop_limit = 1;
        return modify;
    }

    void execute(std::uint32_t command, pvrdma_request request) {
        request.header = {command, command, 0};
        *allocator_.at<pvrdma_request>(command_) = request;
        auto* const response = allocator_.at<pvrdma_response>(response_);
        response->header = {};
        write(PVRDMA_REG_REQUEST, 0);
        run_device();
        if (response->header.response != (PVRDMA_RESPONSE | command)) {
            return;
        }
        if (command == PVRDMA_CREATE_QP) {
            qpn_ = response->qp.qpn;
            handle(command) = response->qp.handle;
        } else if (command == PVRDMA_CREATE_MR) {
            key_ = response->mr.lkey;
            handle(command) = response->mr.handle;
        } else if (command < PVRDMA_COMMANDS) {
            handle(command) = response->handle.handle;
        }
    }
    void execute(std::uint32_t command) { execute(command, good_request(command, 0)); }

    void connect() {
        for (const std::uint32_t command :
             {PVRDMA_CREATE_BIND, PVRDMA_CREATE_UC, PVRDMA_CREATE_PD, PVRDMA_CREATE_MR,
              PVRDMA_CREATE_CQ, PVRDMA_CREATE_SRQ, PVRDMA_CREATE_QP, PVRDMA_MODIFY_QP,
              PVRDMA_MODIFY_QP, PVRDMA_MODIFY_QP}) {
            execute(command);
        }
    }

    pvrdma_sq_wqe good_send(std::uint32_t opcode) {
        pvrdma_sq_wqe wqe{};
        wqe.num_sge = 1;
        wqe.opcode = opcode;
        wqe.flags = PVRDMA_SEND_SIGNALED;
        if (opcode == PVRDMA_ATOMIC_CMP_AND_SWP || opcode == PVRDMA_ATOMIC_FETCH_AND_ADD) {
            wqe.atomic.raddr = start;
            wqe.atomic.rkey = key_;
        } else if (opcode == PVRDMA_FAST_REG) {
            wqe.fast = {start,
                        directory(rings_, 2),
                        PVRDMA_PAGE_SHIFT,
                        2,
                        PVRDMA_PAGE_SIZE,
                        IBV_ACCESS_LOCAL_WRITE,
                        key_,
                        0};
        } else if (opcode == PVRDMA_LOCAL_INV || opcode == PVRDMA_SEND_WITH_INV) {
            wqe.invalidate_key = key_;
        } else if (type_of_qp_ == IBV_QPT_RC) {
            wqe.rdma.raddr = start;
            wqe.rdma.rkey = key_;
        } else {
            wqe.ud.dest_qpn = qpn_;
            std::ranges::copy(test::ipv4_gid(1), std::begin(wqe.ud.av.dgid));
            wqe.ud.av.port_pd = VRDMA_SET(PVRDMA_AV_PORT, 1) | handle(PVRDMA_CREATE_PD);
        }
        return wqe;
    }

    void post(Input& input) {
        const std::uint32_t draw = input.take<std::uint8_t>();
        if (rings_ == Iova{}) {
            return;
        }
        const bool sends = draw % 4 != 0;
        const vrdma_sge sge{start, 8, key_};
        std::array<std::byte, sizeof(pvrdma_sq_wqe) + sizeof(sge)> wqe{};
        const auto put = [&](const auto& header) {
            std::memcpy(wqe.data(), &header, sizeof(header));
            std::memcpy(wqe.data() + sizeof(header), &sge, sizeof(sge));
        };
        if (sends) {
            put(good_send(draw / 4 % PVRDMA_OPCODES));
        } else {
            put(pvrdma_rq_wqe{draw, 1, 0});
        }
        input.spoil<std::uint8_t>(wqe);
        auto* const indices = allocator_.at<pvrdma_indices>(rings_);
        pvrdma_ring& ring_of = sends ? indices->sends : indices->receives;
        const std::uint64_t entry =
            (std::uint64_t{ring_of.tail % depth} << (sends ? sq_shift : rq_shift)) +
            (sends ? 1u : 2u) * std::uint64_t{PVRDMA_PAGE_SIZE};
        std::memcpy(allocator_.at<std::byte>(rings_ + entry), wqe.data(),
                    sends ? wqe.size() : sizeof(pvrdma_rq_wqe) + sizeof(sge));
        ring_of.tail = (ring_of.tail + 1) % (2 * depth);
        const std::uint32_t page = owner_ != 0 ? PVRDMA_PAGE_SIZE : 0;
        ring(page + PVRDMA_UAR_QP,
             handle(PVRDMA_CREATE_QP) | (sends ? PVRDMA_UAR_QP_SEND : PVRDMA_UAR_QP_RECV));
    }

    hca::soft::SoftHca& hca_;
    verbs::GidRegistry& gids_;
    DeviceType type_ = device_type();
    test::GuestPort port_{ArenaMemory::create(arena_size).value(), type_};
    test::GuestAllocator allocator_{port_.memory()};
    fuzz::ChangingMemory changing_{{allocator_.at<std::byte>(Iova{0}), arena_size}};
    Device device_{"fuzz",
                   type_,
                   verbs::Identity{{2, 0, 0, 0, 0, 1}, {}, true},
                   port_,
                   hca_,
                   gids_,
                   PersonalityKind::pvrdma};
    Iova region_ = allocate(1);
    Iova command_ = allocate(1);
    Iova response_ = allocate(1);
    std::uint64_t async_ = directory(allocate(2), 2);
    std::uint64_t completions_ = directory(allocate(2), 2);
    Iova rings_{}; // of the newest QP
    std::array<std::uint32_t, PVRDMA_COMMANDS> handles_{};
    std::uint32_t owner_ = 0;
    std::uint32_t qpn_ = 0;
    std::uint32_t key_ = 0;
    std::uint32_t state_ = 0;
    std::uint8_t type_of_qp_ = 0;
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
