// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/tests/guest/guest.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <new>
#include <stdexcept>

namespace vrdma::test {
namespace {

constexpr std::uint64_t memory_size = 256ull << 20;
constexpr std::uint32_t eq_depth = 64;

// Throws if the call failed. Tests use this where they do not expect an error.
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

// Each id gives another key. The tag is arbitrary.
Key make_key(std::uint32_t id) {
    return Key{(0x1000 + id) << 8 | 0x5a};
}

template <typename Specs, typename Save>
auto save_all(const Specs& specs, Save&& save) {
    std::vector<decltype(save(specs.front()))> states;
    states.reserve(specs.size());
    for (const auto& spec : specs) {
        states.push_back(save(spec));
    }
    return states;
}

template <typename Specs, typename States, typename Restore>
void restore_all(const Specs& specs, const States& states, Restore&& restore) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
        value(restore(specs[i], states[i]));
    }
}

} // namespace

hca::Gid ipv4_gid(std::uint8_t n) {
    return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, n};
}

std::unique_ptr<GuestMemory> Guest::default_memory() {
    return value(ArenaMemory::create(memory_size));
}

Guest::Guest(hca::Hca& hca, std::string name, const hca::Gid& gid,
             std::unique_ptr<GuestMemory> memory, const hca::QpnRange& qpns, std::string uplink,
             const hca::TrafficClasses& traffic_classes, const hca::ServiceLevels& service_levels,
             PKeys pkeys)
    : name_{std::move(name)},
      gid_{gid},
      qpns_{qpns},
      uplink_{std::move(uplink)},
      traffic_classes_{traffic_classes},
      service_levels_{service_levels},
      pkeys_{std::move(pkeys)},
      memory_{std::move(memory)},
      pages_{*memory_},
      doorbells_{new_doorbells(), std::free} {
    carve(hca);
    const Buffer status = pages_.allocate(VRDMA_PAGE_SIZE);
    status_ = status.at<vrdma_status_page>(0);
    status_page_ = status.pages().blocks.front();
    value(slice_->set_status_page(status_page_));
    value(slice_->set_gid(0, VRDMA_GID_ROCE_V2, gid, 0));

    const Buffer events = pages_.allocate(sizeof(vrdma_eq_control) + eq_depth * sizeof(vrdma_eqe));
    eq_ = std::make_unique<GuestEq>(EqId{1}, events, eq_depth);
    eq_specs_.push_back({eq_->id(), events.pages(), eq_depth, 1});
    value(slice_->create_eq(eq_specs_.back()));
}

Guest::~Guest() = default;

void Guest::fatal(std::string_view why) noexcept {
    std::cerr << "the engine gave up " << name_ << ": " << why << '\n';
    std::abort();
}

void Guest::carve(hca::Hca& hca) {
    slice_ = value(hca.carve({.name = name_,
                              .memory = memory_.get(),
                              .doorbells = {doorbells_.get(), doorbell_pages},
                              .kick_fd = kick_.fd(),
                              .qpns = qpns_,
                              .uplink = uplink_,
                              .traffic_classes = traffic_classes_,
                              .service_levels = service_levels_,
                              .pkeys = pkeys_,
                              .max_qp = 1 << 16,
                              .max_cq = 1 << 16,
                              .max_mr = 1 << 16},
                             *this));
}

MemoryRegion Guest::register_mr(std::uint64_t size, const MrOptions& options) {
    return register_mr(pages_.allocate(size, options.scattered), options);
}

MemoryRegion Guest::register_on_demand(std::uint64_t size, std::uint32_t access_flags) {
    MemoryRegion region = register_mr(pages_.allocate(size), {.access_flags = access_flags});
    value(slice_->deregister_mr(region.key));
    hca::MrSpec& spec = mr_specs_.back();
    spec.access_flags |= IBV_ACCESS_ON_DEMAND;
    spec.pages.blocks = {};
    value(slice_->register_mr(spec));
    return region;
}

