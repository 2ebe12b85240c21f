// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A hostile guest process: WQEs, rings, indices and doorbells of any content, which also change
// while they are read, on the soft HCA. An honest guest is its peer. Each WQE must end in a
// completion or an event. The peer's memory beyond what it has offered must not change. A bystander
// must go on working.
//
// The input is a byte for the stage and a list of steps. The first byte of each step selects its
// kind (enum Step). WQEs start out valid. The input then spoils them, so that they get past the
// first checks.
#include <infiniband/verbs.h>

#include <array>
#include <cstring>
#include <span>

#include "mediator/fuzz/bystander.h"
#include "mediator/fuzz/changing_memory.h"
#include "mediator/fuzz/input.h"
#include "mediator/fuzz/make_hca.h"
#include "mediator/tests/guest/guest.h"

namespace vrdma::test {
namespace {

using fuzz::Input;
using fuzz::require;

enum Step : std::uint8_t {
    step_send,    // QP, opcode, spoilers
    step_receive, // QP, spoilers
    step_offer,   // QP: the peer posts a receive
    step_poke,    // page of the guest's memory, offset, value
    step_ring,    // page, slot
    step_modify,  // QP, state
    step_arm,     // whether for solicited events only, and the SRQ's limit
    step_take,    // the guest takes completions and events
    step_poll,    // the engine's turn; the rest of the byte orders the pollers
    step_freeze,  // for the time of a few rounds
    step_change,  // the guest's memory, when it is next read
    step_count,
};

constexpr int max_steps = 300;
constexpr int max_resizes = 64; // their rings are never freed
constexpr std::uint64_t memory_size = 2 << 20;
constexpr std::uint32_t region_size = 4 * VRDMA_PAGE_SIZE;
constexpr std::uint32_t qkey = 0x1234;

std::unique_ptr<hca::soft::SoftHca> make_hca(unsigned pollers) {
    hca::soft::Config config;
    config.pollers = pollers;
    config.hot_queues = 2;
    config.turn_bytes = 4096;
    return fuzz::make_hca(config);
}

std::unique_ptr<GuestMemory> make_memory() {
    return std::move(*ArenaMemory::create(memory_size));
}

// The guest that the input plays, and the one that it must not harm.
class Stage {
  public:
    // The first byte says whether the guests have pollers of their own, whether the hostile QPs
    // share an SRQ, and whether those objects belong to the guest's kernel.
    explicit Stage(Input& input) : Stage{input.take<std::uint8_t>()} {}

    explicit Stage(std::uint8_t kind) : pollers_{1u + kind % 2}, hca_{make_hca(pollers_)} {
        const bool shared = (kind & 2) != 0;
        for (const hca::QpType type : {hca::QpType::rc, hca::QpType::uc, hca::QpType::ud}) {
            hostile_qps_.push_back(hostile_.create_qp(
                hostile_cq_, hostile_cq_,
                shared ? QpShape::sharing(srq_.id(), type) : QpShape{.type = type},
                (kind & 4) != 0 ? 0 : 1));
            honest_qps_.push_back(honest_.create_qp(honest_cq_, honest_cq_, {.type = type}));
            connect_up(hostile_, hostile_qps_.back(), honest_, honest_qps_.back());
            connect_up(honest_, honest_qps_.back(), hostile_, hostile_qps_.back());
        }
        hostile_qps_.push_back(hostile_.create_qp(hostile_cq_, hostile_cq_, QpShape::xrc_send()));
        connect(hostile_, hostile_qps_.back(), honest_.gid(), xrc_recv_);
        connect(honest_, xrc_recv_, hostile_.gid(), hostile_qps_.back().id());
        secret_.buffer.write(0, pattern_);
        readable_.buffer.write(0, pattern_);
    }

