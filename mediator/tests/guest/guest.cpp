// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/tests/guest/guest.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <stdexcept>

namespace vrdma::test {
namespace {

constexpr std::uint64_t memory_size = 256ull << 20;
constexpr std::uint32_t eq_depth = 64;

// Tests stop at the first refusal that they do not ask about.
template <typename T>
T value(Result<T> result) {
    if (!result) {
        throw std::system_error{std::make_error_code(result.error())};
    }
    if constexpr (!std::is_void_v<T>) {
        return std::move(*result);
    }
}

vrdma_doorbell_page* new_doorbells() {
    void* pages = std::aligned_alloc(sizeof(vrdma_doorbell_page),
                                     Guest::doorbell_pages * sizeof(vrdma_doorbell_page));
    if (pages == nullptr) {
        throw std::bad_alloc{};
    }
    std::memset(pages, 0, Guest::doorbell_pages * sizeof(vrdma_doorbell_page));
    return static_cast<vrdma_doorbell_page*>(pages);
}

} // namespace

hca::Gid ipv4_gid(std::uint8_t n) {
    return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, n};
}

std::unique_ptr<GuestMemory> Guest::default_memory() {
    return value(ArenaMemory::create(memory_size));
}

Guest::Guest(hca::Hca& hca, std::string name, const hca::Gid& gid,
             std::unique_ptr<GuestMemory> memory)
    : name_{std::move(name)},
      gid_{gid},
      memory_{std::move(memory)},
      pages_{*memory_},
      doorbells_{new_doorbells(), std::free} {
    carve(hca);
    const Buffer status = pages_.allocate(VRDMA_PAGE_SIZE);
    status_ = status.at<vrdma_status_page>(0);
    status_page_ = status.pages().blocks.front();
    value(slice_->set_status_page(status_page_));
    value(slice_->set_gid(0, VRDMA_GID_ROCE_V2, gid));

    const Buffer events = pages_.allocate(sizeof(vrdma_eq_control) + eq_depth * sizeof(vrdma_eqe));
    eq_ = std::make_unique<GuestEq>(EqId{1}, events, eq_depth);
    eq_specs_.push_back({eq_->id(), events.pages(), eq_depth, 1});
    value(slice_->create_eq(eq_specs_.back()));
}

Guest::~Guest() = default;

void Guest::carve(hca::Hca& hca) {
    slice_ = value(hca.carve({.name = name_,
                              .memory = memory_.get(),
                              .doorbells = {doorbells_.get(), doorbell_pages},
                              .kick_fd = kick_.fd(),
                              .max_qp = 1 << 16,
                              .max_cq = 1 << 16,
                              .max_mr = 1 << 16},
                             *this));
}

MemoryRegion Guest::register_mr(std::uint64_t size, const MrOptions& options) {
    return register_mr(pages_.allocate(size, options.scattered), options);
}

MemoryRegion Guest::register_mr(Buffer buffer, const MrOptions& options) {
    const std::uint32_t id = next_id_++;
    MemoryRegion region{std::move(buffer), Key{0x1000 + id},
                        0x7f0000000000 + (std::uint64_t{id} << 32)};
    mr_specs_.push_back({.key = region.key,
                         .pd = options.pd,
                         .start = region.start,
                         .length = region.buffer.size(),
                         .access_flags = options.access_flags,
                         .dma = false,
                         .pages = region.buffer.pages()});
    value(slice_->register_mr(mr_specs_.back()));
    return region;
}

GuestCq Guest::create_cq(std::uint32_t depth) {
    const Cqn id{next_id_++};
    Buffer buffer = pages_.allocate(VRDMA_QUEUE_CONTROL_SIZE + depth * sizeof(vrdma_cqe));
    cq_specs_.push_back({id, buffer.pages(), depth, eq_->id()});
    value(slice_->create_cq(cq_specs_.back()));
    return {id, std::move(buffer), depth};
}

GuestSrq Guest::create_srq(const SrqShape& shape) {
    const Srqn id{next_id_++};
    Buffer buffer = pages_.allocate(vrdma_srq_buffer_size(shape.depth, shape.stride_shift));
    srq_specs_.push_back(
        {id, shape.pd, buffer.pages(), shape.depth, shape.stride_shift, shape.max_sge});
    value(slice_->create_srq(srq_specs_.back()));
    return {id, shape, std::move(buffer)};
}

GuestQp Guest::create_qp(const GuestCq& send_cq, const GuestCq& recv_cq, const QpShape& shape,
                         std::uint32_t doorbell_page) {
    const Qpn id{next_id_++};
    Buffer buffer = pages_.allocate(shape.buffer_size());
    qp_specs_.push_back({.id = id,
                         .type = shape.type,
                         .pd = pd,
                         .send_cq = send_cq.id(),
                         .recv_cq = recv_cq.id(),
                         .srq = shape.srq,
                         .pages = buffer.pages(),
                         .sq_depth = shape.sq_depth,
                         .rq_depth = shape.rq_depth,
                         .sq_stride_shift = shape.sq_stride_shift,
                         .rq_stride_shift = shape.rq_stride_shift,
                         .max_inline = shape.max_inline,
                         .max_send_sge = shape.max_send_sge,
                         .max_recv_sge = shape.max_recv_sge,
                         .signal_all = shape.signal_all,
                         .doorbell_page = doorbell_page});
    const std::uint32_t slot = value(slice_->create_qp(qp_specs_.back()));
    return {id, shape, std::move(buffer), doorbell(doorbell_page, slot)};
}

