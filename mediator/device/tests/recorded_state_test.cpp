// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Streams that other versions wrote (states/README.md) are restored by this one, or are refused for
// the reason that is named here.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "mediator/device/incoming_state.h"
#include "mediator/device/sent_ahead.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/hca/soft/transport/roce/tests/cable.h"
#include "mediator/tests/guest/vm.h"
#include "mediator/verbs/saved_state.h"

namespace vrdma {
namespace {

constexpr char cable_name[] = "cable";
constexpr std::uint64_t arena_size = 1 << 24;
constexpr std::uint8_t last_octet = 1; // of the device's addresses
constexpr std::uint8_t peer_octet = 2;
constexpr Qpn peer_qpn{0x123456};
constexpr std::uint32_t pd = 1;

// A host that reaches a peer by its uplink, and a virtual machine there.
struct Host {
    Host() {
        auto [end, peer_end] = test::Cable::lay();
        EXPECT_TRUE(hca->add_uplink(cable_name, std::move(end)));
        hca->with_port(cable_name, [](hca::soft::roce::Port& port) {
            port.set_neighbour(test::ipv4_gid(peer_octet), wire::Mac{2, 0, 0, 0, 0, peer_octet});
        });
    }

    static hca::soft::Config without_threads() {
        hca::soft::Config config;
        config.threads = false;
        return config;
    }

    std::unique_ptr<hca::soft::SoftHca> hca = hca::soft::SoftHca::create(without_threads()).value();
    verbs::GidRegistry gids;
    test::Vm vm{*hca, gids, last_octet, ArenaMemory::create(arena_size).value(), cable_name};
};

// A device whose peer has not acknowledged a message yet. It has objects of each kind except
// listeners, which only devices with a shared address have.
std::vector<std::byte> joined(const std::vector<std::vector<std::byte>>& parts) {
    std::vector<std::byte> all;
    for (const auto& part : parts) {
        all.insert(all.end(), part.begin(), part.end());
    }
    return all;
}

class BusyDevice {
  public:
    BusyDevice() {
        vm_.set_up();
        connect();
        add_keys();
        add_queues();
        add_group();
        send();
    }

    // The announcement and the image, as they go to another host.
    std::vector<std::byte> stream() {
        vm_.device->freeze();
        return joined({to_stream(vm_.device->announce(), StreamPart::announcement),
                       to_stream(vm_.device->save())});
    }

    // The same from a monitor that reads what goes ahead.
    std::vector<std::byte> stream_in_parts() {
        vm_.device->freeze();
        const SentAhead ahead{vm_.device->save_ahead()};
        return joined({to_stream(vm_.device->announce(), StreamPart::announcement),
                       to_stream(ahead.bytes(), StreamPart::ahead),
                       to_stream(ahead.rest_of(vm_.device->save_state()), StreamPart::rest)});
    }

  private:
    void connect() {
        vm_.modify(test::init_attr());
        vm_.modify(test::rtr_attr(test::ipv4_gid(peer_octet), peer_qpn));
        vm_.modify(test::rts_attr());
    }

    void add_keys() {
        vm_.create(VRDMA_ADMIN_ALLOC_UCONTEXT);
        vrdma_admin_cmd cmd{};
        cmd.alloc_mr = {pd, 16};
        vm_.create(VRDMA_ADMIN_ALLOC_MR, cmd);
        cmd = {};
        cmd.alloc_mw = {pd, IBV_MW_TYPE_2};
        vm_.create(VRDMA_ADMIN_ALLOC_MW, cmd);
        cmd = {};
        cmd.create_ah.pd = pd;
        cmd.create_ah.av.port_num = 1;
        const auto peer = test::ipv4_gid(peer_octet);
        std::ranges::copy(peer, cmd.create_ah.av.dgid);
        vm_.create(VRDMA_ADMIN_CREATE_AH, cmd);
    }

    void add_queues() {
        constexpr std::uint32_t depth = 16;
        constexpr std::uint8_t stride_shift = 5;
        vrdma_admin_cmd cmd{};
        cmd.create_srq.pages = vm_.list(vm_.allocate(vrdma_srq_buffer_size(depth, stride_shift)));
        cmd.create_srq.pd = pd;
        cmd.create_srq.depth = depth;
        cmd.create_srq.stride_shift = stride_shift;
        cmd.create_srq.max_sge = 1;
        vm_.create(VRDMA_ADMIN_CREATE_SRQ, cmd);
        cmd = {};
        cmd.bind_counter_set = {vm_.qp->id().value, vm_.create(VRDMA_ADMIN_ALLOC_COUNTER_SET)};
        EXPECT_EQ(vm_.admin->run(VRDMA_ADMIN_BIND_COUNTER_SET, cmd), 0);
        cmd = {};
        cmd.create_qp.xrcd = vm_.create(VRDMA_ADMIN_ALLOC_XRCD);
        cmd.create_qp.qp_type = static_cast<std::uint8_t>(hca::QpType::xrc_recv);
        EXPECT_EQ(vm_.admin->execute(VRDMA_ADMIN_CREATE_QP, cmd).status, 0u);
    }