    void step(Input& input) {
        const auto draw = input.take<std::uint8_t>();
        switch (draw % step_count) {
            case step_send:
                return send(input);
            case step_receive:
                return receive(input);
            case step_offer:
                return offer(input);
            case step_poke:
                return poke(input);
            case step_ring:
                return hostile_
                    .doorbell(input.take<std::uint8_t>() % Guest::doorbell_pages,
                              input.take<std::uint16_t>() % VRDMA_DOORBELL_SLOTS)
                    .ring();
            case step_modify:
                return modify(input);
            case step_arm:
                return arm(input.take<std::uint8_t>());
            case step_take:
                return take();
            case step_freeze:
                hostile_.slice().freeze();
                poll();
                return hostile_.thaw();
            case step_change:
                return changing_.plan(input);
            default:
                return poll(draw / step_count);
        }
    }

    // Checks what must hold whatever the guest did.
    void check() {
        for (int i = 0; i < 20; ++i) {
            poll();
        }
        require(secret_.buffer.read(0, region_size) == pattern_);
        require(readable_.buffer.read(0, region_size) == pattern_);
        bystander_.check();
    }

  private:
    static void connect_up(Guest& guest, const GuestQp& qp, Guest& peer, const GuestQp& peer_qp) {
        if (qp.shape().type == hca::QpType::ud) {
            activate_ud(guest, qp, qkey);
        } else {
            connect(guest, qp, peer.gid(), peer_qp.id());
        }
    }

    // Each bit is a poller's round. If all bits are zero, the pollers alternate.
    void poll(unsigned order = 0) {
        constexpr int rounds = 16;
        constexpr unsigned alternate = 0b10101;
        changing_.turn([&] {
            for (int i = 0; i < rounds; ++i) {
                hca_->poll(((order ^ alternate) >> (i % 5) & 1) % pollers_);
            }
        });
        while (honest_cq_.poll()) { // so that it does not overrun
        }
    }

    GuestQp& pick(std::vector<GuestQp>& qps, Input& input) {
        return qps[input.take<std::uint8_t>() % qps.size()];
    }

    const MemoryRegion& source(unsigned draw) const { return draw % 2 == 0 ? own_ : lazy_; }

    // Writes the part after the WQE's header. Returns how many list elements it counts.
    std::uint32_t write_payload(std::uint32_t opcode, std::span<std::byte> to, Input& input) {
        const auto put = [&](const auto& what, std::size_t offset = 0) {
            std::memcpy(&to[offset], &what, sizeof(what));
        };
        switch (opcode) {
            case VRDMA_SQ_LOCAL_INV:
                return 0;
            case VRDMA_SQ_BIND_MW: {
                const MemoryRegion& region = source(input.take<std::uint8_t>());
                put(vrdma_sq_bind{region.start, 100, region.key.value, IBV_ACCESS_REMOTE_WRITE});
                return 0;
            }
            case VRDMA_SQ_REG_MR:
                put(vrdma_sq_reg{{raw(own_.buffer.pages().blocks[0]), 2, VRDMA_PAGE_SHIFT,
                                  input.take<std::uint8_t>(), 0},
                                 0x5000,
                                 5000,
                                 all_access,
                                 0});
                return 0;
            case VRDMA_SQ_ATOMIC_CMP_AND_SWP:
            case VRDMA_SQ_ATOMIC_FETCH_AND_ADD:
                put(own_.sge(0, 8), sizeof(vrdma_sq_atomic));
                return 1;
            case VRDMA_SQ_ATOMIC_WRITE:
                put(own_.sge(0, 8));
                return 1;
            default: {
                const auto draw = input.take<std::uint16_t>();
                put(source(draw).sge(0, draw % region_size));
                return 1;
            }
        }
    }

    // The key that the opcode uses.
    Key key_for(std::uint32_t opcode) const {
        switch (opcode) {
            case VRDMA_SQ_SEND:
            case VRDMA_SQ_SEND_WITH_IMM:
                return {};
            case VRDMA_SQ_BIND_MW:
            case VRDMA_SQ_LOCAL_INV:
                return window_;
            case VRDMA_SQ_REG_MR:
                return fast_;
            case VRDMA_SQ_RDMA_READ:
                return readable_.key;
            default:
                return offered_.key;
        }
    }

