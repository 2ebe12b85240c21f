// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device's objects on a fake slice, and the commands that a well-behaved guest would send.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "mediator/memory/arena_memory.h"
#include "mediator/tests/guest/admin_client.h"
#include "mediator/verbs/objects.h"
#include "mediator/verbs/tests/fake_hca.h"

namespace vrdma::verbs {

inline constexpr auto invalid = std::errc::invalid_argument;

// One device.
struct Side {
    Side(const Limits& limits, const FunctionId& function_id, GidRegistry& registry,
         GuestMemory& memory)
        : doorbells(limits.doorbell_pages), objects{limits, function_id, registry,
                                                    memory, doorbells,   slice} {}

    std::vector<vrdma_doorbell_page> doorbells;
    hca::FakeSlice slice;
    Objects objects;
};

class VerbsTest : public testing::Test {
  protected:
    static constexpr std::uint64_t arena_size = 1ull << 32;
    static constexpr Gid gid{0xfd, 1, 2};
    static constexpr std::uint32_t sq_stride_shift = 6;
    static constexpr std::uint32_t rq_stride_shift = 5;

    vrdma_page_list pages(std::uint64_t length, unsigned page_shift = VRDMA_PAGE_SHIFT) {
        const Iova at = allocator.allocate(length, 1ull << page_shift);
        return allocator.page_list(at, length, page_shift);
    }

    vrdma_cmd_create_eq eq_command(std::uint32_t depth = 16) {
        return {pages(sizeof(vrdma_eq_control) + depth * sizeof(vrdma_eqe)), depth, 1};
    }

    vrdma_cmd_create_cq cq_command(EqId eq, UcontextId owner = kernel, std::uint32_t depth = 64) {
        return {pages(VRDMA_QUEUE_CONTROL_SIZE + std::uint64_t{depth} * sizeof(vrdma_cqe)),
                0,
                depth,
                eq.value,
                owner.value,
                0,
                0};
    }

    vrdma_cmd_resize_cq resize_command(Cqn cq, std::uint32_t depth) {
        return {pages(VRDMA_QUEUE_CONTROL_SIZE + std::uint64_t{depth} * sizeof(vrdma_cqe)), 0,
                depth, cq.value, 0};
    }

    vrdma_cmd_reg_mr mr_command(PdId pd, std::uint64_t length = 10000) {
        return {pages(length), 0x7f0000000000, length, pd.value, IBV_ACCESS_LOCAL_WRITE, 0, 0};
    }

    vrdma_cmd_create_qp qp_command(PdId pd, Cqn cq, UcontextId owner = kernel,
                                   hca::QpType type = hca::QpType::rc) {
        vrdma_cmd_create_qp cmd{};
        cmd.ucontext = owner.value;
        cmd.pd = pd.value;
        cmd.send_cq = cmd.recv_cq = cq.value;
        cmd.sq_depth = cmd.rq_depth = 64;
        cmd.sq_stride_shift = sq_stride_shift;
        cmd.rq_stride_shift = rq_stride_shift;
        cmd.qp_type = static_cast<std::uint8_t>(type);
        cmd.max_inline = 40;
        cmd.max_send_sge = 2;
        cmd.max_recv_sge = 1;
        cmd.pages = pages(vrdma_qp_buffer_size(64, sq_stride_shift, 64, rq_stride_shift));
        return cmd;
    }

    vrdma_cmd_create_srq srq_command(PdId pd, UcontextId owner = kernel, std::uint32_t depth = 64) {
        vrdma_cmd_create_srq cmd{};
        cmd.ucontext = owner.value;
        cmd.pd = pd.value;
        cmd.depth = depth;
        cmd.stride_shift = rq_stride_shift;
        cmd.max_sge = 1;
        cmd.pages = pages(vrdma_srq_buffer_size(depth, rq_stride_shift));
        return cmd;
    }

    vrdma_cmd_resize_srq resize_command(Srqn srq, std::uint32_t depth) {
        return {pages(vrdma_srq_buffer_size(depth, rq_stride_shift)), 0, depth, srq.value, 0, 0, 0};
    }

    // A QP that takes its receives from an SRQ.
    vrdma_cmd_create_qp srq_qp_command(PdId pd, Cqn cq, Srqn srq, UcontextId owner = kernel) {
        vrdma_cmd_create_qp cmd = qp_command(pd, cq, owner);
        cmd.rq_depth = 0;
        cmd.max_recv_sge = 0;
        cmd.srq = srq.value;
        cmd.pages = pages(vrdma_qp_buffer_size(cmd.sq_depth, sq_stride_shift, 0, rq_stride_shift));
        return cmd;
    }

    static vrdma_cmd_set_gid gid_command(std::uint32_t index, const Gid& value) {
        vrdma_cmd_set_gid cmd{};
        cmd.index = index;
        cmd.type = VRDMA_GID_ROCE_V2;
        cmd.valid = 1;
        std::memcpy(cmd.gid, value.data(), value.size());
        return cmd;
    }

    static vrdma_av av() {
        vrdma_av av{};
        av.dgid[0] = 0xfd;
        av.hop_limit = 64;
        av.port_num = 1;
        return av;
    }

    // Objects that others need.
    EqId make_eq() { return objects.eqs.create(eq_command()).value(); }
    PdId make_pd(UcontextId owner = kernel) { return objects.pds.alloc(owner).value(); }
    Cqn make_cq(EqId eq, UcontextId owner = kernel) {
        return objects.cqs.create(cq_command(eq, owner)).value();
    }
    Srqn make_srq(PdId pd, UcontextId owner = kernel) {
        return objects.srqs.create(srq_command(pd, owner)).value();
    }
    void make_gid() { ASSERT_TRUE(objects.gids.set(gid_command(0, gid))); }

    std::vector<std::byte> save() {
        side->slice.freeze();
        StateWriter writer;
        objects.save(writer);
        return writer.take();
    }

    // Moves the guest to another host: restores the state of the saved device there.
    Result<> move(const std::vector<std::byte>& image) {
        auto restored = std::make_unique<Side>(limits, function_id, other_registry, *memory);
        restored->slice.freeze();
        StateReader reader{image};
        const auto result = restored->objects.restore(reader);
        if (result) {
            EXPECT_TRUE(reader.at_end());
        }
        moved = std::move(restored);
        return result;
    }

    // Moves the device, and expects that saving it there gives the same image as saving it here.
    void expect_round_trip() {
        const auto image = save();
        ASSERT_TRUE(move(image));
        StateWriter writer;
        moved->objects.save(writer);
        EXPECT_EQ(writer.take(), image);
    }

    Limits limits;
    FunctionId function_id{Identity{{0x52, 0x54, 0, 1, 2, 3}, {}, true}};
    Identity& identity = function_id.endport->identity;
    GidRegistry registry;
    GidRegistry other_registry;
    std::unique_ptr<ArenaMemory> memory = ArenaMemory::create(arena_size).value();
    test::GuestAllocator allocator{*memory};
    std::unique_ptr<Side> side = std::make_unique<Side>(limits, function_id, registry, *memory);
    std::unique_ptr<Side> moved;
    Objects& objects = side->objects;
};

template <typename T>
std::errc error_of(const Result<T>& result) {
    return result ? std::errc{} : result.error();
}

} // namespace vrdma::verbs
