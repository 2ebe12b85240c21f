// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "bench/verbs.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace vrdma::bench {
namespace {

constexpr std::uint8_t port = 1;
constexpr int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                       IBV_ACCESS_REMOTE_ATOMIC;

template <typename T>
T* made(T* object, const char* what) {
    check(object == nullptr ? errno : 0, what);
    return object;
}

ibv_context* open(unsigned index) {
    const char* const other = std::getenv("VRDMA_BENCH_DEVICE");
    const std::string name = other != nullptr ? other : "vrdma" + std::to_string(index);
    int count = 0;
    const std::unique_ptr<ibv_device*, Release<ibv_free_device_list>> list{
        made(::ibv_get_device_list(&count), "ibv_get_device_list")};
    for (ibv_device* const device : std::span{list.get(), static_cast<std::size_t>(count)}) {
        if (name == ::ibv_get_device_name(device)) {
            return made(::ibv_open_device(device), "ibv_open_device");
        }
    }
    check(ENODEV, name.c_str());
    return nullptr;
}

} // namespace

void check(int error, const char* what) {
    if (error != 0) {
        static_cast<void>(std::fprintf(stderr, "%s: %s\n", what, std::strerror(error)));
        std::exit(EXIT_FAILURE);
    }
}

Memory::Memory(std::size_t size) : size_{size}, start_{nullptr, Unmap{size}} {
    void* const start = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(start == MAP_FAILED ? errno : 0, "mmap");
    start_.reset(static_cast<std::byte*>(start));
}

void Memory::Unmap::operator()(std::byte* start) const {
    ::munmap(start, size);
}

Device::Device(unsigned index, int cq_entries)
    : context_{open(index)},
      pd_{made(::ibv_alloc_pd(context_.get()), "ibv_alloc_pd")},
      channel_{made(::ibv_create_comp_channel(context_.get()), "ibv_create_comp_channel")},
      cq_{made(::ibv_create_cq(context_.get(), cq_entries, nullptr, channel_.get(), 0),
               "ibv_create_cq")} {
    check(::ibv_query_gid(context_.get(), port, gid_index, &gid_) != 0 ? errno : 0,
          "ibv_query_gid");
}

Pd Device::make_pd() const {
    return Pd{made(::ibv_alloc_pd(context_.get()), "ibv_alloc_pd")};
}

Cq Device::make_cq(std::uint32_t depth) const {
    return Cq{made(::ibv_create_cq(context_.get(), static_cast<int>(depth), nullptr, nullptr, 0),
                   "ibv_create_cq")};
}

Srq Device::make_srq(std::uint32_t depth) const {
    ibv_srq_init_attr attr{};
    attr.attr = {.max_wr = depth, .max_sge = 1, .srq_limit = 0};
    return Srq{made(::ibv_create_srq(pd(), &attr), "ibv_create_srq")};
}

Ah Device::make_ah() const {
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.grh.dgid = gid();
    attr.grh.sgid_index = gid_index;
    attr.grh.hop_limit = 1;
    attr.port_num = port;
    return Ah{made(::ibv_create_ah(pd(), &attr), "ibv_create_ah")};
}

std::span<ibv_wc> Device::poll(std::span<ibv_wc> completions) const {
    const int count =
        ::ibv_poll_cq(cq_.get(), static_cast<int>(completions.size()), completions.data());
    check(count < 0 ? -count : 0, "ibv_poll_cq");
    const auto found = completions.first(static_cast<std::size_t>(count));
    for (const ibv_wc& completion : found) {
        check(completion.status != IBV_WC_SUCCESS ? EIO : 0,
              ::ibv_wc_status_str(completion.status));
    }
    return found;
}

void Device::await_completion() const {
    ibv_wc completion;
    while (poll({&completion, 1}).empty()) {
    }
}

void Device::await_event() const {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    check(::ibv_get_cq_event(channel_.get(), &cq, &context) != 0 ? errno : 0, "ibv_get_cq_event");
    ::ibv_ack_cq_events(cq, 1);
}

Mr register_memory(const Device& device, const Memory& memory) {
    return Mr{made(::ibv_reg_mr(device.pd(), memory.bytes().data(), memory.size(), access),
                   "ibv_reg_mr")};
}

ibv_send_wr write_request(ibv_sge& from, const Region& to) {
    ibv_send_wr wr{};
    wr.sg_list = &from;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = from.length <= Qp::max_inline ? IBV_SEND_INLINE : 0;
    wr.wr.rdma = {.remote_addr = to.address(), .rkey = to.rkey()};
    return wr;
}

Qp::Qp(const Device& device, std::uint32_t depth) : device_{device} {
    ibv_qp_init_attr attr{};
    attr.send_cq = device.cq();
    attr.recv_cq = device.cq();
    attr.cap = {.max_send_wr = depth,
                .max_recv_wr = depth,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = max_inline};
    attr.qp_type = IBV_QPT_RC;
    qp_.reset(made(::ibv_create_qp(device.pd(), &attr), "ibv_create_qp"));
}

void Qp::initialize() const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = port;
    attr.qp_access_flags = access;
    check(::ibv_modify_qp(qp_.get(), &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
          "ibv_modify_qp to INIT");
}

void Qp::ready_to_receive(const Qp& peer) const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer.qp_->qp_num;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = peer.device_.gid();
    attr.ah_attr.grh.sgid_index = Device::gid_index;
    attr.ah_attr.grh.hop_limit = 1;
    attr.ah_attr.port_num = port;
    check(::ibv_modify_qp(qp_.get(), &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
          "ibv_modify_qp to RTR");
}

void Qp::ready_to_send(std::uint8_t timeout) const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = timeout;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    check(::ibv_modify_qp(qp_.get(), &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
          "ibv_modify_qp to RTS");
}

void Qp::to_state(ibv_qp_state state) const {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    check(::ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE), "ibv_modify_qp to ERR or RESET");
}

ibv_qp_state Qp::query() const {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    check(::ibv_query_qp(qp_.get(), &attr, IBV_QP_STATE, &init), "ibv_query_qp");
    return attr.qp_state;
}

void Qp::post(ibv_send_wr& list) const {
    ibv_send_wr* bad = nullptr;
    check(::ibv_post_send(qp_.get(), &list, &bad), "ibv_post_send");
}

void Qp::post_receive(std::uint64_t id, ibv_sge sge) const {
    ibv_recv_wr wr{.wr_id = id, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    check(::ibv_post_recv(qp_.get(), &wr, &bad), "ibv_post_recv");
}

Pair::Pair(unsigned first, std::size_t region_size, int cq_entries)
    : a{first, cq_entries},
      b{first + 1, cq_entries},
      a_region{a, region_size},
      b_region{b, region_size},
      a_qp{a, depth},
      b_qp{b, depth} {
    connect_both(a_qp, b_qp);
}

void connect_both(const Qp& a, const Qp& b) {
    a.connect(b);
    b.connect(a);
}

std::deque<Qp> connect_idle(const Pair& pair, std::int64_t count) {
    std::deque<Qp> qps;
    for (std::int64_t i = 0; i < count; ++i) {
        const Qp& a = qps.emplace_back(pair.a, 1);
        const Qp& b = qps.emplace_back(pair.b, 1);
        connect_both(a, b);
    }
    return qps;
}

} // namespace vrdma::bench