    // The WQE has the layout of the guest's write_send() before it is spoiled.
    void send(Input& input) {
        constexpr std::array<std::uint32_t, 12> opcodes{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 32};
        GuestQp& qp = pick(hostile_qps_, input);
        struct {
            vrdma_sq_wqe wqe{};
            std::array<vrdma_sge, 6> list{};
        } entry;
        const auto draw = input.take<std::uint8_t>();
        const std::uint32_t opcode = opcodes[draw % opcodes.size()];
        std::span<std::byte> payload = std::as_writable_bytes(std::span{entry.list});
        if (qp.shape().type == hca::QpType::xrc_send) {
            const vrdma_sq_xrc xrc{xrc_srq_.id().value, 0};
            std::memcpy(payload.data(), &xrc, sizeof(xrc));
            payload = payload.subspan(sizeof(xrc));
        }
        const std::uint32_t elements = write_payload(opcode, payload, input);
        entry.wqe.ctrl = opcode | VRDMA_SQ_SIGNALED | VRDMA_SET(VRDMA_WQE_NUM_SGE, elements);
        if (draw / opcodes.size() % 4 == 1) {
            entry.wqe.ctrl = opcode | VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE;
            entry.wqe.length = 16;
        }
        if (qp.shape().type == hca::QpType::ud) {
            entry.wqe.qkey = qkey;
            entry.wqe.ud.ah = ah_.value;
            entry.wqe.ud.dest_qpn = honest_qps_.back().id().value;
        } else {
            entry.wqe.rkey = key_for(opcode).value;
            entry.wqe.raddr = entry.wqe.rkey == readable_.key.value  ? readable_.start
                              : entry.wqe.rkey == offered_.key.value ? offered_.start
                                                                     : 0;
        }
        input.spoil<std::uint8_t>(std::as_writable_bytes(std::span{&entry, 1}));
        qp.post_raw_send(entry.wqe.ctrl,
                         std::as_bytes(std::span{&entry, 1}).subspan(sizeof(entry.wqe.ctrl)));
    }

    void receive(Input& input) {
        struct {
            vrdma_rq_wqe wqe{};
            std::array<vrdma_sge, 3> list{};
        } entry;
        entry.wqe.ctrl = VRDMA_SET(VRDMA_WQE_NUM_SGE, 1u);
        entry.list[0] = own_.sge();
        GuestQp& qp = pick(hostile_qps_, input);
        input.spoil<std::uint8_t>(std::as_writable_bytes(std::span{&entry, 1}));
        const auto rest = std::as_bytes(std::span{&entry, 1}).subspan(sizeof(entry.wqe.ctrl));
        if (qp.shape().srq == srq_.id()) {
            srq_.post_raw(entry.wqe.ctrl, rest);
        } else {
            qp.post_raw_recv(entry.wqe.ctrl, rest);
        }
        pick(honest_qps_, input).post_send({.flags = VRDMA_SQ_INLINE, .ah = honest_ah_});
    }

    void arm(std::uint8_t how) {
        hostile_cq_.arm(how % 2 != 0);
        static_cast<void>(hostile_.slice().modify_srq(srq_.id(), how));
        if (how % 4 == 3 && resizes_++ < max_resizes) {
            static_cast<void>(hostile_.resize_srq(srq_, 4u << how / 4 % 4));
        }
        page(how);
    }

    // A driver's operations on on-demand pages, whether anybody waits for the pages or not.
    void page(std::uint8_t how) {
        const Key key = lazy_.key;
        const std::uint64_t first = how / 4 % 2;
        switch (how % 4) {
            case 0:
                return hostile_.slice().map_pages(
                    key, first, std::span{lazy_.buffer.pages().blocks}.subspan(first, 1), how > 99);
            case 1:
                return hostile_.slice().unmap_pages(key, first, how);
            case 2:
                return hostile_.slice().refuse_pages(key, first, 1);
            default:
                break;
        }
    }

