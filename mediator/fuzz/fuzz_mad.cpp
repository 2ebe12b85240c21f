// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A hostile sender of management datagrams to two functions that share an address. It sends
// messages of connection management and any others, of any size, to QP1. They change while they are
// read. A function without QP1 gets none, and a bystander goes on working.
//
// The input is a list of steps. The first byte of each selects its kind (enum Step).
#include <infiniband/verbs.h>

#include <array>

#include "mediator/fuzz/bystander.h"
#include "mediator/fuzz/changing_memory.h"
#include "mediator/fuzz/input.h"
#include "mediator/fuzz/make_hca.h"
#include "mediator/tests/guest/guest.h"
#include "vrdma/mad.h"

namespace vrdma::test {
namespace {

using fuzz::Input;
using fuzz::require;

enum Step : std::uint8_t {
    step_send,   // attribute, the id or service that it names, size, spoilers
    step_listen, // function, service
    step_unlisten,
    step_change, // the sender's memory, when it is next read
    step_poll,
    step_count,
};

constexpr int max_steps = 200;
constexpr std::uint64_t memory_size = 1 << 20;
constexpr std::uint32_t gsi_qkey = 0x80010000;

std::unique_ptr<GuestMemory> make_memory() {
    return std::move(*ArenaMemory::create(memory_size));
}

// Has a QP1 with a receive posted at all times.
class Function {
  public:
    Function(hca::Hca& hca, std::uint8_t address, const hca::QpnRange& qpns)
        : guest_{hca, "function", ipv4_gid(address), make_memory(), qpns} {
        activate_ud(guest_, gsi_, gsi_qkey);
        for (std::uint32_t i = 0; i < gsi_.shape().rq_depth; ++i) {
            offer();
        }
    }

    void take() {
        for (unsigned i = 0; i < depth; ++i) { // a guest's own change may make its CQ endless
            if (const auto completion = cq_.poll(); completion && completion->receive) {
                offer();
            }
        }
    }

    Guest& guest() { return guest_; }
    GuestQp& gsi() { return gsi_; }
    MemoryRegion& region() { return region_; }

  private:
    void offer() {
        const vrdma_sge to = region_.sge(VRDMA_PAGE_SIZE, VRDMA_PAGE_SIZE);
        gsi_.post_recv({&to, 1});
    }

    Guest guest_;
    static constexpr unsigned depth = 64;
    GuestCq cq_ = guest_.create_cq(depth);
    GuestQp gsi_ = guest_.create_qp(cq_, cq_, {.type = hca::QpType::ud, .gsi = true});
    MemoryRegion region_ = guest_.register_mr(2 * VRDMA_PAGE_SIZE);
};

class Stage {
  public:
    void step(Input& input) {
        switch (input.take<std::uint8_t>() % step_count) {
            case step_send:
                send(input);
                break;
            case step_listen:
                pick(input).guest().slice().listen(input.take<std::uint8_t>());
                break;
            case step_unlisten:
                pick(input).guest().slice().unlisten(input.take<std::uint8_t>());
                break;
            case step_change:
                changing_.plan(input);
                break;
            default:
                poll();
                break;
        }
    }

    void check() {
        poll();
        bystander_.check();
    }

  private:
    Function& pick(Input& input) { return input.take<std::uint8_t>() % 2 != 0 ? second_ : first_; }

    void send(Input& input) {
        vrdma_mad mad{};
        mad.header.base_version = VRDMA_MAD_BASE_VERSION;
        mad.header.mgmt_class = VRDMA_MAD_CLASS_CM;
        mad.header.class_version = VRDMA_MAD_CM_VERSION;
        mad.header.method = VRDMA_MAD_SEND;
        mad.header.attribute = htobe16(VRDMA_CM_REQ + input.take<std::uint8_t>() % 9);
        const auto name = input.take<std::uint8_t>();
        mad.ids.remote_id = htobe32(std::uint32_t{name} << 24);
        if (mad.header.attribute == htobe16(VRDMA_CM_REQ)) {
            mad.req.service_id = htobe64(name);
        }
        const auto draw = input.take<std::uint8_t>();
        const std::uint32_t size = draw < 192 ? sizeof(mad) : draw;
        input.spoil<std::uint16_t>(std::as_writable_bytes(std::span{&mad, 1}));
        sender_.region().buffer.write(0, std::as_bytes(std::span{&mad, 1}));
        const vrdma_sge from = sender_.region().sge(0, size);
        sender_.gsi().post_send({.flags = VRDMA_SQ_SIGNALED,
                                 .sges = {&from, 1},
                                 .ah = to_them_,
                                 .dest_qpn = hca::gsi_qpn,
                                 .qkey = gsi_qkey});
        poll();
    }

    void poll() {
        constexpr int rounds = 4;
        changing_.turn([&] {
            for (int i = 0; i < rounds; ++i) {
                hca_->poll();
            }
        });
        first_.take();
        second_.take();
        sender_.take();
    }

    std::unique_ptr<hca::soft::SoftHca> hca_ = fuzz::make_hca();
    verbs::GidRegistry gids_;
    fuzz::Bystander bystander_{*hca_, gids_};
    Function first_{*hca_, 9, {0, 0x7fffff}};
    Function second_{*hca_, 9, {0x800000, 0xfffffe}};
    Function sender_{*hca_, 1, {}};
    AhId to_them_ = sender_.guest().create_ah(ipv4_gid(9));
    fuzz::ChangingMemory changing_{
        {sender_.guest().memory().at(Iova{0}, memory_size), memory_size}};
};

} // namespace
} // namespace vrdma::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    vrdma::fuzz::Input input{{data, size}};
    vrdma::test::Stage stage;
    for (int step = 0; step < vrdma::test::max_steps && !input.empty(); ++step) {
        stage.step(input);
    }
    stage.check();
    return 0;
}
