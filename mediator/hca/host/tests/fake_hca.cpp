// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/host/tests/fake_hca.h"

#include <sys/eventfd.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace vrdma::test {
namespace {

FakeHca* existing = nullptr;

constexpr std::uintptr_t page = 4096;

// Maps each page a second time. Returns nullptr for memory that is not shared.
std::byte* pin(std::uintptr_t begin, std::size_t size) {
    auto* const room = static_cast<std::byte*>(
        ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (std::size_t at = 0; at < size; at += page) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): an HCA is given addresses
        if (::mremap(reinterpret_cast<void*>(begin + at), 0, page, MREMAP_MAYMOVE | MREMAP_FIXED,
                     room + at) == MAP_FAILED) {
            ::munmap(room, size);
            return nullptr;
        }
    }
    return room;
}

} // namespace

// What the table has. ibv_* would return NULL and set errno, or return an errno.
struct FakeFunctions {
    static FakeHca& hca() { return *existing; }

    static ibv_device** get_device_list(int* count) {
        if (count != nullptr) {
            *count = 1;
        }
        return new ibv_device* [2] { &hca().device_, nullptr };
    }
    static void free_device_list(ibv_device** list) { delete[] list; }
    static const char* get_device_name(ibv_device* /*device*/) { return FakeHca::name; }
    static ibv_context* open_device(ibv_device* /*device*/) { return &hca().context_.context; }
    static int close_device(ibv_context* /*context*/) { return 0; }
    static int query_device(ibv_context* /*context*/, ibv_device_attr* attr) {
        *attr = {};
        attr->max_qp_wr = 1024;
        attr->max_cqe = 512;
        attr->max_sge = attr->max_sge_rd = 32;
        attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = 4;
        attr->max_mr_size = UINT64_MAX;
        return 0;
    }
    static int query_port(ibv_context* /*context*/, std::uint8_t /*port*/, ibv_port_attr* attr) {
        *attr = {};
        attr->state = IBV_PORT_ACTIVE;
        attr->active_mtu = IBV_MTU_4096;
        attr->link_layer = IBV_LINK_LAYER_ETHERNET;
        return 0;
    }
    static ssize_t query_gid_table(ibv_context* /*context*/, ibv_gid_entry* entries,
                                   std::size_t room) {
        const std::size_t count = std::min(room, hca().gids_.size());
        for (std::size_t i = 0; i < count; ++i) {
            entries[i] = {};
            std::ranges::copy(hca().gids_[i], entries[i].gid.raw);
            entries[i].gid_index = static_cast<std::uint32_t>(i);
            entries[i].port_num = 1;
            entries[i].gid_type = IBV_GID_TYPE_ROCE_V2;
        }
        return static_cast<ssize_t>(count);
    }
    static int get_async_event(ibv_context* /*context*/, ibv_async_event* event) {
        if (hca().events_.empty()) {
            return -1;
        }
        *event = hca().events_.front();
        hca().events_.pop_front();
        return 0;
    }
    static void ack_async_event(ibv_async_event* /*event*/) {}
    static ibv_pd* alloc_pd(ibv_context* context) {
        ++hca().pds_;
        return new ibv_pd{context, 0};
    }
    static int dealloc_pd(ibv_pd* pd) {
        --hca().pds_;
        delete pd;
        return 0;
    }
    static ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                          unsigned access) {
        const auto first = reinterpret_cast<std::uintptr_t>(address);
        const std::uintptr_t begin = first & ~(page - 1);
        const std::size_t size = ((first + length + page - 1) & ~(page - 1)) - begin;
        auto* const pinned = pin(begin, size);
        const bool shared = pinned != nullptr;
        auto mr = std::make_unique<FakeHca::Mr>();
        static_cast<ibv_mr&>(*mr) = {};
        mr->context = pd->context;
        mr->pd = pd;
        mr->lkey = mr->rkey = hca().next_++ << 8 | 0x5a;
        mr->pinned = pinned;
        mr->size = size;
        mr->iova = iova;
        mr->access = access;
        mr->length = length;
        mr->first = shared ? mr->pinned + (first - begin) : static_cast<std::byte*>(address);
        FakeHca::Mr* const made = mr.get();
        hca().mrs_[made->lkey] = std::move(mr);
        return made;
    }
    static int dereg_mr(ibv_mr* mr) {
        auto* const gone = static_cast<FakeHca::Mr*>(mr);
        if (gone->pinned != nullptr) {
            ::munmap(gone->pinned, gone->size);
        }
        hca().mrs_.erase(gone->lkey);
        return 0;
    }
    static ibv_comp_channel* create_comp_channel(ibv_context* context) {
        auto* const channel = new FakeHca::Channel{{}, *EventFd::create()};
        channel->context = context;
        channel->fd = channel->signal.fd();
        return channel;
    }
    static int destroy_comp_channel(ibv_comp_channel* channel) {
        delete static_cast<FakeHca::Channel*>(channel);
        return 0;
    }
    static ibv_cq* create_cq(ibv_context* context, int entries, void* /*cookie*/,
                             ibv_comp_channel* channel, int /*vector*/) {
        auto cq = std::make_unique<FakeHca::Cq>();
        static_cast<ibv_cq&>(*cq) = {};
        cq->context = context;
        cq->cqe = entries;
        cq->channel = channel;
        cq->armed = false;
        hca().cqs_.push_back(std::move(cq));
        return hca().cqs_.back().get();
    }
    static int destroy_cq(ibv_cq* cq) {
        std::erase_if(hca().cqs_, [&](const auto& each) { return each.get() == cq; });
        return 0;
    }
    static int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** context) {
        eventfd_t count = 0;
        if (::eventfd_read(channel->fd, &count) != 0) {
            return -1;
        }
        *cq = hca().cqs_.front().get();
        *context = nullptr;
        return 0;
    }
    static void ack_cq_events(ibv_cq* /*cq*/, unsigned /*count*/) {}
    static ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
        if (attr->cap.max_inline_data > hca().max_inline_) {
            errno = EINVAL;
            return nullptr;
        }
        auto qp = std::make_unique<FakeHca::Qp>();
        static_cast<ibv_qp&>(*qp) = {};
        qp->context = pd->context;
        qp->pd = pd;
        qp->send_cq = attr->send_cq;
        qp->recv_cq = attr->recv_cq;
        qp->qp_type = attr->qp_type;
        qp->qp_num = hca().next_++;
        qp->max_inline = attr->cap.max_inline_data;
        FakeHca::Qp* const made = qp.get();
        hca().qps_[made->qp_num] = std::move(qp);
        return made;
    }
    static int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
        auto& changed = *static_cast<FakeHca::Qp*>(qp);
        if ((mask & IBV_QP_STATE) != 0) {
            const bool legal = attr->qp_state == IBV_QPS_RESET || attr->qp_state == IBV_QPS_ERR ||
                               attr->qp_state == changed.state ||
                               attr->qp_state == changed.state + 1;
            if (!legal) {
                return EINVAL;
            }
            changed.state = attr->qp_state;
        }
        if ((mask & IBV_QP_DEST_QPN) != 0) {
            changed.attr.dest_qp_num = attr->dest_qp_num;
        }
        if (changed.state == IBV_QPS_RESET) {
            changed.receives.clear();
            changed.waiting.clear();
        }
        return 0;
    }
    static int destroy_qp(ibv_qp* qp) {
        hca().qps_.erase(qp->qp_num);
        return 0;
    }
    static ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* /*attr*/) {
        return new ibv_ah{pd->context, pd, 0};
    }
    static int destroy_ah(ibv_ah* ah) {
        delete ah;
        return 0;
    }
};