    void offer(Input& input) {
        const vrdma_sge to = offered_.sge();
        pick(honest_qps_, input).post_recv({&to, 1});
        xrc_srq_.post_recv(0, {&to, 1});
    }

    // Changes a byte of guest memory, which includes rings and control words.
    void poke(Input& input) {
        constexpr std::uint64_t pages_in_use = 48;
        const std::uint64_t page = input.take<std::uint8_t>() % pages_in_use;
        const std::uint64_t offset = input.take<std::uint16_t>() % VRDMA_PAGE_SIZE;
        *hostile_.memory().at(Iova{page * VRDMA_PAGE_SIZE + offset}, 1) = input.take<std::byte>();
    }

    void modify(Input& input) {
        const GuestQp& qp = pick(hostile_qps_, input);
        const auto state =
            static_cast<ibv_qp_state>(input.take<std::uint8_t>() % (IBV_QPS_ERR + 1));
        static_cast<void>(hostile_.slice().modify_qp(qp.id(), state_attr(state)));
    }

    void take() {
        constexpr int most = 100; // the guest may have made its own rings endless
        for (int i = 0; i < most && hostile_cq_.poll(); ++i) {
        }
        for (int i = 0; i < most && hostile_.eq().poll(); ++i) {
        }
    }

    inline static const std::vector<std::byte> pattern_ = Buffer::pattern(1, region_size);

    const unsigned pollers_;
    std::unique_ptr<hca::soft::SoftHca> hca_;
    Guest hostile_{*hca_, "hostile", ipv4_gid(1), make_memory()};
    Guest honest_{*hca_, "honest", ipv4_gid(2), make_memory()};
    verbs::GidRegistry gids_;
    fuzz::Bystander bystander_{*hca_, gids_};
    fuzz::ChangingMemory changing_{{hostile_.memory().at(Iova{0}, memory_size), memory_size}};
    GuestCq hostile_cq_ = hostile_.create_cq(16);
    GuestCq honest_cq_ = honest_.create_cq(1024);
    GuestSrq srq_ = hostile_.create_srq();
    int resizes_ = 0;
    GuestSrq xrc_srq_ = honest_.create_srq({.xrcd = XrcdId{1}, .cq = honest_cq_.id()});
    Qpn xrc_recv_ = honest_.create_xrc_recv(XrcdId{1});
    std::vector<GuestQp> hostile_qps_;
    std::vector<GuestQp> honest_qps_;
    static constexpr std::uint32_t own_access = all_access | IBV_ACCESS_MW_BIND;
    MemoryRegion own_ = hostile_.register_mr(region_size, {.access_flags = own_access});
    MemoryRegion lazy_ = hostile_.register_on_demand(region_size, own_access);
    Key window_ = hostile_.allocate_mw(IBV_MW_TYPE_2);
    Key fast_ = hostile_.allocate_mr(4);
    MemoryRegion offered_ = honest_.register_mr(region_size);
    MemoryRegion readable_ =
        honest_.register_mr(region_size, {.access_flags = IBV_ACCESS_REMOTE_READ});
    MemoryRegion secret_ = honest_.register_mr(region_size, {.pd = PdId{2}});
    AhId ah_ = hostile_.create_ah(honest_.gid());
    AhId honest_ah_ = honest_.create_ah(hostile_.gid());
};

} // namespace
} // namespace vrdma::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    vrdma::fuzz::Input input{{data, size}};
    vrdma::test::Stage stage{input};
    for (int step = 0; step < vrdma::test::max_steps && !input.empty(); ++step) {
        stage.step(input);
    }
    stage.check();
    return 0;
}
