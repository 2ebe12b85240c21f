// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// There is a QP on each of a thousand doorbell pages, so the poller looks at all of them. All
// doorbells of each page are rung continuously.
#include <algorithm>
#include <cstring>
#include <vector>

#include "torture/hostile/function.h"
#include "torture/hostile/neighbours.h"

namespace vrdma::torture::hostile {
namespace {

constexpr std::uint64_t memory = 64 << 20;
constexpr std::size_t most_pages = 1024;
constexpr std::uint8_t page_shift = VRDMA_PAGE_SHIFT;
constexpr std::uint8_t stride_shift = 6;
constexpr std::uint32_t events = 16;

vrdma_page_list one_page(Function& function) {
    vrdma_page_list page{};
    page.root = function.allocate(VRDMA_PAGE_SIZE);
    page.count = 1;
    page.page_shift = page_shift;
    return page;
}

std::uint32_t create_eq(Function& function) {
    vrdma_admin_cmd eq{};
    eq.create_eq = {one_page(function), events, 0};
    return function.create(VRDMA_ADMIN_CREATE_EQ, eq);
}

std::uint32_t create_pd(Function& function, std::uint32_t context) {
    vrdma_admin_cmd pd{};
    pd.alloc_pd.ucontext = context;
    return function.create(VRDMA_ADMIN_ALLOC_PD, pd);
}

std::uint32_t create_cq(Function& function, std::uint32_t context, std::uint32_t eq) {
    vrdma_admin_cmd cq{};
    cq.create_cq.pages = one_page(function);
    cq.create_cq.depth = 1;
    cq.create_cq.eq = eq;
    cq.create_cq.ucontext = context;
    return function.create(VRDMA_ADMIN_CREATE_CQ, cq);
}

// The poller only looks at a user context's page if a QP uses it.
std::uint32_t attach_page(Function& function, std::uint32_t eq) {
    const vrdma_admin_cpl made = function.execute(VRDMA_ADMIN_ALLOC_UCONTEXT);
    check(static_cast<int>(made.status), "ALLOC_UCONTEXT");
    const std::uint32_t context = made.alloc_ucontext.handle;
    vrdma_admin_cmd qp{};
    qp.create_qp.pages = one_page(function);
    qp.create_qp.ucontext = context;
    qp.create_qp.pd = create_pd(function, context);
    qp.create_qp.send_cq = create_cq(function, context, eq);
    qp.create_qp.recv_cq = qp.create_qp.send_cq;
    qp.create_qp.sq_depth = 1;
    qp.create_qp.sq_stride_shift = stride_shift;
    qp.create_qp.rq_depth = 1;
    qp.create_qp.rq_stride_shift = stride_shift;
    qp.create_qp.qp_type = IBV_QPT_RC;
    qp.create_qp.max_send_sge = 1;
    qp.create_qp.max_recv_sge = 1;
    function.create(VRDMA_ADMIN_CREATE_QP, qp);
    return made.alloc_ucontext.doorbell_page;
}

} // namespace

void doorbell_storm(const Seat& seat, Pace& pace) {
    Function function{seat.socket, memory};
    const std::uint32_t eq = create_eq(function);
    std::vector<std::uint32_t> rung;
    const std::size_t pages = std::min(most_pages, function.doorbells().size() - 1);
    for (std::size_t i = 0; i < pages; ++i) {
        rung.push_back(attach_page(function, eq));
    }
    while (true) {
        for (const std::uint32_t page : rung) {
            std::memset(&function.doorbells()[page], 1, sizeof(vrdma_doorbell_page));
        }
        pace.rest();
    }
}

} // namespace vrdma::torture::hostile