const hca::host::Libibverbs& FakeHca::library() {
    static constexpr hca::host::Libibverbs table{
        .get_device_list = FakeFunctions::get_device_list,
        .free_device_list = FakeFunctions::free_device_list,
        .get_device_name = FakeFunctions::get_device_name,
        .open_device = FakeFunctions::open_device,
        .close_device = FakeFunctions::close_device,
        .query_device = FakeFunctions::query_device,
        .query_port = FakeFunctions::query_port,
        .query_gid_table = FakeFunctions::query_gid_table,
        .get_async_event = FakeFunctions::get_async_event,
        .ack_async_event = FakeFunctions::ack_async_event,
        .alloc_pd = FakeFunctions::alloc_pd,
        .dealloc_pd = FakeFunctions::dealloc_pd,
        .reg_mr = FakeFunctions::reg_mr,
        .dereg_mr = FakeFunctions::dereg_mr,
        .create_comp_channel = FakeFunctions::create_comp_channel,
        .destroy_comp_channel = FakeFunctions::destroy_comp_channel,
        .create_cq = FakeFunctions::create_cq,
        .destroy_cq = FakeFunctions::destroy_cq,
        .get_cq_event = FakeFunctions::get_cq_event,
        .ack_cq_events = FakeFunctions::ack_cq_events,
        .create_qp = FakeFunctions::create_qp,
        .modify_qp = FakeFunctions::modify_qp,
        .destroy_qp = FakeFunctions::destroy_qp,
        .create_ah = FakeFunctions::create_ah,
        .destroy_ah = FakeFunctions::destroy_ah,
    };
    return table;
}