    void add_group() {
        vrdma_admin_cmd cmd{};
        const test::QpShape shape{.type = hca::QpType::ud};
        cmd.create_qp.pages = vm_.list(vm_.allocate(shape.buffer_size()));
        cmd.create_qp.pd = pd;
        cmd.create_qp.send_cq = cmd.create_qp.recv_cq = vm_.cq->id().value;
        cmd.create_qp.sq_depth = shape.sq_depth;
        cmd.create_qp.rq_depth = shape.rq_depth;
        cmd.create_qp.sq_stride_shift = shape.sq_stride_shift;
        cmd.create_qp.rq_stride_shift = shape.rq_stride_shift;
        cmd.create_qp.qp_type = static_cast<std::uint8_t>(shape.type);
        cmd.create_qp.max_send_sge = shape.max_send_sge;
        cmd.create_qp.max_recv_sge = shape.max_recv_sge;
        const auto made = vm_.admin->execute(VRDMA_ADMIN_CREATE_QP, cmd);
        EXPECT_EQ(made.status, 0u);
        cmd = {};
        cmd.multicast = {made.create_qp.qpn, 0, {0xff, 0x0e, 1}};
        EXPECT_EQ(vm_.admin->run(VRDMA_ADMIN_ATTACH_MCAST, cmd), 0);
    }

    void send() {
        const vrdma_sge from = vm_.sge(5000);
        vm_.qp->post_send({.sges = {&from, 1}});
        vm_.qp->post_recv({&from, 1});
        while (host_.hca->poll()) {
        }
        EXPECT_GT(vm_.device->counters()->value[VRDMA_COUNTER_TX_PACKETS], 0u);
        EXPECT_FALSE(vm_.cq->poll());
    }

    Host host_;
    test::Vm& vm_ = host_.vm;
};

// The clock is the only field that a device changes by itself.
std::vector<std::byte> without_clock(std::vector<std::byte> image) {
    std::memset(image.data() + sizeof(SectionState) + offsetof(DeviceState, clock), 0,
                sizeof(DeviceState::clock));
    return image;
}

std::vector<std::byte> image_of(std::span<const std::byte> stream) {
    std::vector<std::byte> ahead;
    for (;;) {
        StreamReader reader{arena_size};
        stream = reader.take(stream).value();
        const auto content = reader.content().value();
        if (reader.part() == StreamPart::ahead) {
            ahead.assign(content.begin(), content.end());
        } else if (reader.part() == StreamPart::rest) {
            return whole_image(content, ahead, arena_size).value();
        } else if (reader.part() == StreamPart::image) {
            return {content.begin(), content.end()};
        }
    }
}

// Restores a stream. Fails if the restored device differs from the saved one.
std::errc restored(std::span<const std::byte> stream) {
    Host host;
    Device& device = *host.vm.device;
    IncomingState state{device, arena_size};
    const auto done = state.take(stream).and_then([&] { return state.restore(); });
    if (!done) {
        return done.error();
    }
    EXPECT_TRUE(without_clock(device.save()) == without_clock(image_of(stream)));
    return {};
}

std::vector<std::byte> read(const std::string& name) {
    std::ifstream file{VRDMA_STATES_DIRECTORY "/" + name, std::ios::binary};
    EXPECT_TRUE(file) << name;
    const std::string text{std::istreambuf_iterator<char>{file}, {}};
    const auto bytes = std::as_bytes(std::span{text});
    return {bytes.begin(), bytes.end()};
}

// Writes a stream to a file if told so.
void record(std::span<const std::byte> stream, const char* variable) {
    if (const char* const path = std::getenv(variable)) { // NOLINT(concurrency-mt-unsafe)
        std::ofstream{path, std::ios::binary}.write(reinterpret_cast<const char*>(stream.data()),
                                                    static_cast<std::streamsize>(stream.size()));
    }
}

// Saves a busy device in one part and in two, and restores it on another host. Expects no
// difference.
TEST(RecordedStateTest, OfThisVersion) {
    const auto stream = BusyDevice{}.stream();
    EXPECT_EQ(restored(stream), std::errc{});
    record(stream, "VRDMA_RECORD_STATE");
    const auto in_parts = BusyDevice{}.stream_in_parts();
    EXPECT_EQ(restored(in_parts), std::errc{});
    record(in_parts, "VRDMA_RECORD_STATE_IN_PARTS");
}

// Restores the recorded streams. Expects no difference, or the named reason.
TEST(RecordedStateTest, OfOtherVersions) {
    constexpr struct {
        const char* file;
        std::errc expected;
    } recorded[]{{"0.1.0.state", std::errc{}}, {"0.1.0-parts.state", std::errc{}}};
    for (const auto& [file, expected] : recorded) {
        EXPECT_EQ(restored(read(file)), expected) << file;
    }
}

} // namespace
} // namespace vrdma