void Guest::migrate(hca::Hca& to) {
    const auto save_all = [](const auto& specs, auto&& save) {
        std::vector<decltype(save(specs.front()))> states;
        states.reserve(specs.size());
        for (const auto& spec : specs) {
            states.push_back(save(spec));
        }
        return states;
    };
    slice_->freeze();
    const auto eqs =
        save_all(eq_specs_, [&](const auto& spec) { return slice_->save_eq(spec.id); });
    const auto cqs =
        save_all(cq_specs_, [&](const auto& spec) { return slice_->save_cq(spec.id); });
    const auto srqs =
        save_all(srq_specs_, [&](const auto& spec) { return slice_->save_srq(spec.id); });
    const auto held_receives =
        save_all(qp_specs_, [&](const auto& spec) { return slice_->save_held_receive(spec.id); });
    const auto qps =
        save_all(qp_specs_, [&](const auto& spec) { return slice_->save_qp(spec.id); });
    slice_.reset();

    carve(to);
    slice_->freeze();
    create_objects();
    for (std::size_t i = 0; i < eqs.size(); ++i) {
        value(slice_->restore_eq(eq_specs_[i].id, eqs[i]));
    }
    for (std::size_t i = 0; i < cqs.size(); ++i) {
        value(slice_->restore_cq(cq_specs_[i].id, cqs[i]));
    }
    for (std::size_t i = 0; i < srqs.size(); ++i) {
        value(slice_->restore_srq(srq_specs_[i].id, srqs[i]));
    }
    for (std::size_t i = 0; i < qps.size(); ++i) {
        value(slice_->restore_qp(qp_specs_[i].id, qps[i], held_receives[i]));
    }
    slice_->thaw();
}

void Guest::create_objects() {
    value(slice_->set_status_page(status_page_));
    value(slice_->set_gid(0, VRDMA_GID_ROCE_V2, gid_));
    for (const auto& spec : eq_specs_) {
        value(slice_->create_eq(spec));
    }
    for (const auto& spec : cq_specs_) {
        value(slice_->create_cq(spec));
    }
    for (const auto& spec : mr_specs_) {
        value(slice_->register_mr(spec));
    }
    for (const auto& spec : ah_specs_) {
        value(slice_->create_ah(spec));
    }
    for (const auto& spec : srq_specs_) {
        value(slice_->create_srq(spec));
    }
    for (const auto& spec : qp_specs_) {
        value(slice_->create_qp(spec));
    }
}

AhId Guest::create_ah(const hca::Gid& to, PdId ah_pd) {
    hca::AhSpec spec{.id = AhId{next_id_++}, .pd = ah_pd, .av = {}};
    std::copy(to.begin(), to.end(), spec.av.dgid);
    spec.av.hop_limit = 64;
    spec.av.port_num = 1;
    ah_specs_.push_back(spec);
    value(slice_->create_ah(spec));
    return spec.id;
}

Doorbell Guest::doorbell(std::uint32_t page, std::uint32_t slot) {
    return {&doorbells_[page], slot, status_, [this] {
                kicks_.fetch_add(1);
                kick_.signal();
            }};
}

vrdma_qp_attr state_attr(ibv_qp_state state) {
    vrdma_qp_attr attr{};
    attr.attr_mask = IBV_QP_STATE;
    attr.state = state;
    return attr;
}

vrdma_qp_attr init_attr(std::uint32_t access_flags) {
    vrdma_qp_attr attr = state_attr(IBV_QPS_INIT);
    attr.attr_mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    attr.port_num = 1;
    attr.access_flags = access_flags;
    return attr;
}

vrdma_qp_attr rtr_attr(const hca::Gid& dgid, Qpn dest_qpn) {
    vrdma_qp_attr attr = state_attr(IBV_QPS_RTR);
    attr.attr_mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    std::copy(dgid.begin(), dgid.end(), attr.av.dgid);
    attr.av.hop_limit = 64;
    attr.av.port_num = 1;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qpn = dest_qpn.value;
    attr.max_dest_rd_atomic = 16;
    attr.min_rnr_timer = 1;
    return attr;
}

vrdma_qp_attr rts_attr() {
    vrdma_qp_attr attr = state_attr(IBV_QPS_RTS);
    attr.attr_mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_MAX_QP_RD_ATOMIC;
    attr.timeout = 4; // 65 us
    attr.retry_cnt = 7;
    attr.rnr_retry = 7; // without end: a guest may lose its core for a while
    attr.max_rd_atomic = 16;
    return attr;
}

void move_to_init(Guest& guest, const GuestQp& qp, std::uint32_t access_flags) {
    value(guest.slice().modify_qp(qp.id(), init_attr(access_flags)));
}

void connect(Guest& guest, const GuestQp& qp, const hca::Gid& peer_gid, Qpn peer) {
    move_to_init(guest, qp);
    value(guest.slice().modify_qp(qp.id(), rtr_attr(peer_gid, peer)));
    value(guest.slice().modify_qp(qp.id(), rts_attr()));
}

void connect_both(Guest& a, const GuestQp& a_qp, Guest& b, const GuestQp& b_qp) {
    connect(a, a_qp, b.gid(), b_qp.id());
    connect(b, b_qp, a.gid(), a_qp.id());
}

void activate_ud(Guest& guest, const GuestQp& qp, std::uint32_t qkey) {
    vrdma_qp_attr attr = init_attr();
    attr.attr_mask |= IBV_QP_QKEY;
    attr.qkey = qkey;
    value(guest.slice().modify_qp(qp.id(), attr));
    value(guest.slice().modify_qp(qp.id(), state_attr(IBV_QPS_RTR)));
    value(guest.slice().modify_qp(qp.id(), state_attr(IBV_QPS_RTS)));
}

ibv_qp_state state_of(Guest& guest, const GuestQp& qp) {
    return static_cast<ibv_qp_state>(value(guest.slice().query_qp(qp.id())).state);
}

} // namespace vrdma::test