FakeHca::FakeHca() {
    existing = this;
    context_.context.device = &device_;
    context_.context.async_fd = async_.fd();
    context_.context.ops.poll_cq = poll;
    context_.context.ops.req_notify_cq = arm;
    context_.context.ops.post_send = post_send;
    context_.context.ops.post_recv = post_recv;
}

FakeHca::~FakeHca() {
    existing = nullptr;
}

FakeHca& FakeHca::of(ibv_context* /*context*/) {
    return *existing;
}

FakeHca::Qp* FakeHca::find(std::uint32_t qpn) {
    const auto found = qps_.find(qpn);
    return found != qps_.end() ? found->second.get() : nullptr;
}

std::optional<ibv_qp_state> FakeHca::state_of(std::uint32_t qpn) const {
    const auto found = qps_.find(qpn);
    return found != qps_.end() ? std::optional{found->second->state} : std::nullopt;
}

ibv_qp* FakeHca::connect_native(ibv_pd* pd, ibv_cq* cq, std::uint32_t peer) {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_RC;
    auto* const qp = static_cast<Qp*>(FakeFunctions::create_qp(pd, &attr));
    qp->state = IBV_QPS_RTS;
    qp->attr.dest_qp_num = peer;
    return qp;
}

void FakeHca::complete(Cq& cq, const ibv_wc& wc) {
    cq.completions.push_back(wc);
    if (std::exchange(cq.armed, false) && cq.channel != nullptr) {
        static_cast<Channel*>(cq.channel)->signal.signal();
    }
}

void FakeHca::inject(const ibv_wc& wc) {
    complete(*cqs_.front(), wc);
}

void FakeHca::report(ibv_event_type event, std::uint32_t qpn) {
    ibv_async_event async{};
    async.event_type = event;
    async.element.qp = find(qpn);
    events_.push_back(async);
    async_.signal();
}

int FakeHca::poll(ibv_cq* cq, int count, ibv_wc* wc) {
    FakeHca& hca = of(cq->context);
    if (hca.broken_) {
        return -1;
    }
    for (const auto& [number, qp] : hca.qps_) {
        hca.run(*qp);
    }
    auto& completions = static_cast<Cq*>(cq)->completions;
    int found = 0;
    for (; found < count && !completions.empty(); ++found) {
        wc[found] = completions.front();
        completions.pop_front();
    }
    return found;
}

int FakeHca::arm(ibv_cq* cq, int /*solicited_only*/) {
    static_cast<Cq*>(cq)->armed = true;
    return 0;
}

