// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/tests/guest/pvrdma_driver.h"

#include <infiniband/verbs.h>

#include <algorithm>

namespace vrdma::test {
namespace {

// As the driver computes them (pvrdma_main.c).
constexpr std::uint32_t entries_of(std::size_t size) {
    return (PvDriver::event_pages - 1) * PVRDMA_PAGE_SIZE / static_cast<std::uint32_t>(size);
}

} // namespace

PvDriver::PvDriver(PvBus bus, GuestMemory& memory, GuestAllocator& allocator)
    : bus_{std::move(bus)},
      memory_{memory},
      allocator_{allocator},
      region_at_{allocator.allocate(sizeof(pvrdma_shared_region))},
      region_{allocator.at<pvrdma_shared_region>(region_at_)},
      async_{allocate(std::uint64_t{event_pages} * PVRDMA_PAGE_SIZE),
             entries_of(sizeof(pvrdma_async_event))},
      completions_{allocate(std::uint64_t{event_pages} * PVRDMA_PAGE_SIZE),
                   entries_of(sizeof(pvrdma_completion_event))} {
    const Iova command = allocator.allocate(PVRDMA_PAGE_SIZE);
    const Iova response = allocator.allocate(PVRDMA_PAGE_SIZE);
    command_ = allocator.at<pvrdma_request>(command);
    response_ = allocator.at<pvrdma_response>(response);
    region_->driver_version = PVRDMA_VERSION;
    region_->command_slot = raw(command);
    region_->response_slot = raw(response);
    region_->async_events = {event_pages, 0, directory(async_.buffer())};
    region_->completion_events = {event_pages, 0, directory(completions_.buffer())};
    region_->uar_frame = uar_frame;
}

Buffer PvDriver::allocate(std::uint64_t size) {
    const Iova begin = allocator_.allocate(size);
    hca::Translation pages;
    pages.length = size;
    for (std::uint64_t at = 0; at < size; at += PVRDMA_PAGE_SIZE) {
        pages.blocks.push_back(begin + at);
    }
    return {memory_, std::move(pages)};
}

std::uint64_t PvDriver::directory(const Buffer& buffer) {
    return allocator_
        .page_list(buffer.pages().blocks.front(), buffer.size(), PVRDMA_PAGE_SHIFT,
                   PVRDMA_DIRECTORY_LEVELS)
        .root;
}

bool PvDriver::offer_region() {
    bus_.write(PVRDMA_REG_SHARED_LOW, static_cast<std::uint32_t>(raw(region_at_)));
    bus_.write(PVRDMA_REG_SHARED_HIGH, static_cast<std::uint32_t>(raw(region_at_) >> 32));
    return bus_.read(PVRDMA_REG_VERSION) >= PVRDMA_VERSION_ROCE_V2 &&
           region_->caps.mode == PVRDMA_MODE_ROCE &&
           (region_->caps.gid_types == PVRDMA_GID_ROCE_V1 ||
            region_->caps.gid_types == PVRDMA_GID_ROCE_V2);
}

bool PvDriver::activate() {
    bus_.write(PVRDMA_REG_MASK, 0);
    bus_.write(PVRDMA_REG_CONTROL, PVRDMA_CONTROL_ACTIVATE);
    return bus_.read(PVRDMA_REG_ERROR) == 0;
}

bool PvDriver::probe() {
    return offer_region() && activate();
}

std::optional<pvrdma_response> PvDriver::execute(std::uint32_t command,
                                                 const pvrdma_request& content) {
    *command_ = content;
    command_->header = {0x1122334455667788, command, 0};
    const unsigned before = bus_.interrupts(PVRDMA_VECTOR_RESPONSE);
    bus_.write(PVRDMA_REG_REQUEST, 0);
    if (bus_.read(PVRDMA_REG_ERROR) != 0) {
        return std::nullopt;
    }
    constexpr int patience = 100'000;
    for (int i = 0; i < patience && bus_.interrupts(PVRDMA_VECTOR_RESPONSE) == before; ++i) {
        bus_.let_run();
    }
    EXPECT_EQ(bus_.interrupts(PVRDMA_VECTOR_RESPONSE), before + 1) << "of command " << command;
    EXPECT_EQ(response_->header.cookie, 0x1122334455667788u);
    if (response_->header.response != (PVRDMA_RESPONSE | command)) {
        EXPECT_NE(response_->header.error, 0);
        return std::nullopt;
    }
    return *response_;
}

std::uint32_t PvDriver::run(std::uint32_t command, const pvrdma_request& content) {
    const unsigned before = bus_.interrupts(PVRDMA_VECTOR_RESPONSE);
    *command_ = content;
    command_->header = {0, command, 0};
    bus_.write(PVRDMA_REG_REQUEST, 0);
    *command_ = {}; // the driver may write the next one
    const std::uint32_t error = bus_.read(PVRDMA_REG_ERROR);
    bus_.let_run();
    EXPECT_EQ(bus_.interrupts(PVRDMA_VECTOR_RESPONSE), before)
        << "an interrupt would be taken for that of the next command";
    return error;
}

std::uint32_t PvDriver::destroy(std::uint32_t command, std::uint32_t handle) {
    pvrdma_request request{};
    request.handle.handle = handle;
    return run(command, request);
}

std::uint32_t PvDriver::create(std::uint32_t command, const pvrdma_request& content) {
    const auto response = execute(command, content);
    return response ? response->handle.handle : 0;
}

std::uint32_t PvDriver::create_uc(std::uint32_t page) {
    pvrdma_request request{};
    request.create_uc.uar_frame = uar_frame + page;
    return create(PVRDMA_CREATE_UC, request);
}

std::uint32_t PvDriver::create_pd(std::uint32_t uc) {
    pvrdma_request request{};
    request.handle.handle = uc;
    return create(PVRDMA_CREATE_PD, request);
}

std::uint32_t PvDriver::bind(std::uint32_t index, const Gid& gid) {
    pvrdma_request request{};
    request.create_bind.vlan = PVRDMA_NO_VLAN;
    request.create_bind.mtu = 1024;
    request.create_bind.index = index;
    request.create_bind.gid_type = PVRDMA_GID_ROCE_V2;
    std::ranges::copy(gid, std::begin(request.create_bind.gid));
    return run(PVRDMA_CREATE_BIND, request);
}

PvDriver::Mr PvDriver::create_mr(std::uint32_t pd, std::uint64_t length) {
    constexpr std::uint64_t start = 0x7f0000000000;
    Mr mr{0, {}, start, allocate(length)};
    pvrdma_request request{};
    request.create_mr.start = start;
    request.create_mr.length = length;
    request.create_mr.directory = directory(mr.buffer);
    request.create_mr.pd = pd;
    request.create_mr.access_flags = all_access;
    request.create_mr.pages = static_cast<std::uint32_t>(mr.buffer.pages().blocks.size());
    if (const auto response = execute(PVRDMA_CREATE_MR, request)) {
        EXPECT_EQ(response->mr.lkey, response->mr.rkey);
        mr.handle = response->mr.handle;
        mr.key = Key{response->mr.lkey};
    }
    return mr;
}

PvDriver::Cq PvDriver::create_cq(std::uint32_t depth, std::uint32_t uc) {
    const Buffer buffer =
        allocate(pvrdma_page_align(pvrdma_ring_buffer_size(depth, VRDMA_CQE_SHIFT)));
    pvrdma_request request{};
    request.create_cq.directory = directory(buffer);
    request.create_cq.uc = uc;
    request.create_cq.depth = depth;
    request.create_cq.pages = static_cast<std::uint32_t>(buffer.pages().blocks.size());
    const auto response = execute(PVRDMA_CREATE_CQ, request);
    return {response ? response->cq.handle : 0, PvCq{buffer, depth}};
}

pvrdma_request PvDriver::qp_request(std::uint32_t pd, std::uint32_t cq, const Buffer& buffer,
                                    const PvShape& shape, std::uint8_t type) {
    pvrdma_request request{};
    pvrdma_create_qp& cmd = request.create_qp;
    cmd.directory = directory(buffer);
    cmd.pd = pd;
    cmd.send_cq = cmd.recv_cq = cq;
    cmd.sq_depth = shape.sq_depth;
    cmd.rq_depth = shape.rq_depth;
    cmd.max_send_sge = shape.max_send_sge;
    cmd.max_recv_sge = shape.max_recv_sge;
    cmd.access_flags = IBV_ACCESS_LOCAL_WRITE;
    cmd.pages = static_cast<std::uint16_t>(1 + shape.sq_pages() + shape.rq_pages());
    cmd.sq_pages = static_cast<std::uint16_t>(shape.sq_pages());
    cmd.type = type;
    return request;
}

PvQp PvDriver::create_qp(std::uint32_t pd, std::uint32_t cq, const PvShape& shape,
                         std::uint32_t uar) {
    const Buffer buffer = allocate(shape.size());
    const auto response = execute(PVRDMA_CREATE_QP, qp_request(pd, cq, buffer, shape));
    const pvrdma_created_qp made = response ? response->qp : pvrdma_created_qp{};
    EXPECT_TRUE(!response || made.handle < region_->caps.max_qp);
    return {made.qpn, made.handle, shape, buffer, [this, uar](std::uint32_t value) {
                bus_.ring(uar * PVRDMA_PAGE_SIZE + PVRDMA_UAR_QP, value);
            }};
}

std::uint32_t PvDriver::modify(std::uint32_t qp, std::uint32_t mask, const pvrdma_qp_attr& attr) {
    pvrdma_request request{};
    request.modify_qp = {qp, mask, attr};
    const auto response = execute(PVRDMA_MODIFY_QP, request);
    EXPECT_TRUE(response) << "the driver would not see the error";
    return response ? response->header.error : 0;
}

std::uint32_t PvDriver::connect(std::uint32_t qp, const Gid& peer, std::uint32_t peer_qpn) {
    pvrdma_qp_attr attr{};
    attr.state = IBV_QPS_INIT;
    attr.port = VRDMA_PORT;
    attr.access_flags = all_access;
    if (const auto error = modify(
            qp, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, attr)) {
        return error;
    }
    attr.state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qpn = peer_qpn;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    std::ranges::copy(peer, std::begin(attr.path.dgid));
    attr.path.port = VRDMA_PORT;
    attr.path.hop_limit = 64;
    if (const auto error =
            modify(qp,
                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                   attr)) {
        return error;
    }
    attr.state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 4;
    return modify(qp,
                  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                  attr);
}

} // namespace vrdma::test