MemoryRegion Guest::register_mr(Buffer buffer, const MrOptions& options) {
    const std::uint32_t id = next_id_++;
    MemoryRegion region{std::move(buffer), make_key(id),
                        0x7f0000000000 + (std::uint64_t{id} << 32)};
    mr_specs_.push_back({.key = region.key,
                         .pd = options.pd,
                         .start = region.start,
                         .length = region.buffer.size(),
                         .access_flags = options.access_flags,
                         .dma = false,
                         .fast_pages = 0,
                         .pages = region.buffer.pages()});
    region.key = value(slice_->name_mr(mr_specs_.back())).value_or(region.key);
    mr_specs_.back().key = region.key;
    value(slice_->register_mr(mr_specs_.back()));
    return region;
}

Key Guest::allocate_mr(std::uint32_t pages, PdId mr_pd) {
    hca::MrSpec spec;
    spec.key = make_key(next_id_++);
    spec.pd = mr_pd;
    spec.fast_pages = pages;
    mr_specs_.push_back(spec);
    value(slice_->register_mr(spec));
    return spec.key;
}

Key Guest::allocate_mw(std::uint32_t type, PdId mw_pd) {
    mw_specs_.push_back({make_key(next_id_++), mw_pd, type});
    value(slice_->allocate_mw(mw_specs_.back()));
    return mw_specs_.back().key;
}

GuestCq Guest::create_cq(std::uint32_t depth, hca::CqSpec spec) {
    Buffer buffer = pages_.allocate(VRDMA_QUEUE_CONTROL_SIZE + depth * sizeof(vrdma_cqe));
    spec.id = Cqn{next_id_++};
    spec.pages = buffer.pages();
    spec.depth = depth;
    spec.eq = eq_->id();
    cq_specs_.push_back(spec);
    value(slice_->create_cq(spec));
    return {spec.id, std::move(buffer), depth};
}

Result<> Guest::resize_cq(GuestCq& cq, std::uint32_t depth) {
    Buffer buffer = pages_.allocate(VRDMA_QUEUE_CONTROL_SIZE + depth * sizeof(vrdma_cqe));
    cq.prepare(buffer, depth);
    const auto resized = slice_->resize_cq(cq.id(), buffer.pages(), depth);
    if (resized) {
        const auto spec = std::ranges::find(cq_specs_, cq.id(), &hca::CqSpec::id);
        spec->pages = buffer.pages();
        spec->depth = depth;
        cq.adopt(std::move(buffer), depth);
    }
    return resized;
}

GuestSrq Guest::create_srq(const SrqShape& shape) {
    const Srqn id{next_id_++};
    Buffer buffer = pages_.allocate(vrdma_srq_buffer_size(shape.depth, shape.stride_shift));
    srq_specs_.push_back({id, shape.pd, buffer.pages(), shape.depth, shape.stride_shift,
                          shape.max_sge, shape.xrcd, shape.cq});
    value(slice_->create_srq(srq_specs_.back()));
    return {id, shape, std::move(buffer)};
}

Result<> Guest::resize_srq(GuestSrq& srq, std::uint32_t depth, std::optional<std::uint32_t> limit) {
    Buffer buffer = pages_.allocate(vrdma_srq_buffer_size(depth, srq.shape().stride_shift));
    srq.prepare(buffer, depth);
    const auto resized = slice_->resize_srq(srq.id(), buffer.pages(), depth, limit);
    if (resized) {
        const auto spec = std::ranges::find(srq_specs_, srq.id(), &hca::SrqSpec::id);
        spec->pages = buffer.pages();
        spec->depth = depth;
        srq.adopt(std::move(buffer), depth);
    }
    return resized;
}

GuestQp Guest::create_qp(const GuestCq& send_cq, const GuestCq& recv_cq, const QpShape& shape,
                         std::uint32_t doorbell_page) {
    const bool receives = shape.type != hca::QpType::xrc_send;
    Qpn id = shape.gsi ? hca::gsi_qpn : Qpn{qpns_.first + next_id_++};
    Buffer buffer = pages_.allocate(shape.buffer_size());
    qp_specs_.push_back({.id = id,
                         .type = shape.type,
                         .pd = pd,
                         .send_cq = send_cq.id(),
                         .recv_cq = receives ? recv_cq.id() : Cqn{},
                         .srq = shape.srq,
                         .xrcd = {},
                         .pages = buffer.pages(),
                         .sq_depth = shape.sq_depth,
                         .rq_depth = shape.rq_depth,
                         .sq_stride_shift = shape.sq_stride_shift,
                         .rq_stride_shift = shape.rq_stride_shift,
                         .max_inline = shape.max_inline,
                         .max_send_sge = shape.max_send_sge,
                         .max_recv_sge = shape.max_recv_sge,
                         .signal_all = shape.signal_all,
                         .blocks_own_multicast = shape.blocks_own_multicast,
                         .doorbell_page = doorbell_page});
    if (!shape.gsi) {
        id = value(slice_->name_qp(qp_specs_.back())).value_or(id);
        qp_specs_.back().id = id;
    }
    const std::uint32_t slot = value(slice_->create_qp(qp_specs_.back()));
    return {id, shape, std::move(buffer), doorbell(doorbell_page, slot)};
}