std::byte* FakeHca::find(const Qp& qp, std::uint32_t key, std::uint64_t address, std::size_t length,
                         unsigned access) const {
    const auto found = mrs_.find(key);
    if (found == mrs_.end()) {
        return nullptr;
    }
    const Mr& mr = *found->second;
    const bool allowed = mr.pd == qp.pd && (mr.access & access) == access && address >= mr.iova &&
                         address - mr.iova + length <= mr.length;
    return allowed ? mr.at(address) : nullptr;
}

bool FakeHca::gather(const Qp& qp, const Send& send, std::vector<std::byte>& data) const {
    if ((send.wr.send_flags & IBV_SEND_INLINE) != 0) {
        data = send.inline_data;
        return true;
    }
    for (const ibv_sge& sge : send.list) {
        const std::byte* const from = find(qp, sge.lkey, sge.addr, sge.length, 0);
        if (from == nullptr) {
            return false;
        }
        data.insert(data.end(), from, from + sge.length);
    }
    return true;
}

bool FakeHca::scatter(const Qp& qp, std::span<const ibv_sge> list,
                      std::span<const std::byte> data) const {
    for (const ibv_sge& sge : list) {
        const std::size_t length = std::min<std::size_t>(sge.length, data.size());
        if (length == 0) {
            break;
        }
        std::byte* const to = find(qp, sge.lkey, sge.addr, length, IBV_ACCESS_LOCAL_WRITE);
        if (to == nullptr) {
            return false;
        }
        std::memcpy(to, data.data(), length);
        data = data.subspan(length);
    }
    return data.empty();
}

std::optional<ibv_wc_status> FakeHca::deliver(Qp& to, const Send& send,
                                              std::span<const std::byte> data, const Qp& from) {
    if (to.receives.empty()) {
        return std::nullopt;
    }
    const Recv recv = to.receives.front();
    to.receives.pop_front();
    const bool write = send.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    ibv_wc wc{};
    wc.wr_id = recv.wr_id;
    wc.qp_num = to.qp_num;
    wc.src_qp = from.qp_num;
    wc.opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    wc.byte_len = static_cast<std::uint32_t>(data.size());
    if (write || send.wr.opcode == IBV_WR_SEND_WITH_IMM) {
        wc.wc_flags = IBV_WC_WITH_IMM;
        wc.imm_data = send.wr.imm_data;
    }
    if (!write && !scatter(to, recv.list, data)) {
        wc.status = IBV_WC_LOC_LEN_ERR;
    }
    complete(*static_cast<Cq*>(to.recv_cq), wc);
    return wc.status == IBV_WC_SUCCESS ? IBV_WC_SUCCESS : IBV_WC_REM_INV_REQ_ERR;
}

