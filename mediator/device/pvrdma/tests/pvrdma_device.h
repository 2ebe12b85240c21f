// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device with PVRDMA's personality, driven as Linux's driver drives it, on the soft HCA. Its peer
// is a guest with vrdma's own driver.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <memory>
#include <optional>

#include "mediator/hca/soft/soft_hca.h"
#include "mediator/tests/guest/pvrdma_driver.h"
#include "mediator/tests/guest/vm.h"

namespace vrdma::test {

class PvrdmaDevice : public ::testing::Test {
  protected:
    static constexpr verbs::Mac mac{2, 0, 0, 0, 0, 1};
    static constexpr std::uint64_t memory_size = 1 << 26;

    static hca::soft::Config without_threads() {
        hca::soft::Config config;
        config.threads = false;
        return config;
    }

    PvBus bus() {
        return {.read = [this](std::uint32_t offset) { return port.read(offset); },
                .write = [this](std::uint32_t offset,
                                std::uint32_t value) { device.write_register(offset, value); },
                .ring = [this](std::uint32_t offset,
                               std::uint32_t value) { device.write_doorbell(offset, value); },
                .interrupts = [this](unsigned vector) { return port.raised(vector); },
                .let_run =
                    [this] {
                        while (port.take_wake()) {
                            device.service();
                        }
                    }};
    }

    // Everything up to a connected QP on each side.
    void set_up() {
        ASSERT_TRUE(driver.probe());
        ASSERT_EQ(driver.bind(0, ipv4_gid(1)), 0u);
        pd = driver.create_pd();
        mr.emplace(driver.create_mr(pd, 1 << 16));
        cq.emplace(driver.create_cq());
        qp.emplace(driver.create_qp(pd, cq->handle));
        peer.set_up();
        ASSERT_EQ(driver.connect(qp->handle, peer.gid, peer.qp->id().value), 0u);
        peer.modify(init_attr());
        peer.modify(rtr_attr(ipv4_gid(1), Qpn{qp->qpn}));
        peer.modify(rts_attr());
    }

    template <typename Poll>
    auto wait(Poll&& poll) {
        auto found = poll();
        for (int round = 0; round < 200'000 && !found; ++round) {
            hca->poll();
            found = poll();
        }
        EXPECT_TRUE(found) << "no completion";
        return found.value_or(typename decltype(found)::value_type{});
    }
    pvrdma_cqe wait_pv() {
        return wait([this] { return cq->ring.poll(); });
    }
    Completion wait_peer() {
        return wait([this] { return peer.cq->poll(); });
    }

    // The error of creating a QP with a command that differs from a good one.
    template <typename Change>
    bool creates_qp(Change&& change, const PvShape& shape = {}) {
        pvrdma_request request =
            driver.qp_request(pd, cq->handle, driver.allocate(shape.size()), shape);
        change(request.create_qp);
        return driver.create(PVRDMA_CREATE_QP, request) != 0;
    }

    DeviceType type{"test", 1, 1 << 20, {}};
    std::unique_ptr<hca::soft::SoftHca> hca = hca::soft::SoftHca::create(without_threads()).value();
    verbs::GidRegistry gids;
    GuestPort port{ArenaMemory::create(memory_size).value(), type};
    GuestAllocator allocator{port.memory()};
    Device device{"pv", type, verbs::Identity{mac, {}, true}, port,
                  *hca, gids, PersonalityKind::pvrdma};
    PvDriver driver{bus(), port.memory(), allocator};
    Vm peer{*hca, gids, 2, ArenaMemory::create(memory_size).value()};
    std::uint32_t pd = 0;
    std::optional<PvDriver::Mr> mr;
    std::optional<PvDriver::Cq> cq;
    std::optional<PvQp> qp;
};

} // namespace vrdma::test
