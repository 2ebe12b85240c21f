// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device on a fake HCA, and a guest that drives it through its registers and its admin queue.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "mediator/device/device.h"
#include "mediator/tests/guest/admin_client.h"
#include "mediator/verbs/tests/fake_hca.h"

namespace vrdma {

class DeviceTest : public testing::Test {
  protected:
    static constexpr verbs::Mac mac{0x52, 0x54, 0, 1, 2, 3};

    vrdma_admin_cmd eq_command(std::uint32_t depth = 16) {
        vrdma_admin_cmd cmd{};
        const auto size = sizeof(vrdma_eq_control) + depth * sizeof(vrdma_eqe);
        cmd.create_eq = {allocator.page_list(allocator.allocate(size), size), depth, 0};
        return cmd;
    }

    vrdma_admin_cmd cq_command(std::uint32_t eq, std::uint32_t depth = 64) {
        vrdma_admin_cmd cmd{};
        const auto size = VRDMA_QUEUE_CONTROL_SIZE + depth * sizeof(vrdma_cqe);
        cmd.create_cq = {
            allocator.page_list(allocator.allocate(size), size), 0, depth, eq, 0, 0, 0};
        return cmd;
    }

    vrdma_admin_cmd mr_command(std::uint32_t pd, std::uint64_t length = 10000) {
        vrdma_admin_cmd cmd{};
        cmd.reg_mr = {allocator.page_list(allocator.allocate(length), length),
                      0x1000,
                      length,
                      pd,
                      IBV_ACCESS_LOCAL_WRITE,
                      0,
                      0};
        return cmd;
    }

    // Registers a million blocks. All blocks are the same page, and each level of their list
    // consists of one page that is used again and again.
    vrdma_admin_cmd large_mr_command(std::uint32_t pd) {
        constexpr std::uint32_t blocks = 1 << 20;
        std::uint64_t below = raw(allocator.allocate(VRDMA_PAGE_SIZE));
        for (std::uint64_t left = blocks; left > 1;) {
            const Iova page = allocator.allocate(VRDMA_PAGE_SIZE);
            const auto entries = std::min<std::uint64_t>(left, VRDMA_PAGE_LIST_ENTRIES);
            std::fill_n(allocator.at<std::uint64_t>(page), entries, below);
            below = raw(page);
            left /= entries;
        }
        vrdma_admin_cmd cmd{};
        cmd.reg_mr.pages = {below, blocks, VRDMA_PAGE_SHIFT, 3, 0};
        cmd.reg_mr.length = std::uint64_t{blocks} << VRDMA_PAGE_SHIFT;
        cmd.reg_mr.pd = pd;
        return cmd;
    }

    vrdma_admin_cmd srq_command(std::uint32_t pd) {
        vrdma_admin_cmd cmd{};
        const auto size = vrdma_srq_buffer_size(16, 5);
        cmd.create_srq.pages = allocator.page_list(allocator.allocate(size), size);
        cmd.create_srq.pd = pd;
        cmd.create_srq.depth = 16;
        cmd.create_srq.stride_shift = 5;
        cmd.create_srq.max_sge = 1;
        return cmd;
    }

    vrdma_admin_cmd qp_command(std::uint32_t pd, std::uint32_t cq) {
        vrdma_admin_cmd cmd{};
        const auto size = vrdma_qp_buffer_size(16, 6, 16, 5);
        cmd.create_qp.pages = allocator.page_list(allocator.allocate(size), size);
        cmd.create_qp.pd = pd;
        cmd.create_qp.send_cq = cmd.create_qp.recv_cq = cq;
        cmd.create_qp.sq_depth = cmd.create_qp.rq_depth = 16;
        cmd.create_qp.sq_stride_shift = 6;
        cmd.create_qp.rq_stride_shift = 5;
        cmd.create_qp.qp_type = static_cast<std::uint8_t>(hca::QpType::rc);
        cmd.create_qp.max_send_sge = cmd.create_qp.max_recv_sge = 1;
        return cmd;
    }

    static vrdma_admin_cmd gid_command(std::uint32_t index, std::uint8_t last_byte = 1) {
        vrdma_admin_cmd cmd{};
        cmd.set_gid = {index, VRDMA_GID_ROCE_V2, 1, 0, {0xfd}};
        cmd.set_gid.gid[15] = last_byte;
        return cmd;
    }

    DeviceType type{"test", 1, 1 << 20, {}};
    hca::FakeHca hca;
    verbs::GidRegistry gids;
    test::GuestPort port{ArenaMemory::create(1 << 28).value(), type};
    test::GuestAllocator allocator{port.memory()};
    Device device{"test", type, verbs::Identity{mac, {}, true}, port, hca, gids};
    test::AdminClient guest{device, port, allocator};
};

} // namespace vrdma