ibv_wc_status FakeHca::access(Qp& peer, Send& send, std::vector<std::byte>& data) {
    const bool read = send.wr.opcode == IBV_WR_RDMA_READ;
    std::size_t length = data.size();
    if (read) {
        length = 0;
        for (const ibv_sge& sge : send.list) {
            length += sge.length;
        }
    }
    std::byte* const there = find(peer, send.wr.wr.rdma.rkey, send.wr.wr.rdma.remote_addr, length,
                                  read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
    if (there == nullptr) {
        return IBV_WC_REM_ACCESS_ERR;
    }
    if (read) {
        data.assign(there, there + length);
    } else {
        std::memcpy(there, data.data(), length);
    }
    return IBV_WC_SUCCESS;
}

std::optional<ibv_wc_status> FakeHca::execute(Qp& from, Send& send) {
    if (next_status_) {
        return std::exchange(next_status_, std::nullopt);
    }
    const bool datagram = from.qp_type == IBV_QPT_UD;
    Qp* const peer = find(datagram ? send.wr.wr.ud.remote_qpn : from.attr.dest_qp_num);
    if (peer == nullptr || peer->state < IBV_QPS_RTR || peer->state > IBV_QPS_SQE) {
        return datagram ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR;
    }
    const bool read = send.wr.opcode == IBV_WR_RDMA_READ;
    std::vector<std::byte> data;
    if (!read && !gather(from, send, data)) {
        return IBV_WC_LOC_PROT_ERR;
    }
    if (datagram) {
        std::vector<std::byte> header(40);
        header[20] = std::byte{0x45};
        std::memcpy(header.data() + 32, gids_.front().data() + 12, 4);
        std::memcpy(header.data() + 36, gids_.back().data() + 12, 4);
        data.insert(data.begin(), header.begin(), header.end());
        static_cast<void>(deliver(*peer, send, data, from));
        return IBV_WC_SUCCESS;
    }
    if (send.wr.opcode == IBV_WR_SEND || send.wr.opcode == IBV_WR_SEND_WITH_IMM) {
        return deliver(*peer, send, data, from);
    }
    if (send.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM && peer->receives.empty()) {
        return std::nullopt;
    }
    const ibv_wc_status status = access(*peer, send, data);
    if (status != IBV_WC_SUCCESS) {
        return status;
    }
    if (read) {
        return scatter(from, send.list, data) ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
    }
    return send.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? deliver(*peer, send, data, from)
                                                        : IBV_WC_SUCCESS;
}

void FakeHca::complete(Qp& qp, const ibv_send_wr& wr, ibv_wc_status status) {
    ibv_wc wc{};
    wc.wr_id = wr.wr_id;
    wc.qp_num = qp.qp_num;
    wc.status = status;
    complete(*static_cast<Cq*>(qp.send_cq), wc);
}

void FakeHca::run(Qp& qp) {
    while (!qp.waiting.empty()) {
        const auto status = qp.state == IBV_QPS_ERR ? std::optional{IBV_WC_WR_FLUSH_ERR}
                                                    : execute(qp, qp.waiting.front());
        if (!status) {
            return;
        }
        const ibv_send_wr wr = qp.waiting.front().wr;
        qp.waiting.pop_front();
        if (*status != IBV_WC_SUCCESS) {
            qp.state = IBV_QPS_ERR;
        }
        complete(qp, wr, *status);
    }
    if (qp.state == IBV_QPS_ERR) {
        for (const Recv& recv : std::exchange(qp.receives, {})) {
            ibv_wc wc{};
            wc.wr_id = recv.wr_id;
            wc.qp_num = qp.qp_num;
            wc.status = IBV_WC_WR_FLUSH_ERR;
            complete(*static_cast<Cq*>(qp.recv_cq), wc);
        }
    }
}

int FakeHca::post_send(ibv_qp* posted, ibv_send_wr* wr, ibv_send_wr** bad) {
    FakeHca& hca = of(posted->context);
    auto& qp = *static_cast<Qp*>(posted);
    if (qp.state != IBV_QPS_RTS && qp.state != IBV_QPS_ERR) {
        *bad = wr;
        return EINVAL;
    }
    if (qp.qp_type == IBV_QPT_UD && wr->wr.ud.ah->pd != qp.pd) {
        *bad = wr;
        return EINVAL;
    }
    Send send{*wr, {wr->sg_list, wr->sg_list + wr->num_sge}, {}};
    if ((wr->send_flags & IBV_SEND_INLINE) != 0) {
        for (const ibv_sge& sge : send.list) {
            // NOLINTNEXTLINE(performance-no-int-to-ptr): the same
            const auto* const from = reinterpret_cast<const std::byte*>(sge.addr);
            send.inline_data.insert(send.inline_data.end(), from, from + sge.length);
        }
    }
    hca.last_wr_id_ = wr->wr_id;
    qp.waiting.push_back(std::move(send));
    return 0;
}

int FakeHca::post_recv(ibv_qp* posted, ibv_recv_wr* wr, ibv_recv_wr** /*bad*/) {
    auto& qp = *static_cast<Qp*>(posted);
    of(posted->context).last_receive_ = wr->wr_id;
    qp.receives.push_back({wr->wr_id, {wr->sg_list, wr->sg_list + wr->num_sge}});
    return 0;
}

} // namespace vrdma::test
