// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// An honest guest with a device of its own, beside a hostile one. Whatever the hostile guest has
// done, the bystander's control verbs succeed, and its WRITE arrives after a bounded number of
// poller rounds. Neither takes long.
#pragma once

#include <spdlog/spdlog.h>

#include <span>
#include <vector>

#include "mediator/fuzz/input.h"
#include "mediator/fuzz/make_hca.h"
#include "mediator/fuzz/require.h"
#include "mediator/fuzz/usual_time.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/tests/guest/vm.h"

namespace vrdma::fuzz {

class Bystander {
  public:
    static constexpr int most_rounds = 64;

    Bystander(hca::soft::SoftHca& hca, verbs::GidRegistry& gids)
        : hca_{hca}, vm_{hca, gids, 77, std::move(*ArenaMemory::create(memory_size))} {
        vm_.set_up();
        vm_.connect(vm_);
    }

    // The same after a hostile guest has come to rest, and that its memory of another PD has stayed
    // zero.
    template <typename Poll>
    void check(Poll&& poll, const test::Buffer& secret) {
        for (int i = 0; i < 20; ++i) {
            poll();
        }
        require(secret.read(0, secret.size()) == std::vector<std::byte>(secret.size()));
        check();
    }

    void check() {
        const UsualTime time;
        require(vm_.admin->status() == VRDMA_STATUS_ENABLED);
        vm_.modify(test::state_attr(IBV_QPS_RESET));
        vm_.qp->reset();
        vm_.connect(vm_);
        const Key key = vm_.register_data();
        write(key);
        vm_.deregister(key);
    }

  private:
    void write(Key key) {
        vm_.data.write(0, test::Buffer::pattern(++round_, size));
        vm_.data.write(size, std::vector<std::byte>(size));
        const vrdma_sge from = vm_.sge(size);
        vm_.qp->post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                           .sges = {&from, 1},
                           .rkey = key,
                           .raddr = test::Vm::start + size});
        auto completion = vm_.cq->poll();
        for (int i = 0; i < most_rounds && !completion; ++i) {
            hca_.poll();
            completion = vm_.cq->poll();
        }
        require(completion && completion->status == IBV_WC_SUCCESS);
        require(vm_.data.read(size, size) == test::Buffer::pattern(round_, size));
    }

    static constexpr std::uint32_t size = 8;
    static constexpr std::uint64_t memory_size = 1 << 20;

    hca::soft::SoftHca& hca_;
    test::Vm vm_;
    std::uint8_t round_ = 0;
};

// Runs a hostile guest on an input. The HCA and the bystander are the same for all inputs. Returns
// what a fuzz target has to return.
template <typename Run>
int beside_bystander(std::span<const std::uint8_t> data, Run&& run) {
    static const auto hca = [] {
        spdlog::set_level(spdlog::level::off);
        return make_hca();
    }();
    static verbs::GidRegistry gids;
    static Bystander bystander{*hca, gids};
    Input input{data};
    run(*hca, gids, input);
    bystander.check();
    return 0;
}

} // namespace vrdma::fuzz