Qpn Guest::create_xrc_recv(XrcdId xrcd) {
    hca::QpSpec spec;
    spec.id = Qpn{next_id_++};
    spec.type = hca::QpType::xrc_recv;
    spec.xrcd = xrcd;
    qp_specs_.push_back(spec);
    value(slice_->create_qp(spec));
    return spec.id;
}

void Guest::migrate(hca::Hca& to) {
    slice_->freeze();
    slice_->let_go();
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
    const auto connections =
        save_all(qp_specs_, [&](const auto& spec) { return slice_->save_connection(spec.id); });
    const auto mws =
        save_all(mw_specs_, [&](const auto& spec) { return slice_->save_mw(spec.key); });
    const auto fast =
        save_all(mr_specs_, [&](const auto& spec) { return slice_->save_fast_mr(spec.key); });
    const auto fast_pages =
        save_all(mr_specs_, [&](const auto& spec) { return slice_->save_fast_pages(spec.key); });
    slice_.reset();

    carve(to);
    slice_->freeze();
    create_objects();
    restore_all(eq_specs_, eqs, [&](const auto& spec, const auto& state) {
        return slice_->restore_eq(spec.id, state);
    });
    restore_all(cq_specs_, cqs, [&](const auto& spec, const auto& state) {
        return slice_->restore_cq(spec.id, state);
    });
    restore_all(srq_specs_, srqs, [&](const auto& spec, const auto& state) {
        return slice_->restore_srq(spec.id, state);
    });
    for (std::size_t i = 0; i < qps.size(); ++i) {
        value(slice_->restore_qp(qp_specs_[i].id, qps[i], held_receives[i]));
        if (qps[i].connected != 0) {
            value(slice_->restore_connection(qp_specs_[i].id, connections[i]));
        }
    }
    for (std::size_t i = 0; i < fast.size(); ++i) {
        if (mr_specs_[i].fast_pages != 0) {
            value(slice_->restore_fast_mr(mr_specs_[i].key, fast[i], fast_pages[i]));
        }
    }
    restore_all(mw_specs_, mws, [&](const auto& spec, const auto& state) {
        return slice_->restore_mw(spec.key, state);
    });
    thaw();
}

void Guest::create_objects() {
    value(slice_->set_status_page(status_page_));
    value(slice_->set_gid(0, VRDMA_GID_ROCE_V2, gid_, 0));
    for (const auto& spec : eq_specs_) {
        value(slice_->create_eq(spec));
    }
    for (const auto& spec : cq_specs_) {
        value(slice_->create_cq(spec));
    }
    for (const auto& spec : mr_specs_) {
        value(slice_->register_mr(spec));
    }
    for (const auto& spec : mw_specs_) {
        value(slice_->allocate_mw(spec));
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
    attr.rnr_retry = 7; // without limit: a guest may lose its core for a while
    attr.max_rd_atomic = 16;
    return attr;
}

void move_to_init(Guest& guest, const GuestQp& qp, std::uint32_t access_flags) {
    value(guest.slice().modify_qp(qp.id(), init_attr(access_flags)));
}

void connect(Guest& guest, const GuestQp& qp, const hca::Gid& peer_gid, Qpn peer) {
    connect(guest, qp.id(), peer_gid, peer);
}

void connect(Guest& guest, Qpn qp, const hca::Gid& peer_gid, Qpn peer) {
    value(guest.slice().modify_qp(qp, init_attr()));
    value(guest.slice().modify_qp(qp, rtr_attr(peer_gid, peer)));
    value(guest.slice().modify_qp(qp, rts_attr()));
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
