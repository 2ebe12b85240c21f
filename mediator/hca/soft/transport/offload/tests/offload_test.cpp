// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Guests of two hosts whose messages go by their hosts' HCAs. The HCA is one of the test's own.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "mediator/base/mapping.h"
#include "mediator/base/unique_fd.h"
#include "mediator/hca/host/tests/fake_hca.h"
#include "mediator/hca/soft/soft_hca.h"
#include "mediator/tests/guest/guest.h"
#include "mediator/tests/guest/revocable_memory.h"

namespace vrdma::test {
namespace {

constexpr char uplink[] = "wire";
constexpr std::uint64_t page_size = VRDMA_PAGE_SIZE;

// A window that the kernel cannot pin, onto a file whose pages follow each other in twos.
class FiledMemory final : public GuestMemory {
  public:
    static std::unique_ptr<FiledMemory> create() {
        UniqueFd file{::memfd_create("guest", MFD_CLOEXEC)};
        EXPECT_EQ(::ftruncate(file.get(), length), 0);
        Mapping window = *Mapping::map(file.get(), 0, length, PROT_READ | PROT_WRITE);
        return std::unique_ptr<FiledMemory>{new FiledMemory{std::move(file), std::move(window)}};
    }
    void release(Iova, std::uint64_t) noexcept override {}
    bool can_be_pinned() const noexcept override { return false; }
    Result<std::uint64_t> map_again(Iova iova, std::uint64_t size, std::byte* place) override {
        if (refusals != 0) {
            --refusals;
            return fail(std::errc::resource_unavailable_try_again);
        }
        const std::uint64_t mapped = std::min(size, 2 * page_size - raw(iova) % (2 * page_size));
        EXPECT_NE(::mmap(place, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_.get(),
                         static_cast<off_t>(raw(iova))),
                  MAP_FAILED);
        bytes += mapped;
        return mapped;
    }

    unsigned refusals = 0;
    std::uint64_t bytes = 0; // that were mapped again

  private:
    static constexpr std::uint64_t length = 1 << 26;

    FiledMemory(UniqueFd file, Mapping window)
        : GuestMemory{window.data(), length, &no_faults},
          file_{std::move(file)},
          window_{std::move(window)} {}

    static constexpr std::uint64_t no_faults = 0;
    UniqueFd file_;
    Mapping window_;
};

std::unique_ptr<hca::soft::SoftHca> make_host() {
    hca::soft::Config config;
    config.threads = false;
    auto host = std::move(*hca::soft::SoftHca::create(config));
    EXPECT_TRUE(host->add_host_uplink(uplink, FakeHca::library(), FakeHca::name));
    return host;
}

class Offload : public ::testing::Test {
  protected:
    Offload() {
        fake_.add_gid(ipv4_gid(1));
        fake_.add_gid(ipv4_gid(2));
    }

    void poll() {
        a_host_->poll();
        b_host_->poll();
    }

    void settle() {
        for (int round = 0; round < 200; ++round) {
            poll();
        }
    }

    Completion wait(GuestCq& cq) {
        for (int round = 0; round < 10000; ++round) {
            if (const auto completion = cq.poll()) {
                return *completion;
            }
            poll();
        }
        ADD_FAILURE() << "no completion";
        return {};
    }

    std::vector<std::uint32_t> event_types(Guest& guest) {
        settle();
        std::vector<std::uint32_t> types;
        while (const auto event = guest.eq().poll()) {
            types.push_back(event->type);
        }
        return types;
    }

    static void fill(const MemoryRegion& region, std::uint8_t first) {
        for (std::size_t i = 0; i < region.buffer.size(); ++i) {
            *region.buffer.at(i) = static_cast<std::byte>(first + i % 251);
        }
    }

    static bool same(const MemoryRegion& one, const MemoryRegion& other, std::size_t bytes) {
        for (std::size_t i = 0; i < bytes; ++i) {
            if (*one.buffer.at(i) != *other.buffer.at(i)) {
                return false;
            }
        }
        return true;
    }

    FakeHca fake_;
    std::unique_ptr<hca::soft::SoftHca> a_host_ = make_host();
    std::unique_ptr<hca::soft::SoftHca> b_host_ = make_host();
    Guest a_{*a_host_, "a", ipv4_gid(1), Guest::default_memory(), {}, uplink};
    Guest b_{*b_host_, "b", ipv4_gid(2), Guest::default_memory(), {}, uplink};
    GuestCq a_cq_ = a_.create_cq();
    GuestCq b_cq_ = b_.create_cq();
};

class OffloadPair : public Offload {
  protected:
    OffloadPair() { connect_both(a_, a_qp_, b_, b_qp_); }

    Completion send(vrdma_sq_opcode opcode, std::uint32_t length, std::uint32_t flags = 0,
                    Key rkey = {}) {
        post(opcode, length, flags, rkey);
        return wait(a_cq_);
    }

    void post(vrdma_sq_opcode opcode, std::uint32_t length, std::uint32_t flags = 0,
              Key rkey = {}) {
        const bool one_sided = opcode == VRDMA_SQ_RDMA_WRITE || opcode == VRDMA_SQ_RDMA_READ;
        const vrdma_sge sge = a_mr_.sge(0, length);
        a_qp_.post_send({.opcode = opcode,
                         .flags = VRDMA_SQ_SIGNALED | flags,
                         .sges = {&sge, 1},
                         .rkey = one_sided && rkey == Key{} ? b_mr_.key : rkey,
                         .raddr = one_sided ? b_mr_.start : 0});
    }

    void receive(std::uint32_t length) {
        const vrdma_sge sge = b_mr_.sge(0, length);
        b_qp_.post_recv({&sge, 1});
    }

    static constexpr std::uint32_t size = 1 << 16;

    GuestQp a_qp_ = a_.create_qp(a_cq_, a_cq_);
    GuestQp b_qp_ = b_.create_qp(b_cq_, b_cq_);
    MemoryRegion a_mr_ = a_.register_mr(size);
    MemoryRegion b_mr_ = b_.register_mr(size);
};

// The numbers and keys that a guest tells its peers must be the HCA's. Expects the HCA's QP of that
// number to be connected, and as many regions there as the guests have registered, beside none.
TEST_F(OffloadPair, NamesAreThoseOfTheHca) {
    EXPECT_EQ(fake_.state_of(a_qp_.id().value), IBV_QPS_RTS);
    EXPECT_EQ(fake_.state_of(b_qp_.id().value), IBV_QPS_RTS);
    EXPECT_NE(a_mr_.key, b_mr_.key);
    EXPECT_EQ(fake_.mrs(), 2u);
}

// Sends from scattered pages to scattered pages; expects the bytes, and a completion on each side.
TEST_F(OffloadPair, SendsWithoutACopy) {
    fill(a_mr_, 1);
    receive(size);
    EXPECT_EQ(send(VRDMA_SQ_SEND, size).status, IBV_WC_SUCCESS);
    const Completion received = wait(b_cq_);
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.opcode, IBV_WC_RECV);
    EXPECT_EQ(received.byte_len, size);
    EXPECT_TRUE(same(a_mr_, b_mr_, size));
    EXPECT_EQ(event_types(b_), std::vector<std::uint32_t>{});
}

// Writes and reads by the key that the peer's guest knows; expects the bytes.
TEST_F(OffloadPair, WritesAndReads) {
    fill(a_mr_, 1);
    EXPECT_EQ(send(VRDMA_SQ_RDMA_WRITE, size).status, IBV_WC_SUCCESS);
    EXPECT_TRUE(same(a_mr_, b_mr_, size));
    fill(b_mr_, 7);
    EXPECT_EQ(send(VRDMA_SQ_RDMA_READ, size).status, IBV_WC_SUCCESS);
    EXPECT_TRUE(same(a_mr_, b_mr_, size));
}

// Sends before there is a receive, on QPs that nobody polls; expects the receive's doorbell to
// bring the WQE to the HCA.
TEST_F(OffloadPair, ReceivesAreTakenWhenTheyArePosted) {
    fill(a_mr_, 1);
    post(VRDMA_SQ_SEND, 100);
    settle();
    EXPECT_FALSE(a_cq_.poll());
    receive(100);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(b_cq_).byte_len, 100u);
}

// Posts more of both kinds of WQEs than the HCA gets at a time; expects all of them in order.
TEST_F(OffloadPair, PostsAsMuchAsTheHcaMayHave) {
    for (std::uint32_t round = 0; round < 20; ++round) {
        for (std::uint32_t i = 0; i < 16; ++i) {
            receive(100 + i);
        }
        for (std::uint32_t i = 0; i < 16; ++i) {
            post(VRDMA_SQ_SEND, 100 + i);
        }
        for (std::uint32_t i = 0; i < 16; ++i) {
            EXPECT_EQ(wait(a_cq_).index % 16, i);
            EXPECT_EQ(wait(b_cq_).byte_len, 100 + i);
        }
    }
}

// A window that the kernel cannot pin, as that of the module. Writes to scattered pages and to
// adjacent ones of such a guest; expects the bytes there, and all pages to have been mapped again.
TEST_F(Offload, MemoryThatCannotBePinnedIsMappedAgain) {
    auto owned = FiledMemory::create();
    FiledMemory& memory = *owned;
    fake_.add_gid(ipv4_gid(3));
    Guest c{*b_host_, "c", ipv4_gid(3), std::move(owned), {}, uplink};
    GuestCq c_cq = c.create_cq();
    GuestQp a_qp = a_.create_qp(a_cq_, a_cq_);
    GuestQp c_qp = c.create_qp(c_cq, c_cq);
    connect_both(a_, a_qp, c, c_qp);
    for (const bool scattered : {true, false}) {
        constexpr std::uint32_t size = 5 * page_size;
        memory.bytes = 0;
        memory.refusals = 3;
        const MemoryRegion to = c.register_mr(size, {.scattered = scattered});
        EXPECT_EQ(memory.bytes, size);
        const MemoryRegion from = a_.register_mr(size);
        fill(from, scattered ? 1 : 2);
        const vrdma_sge sge = from.sge();
        a_qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                        .flags = VRDMA_SQ_SIGNALED,
                        .sges = {&sge, 1},
                        .rkey = to.key,
                        .raddr = to.start});
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
        EXPECT_TRUE(same(from, to, size));
    }
}

hca::MrSpec one_page(Key key) {
    return {.key = key,
            .pd = Guest::pd,
            .start = 0,
            .length = page_size,
            .access_flags = IBV_ACCESS_LOCAL_WRITE,
            .dma = false,
            .fast_pages = 0,
            .pages = {.blocks = {Iova{page_size}}, .length = page_size}};
}

// Registers memory that has no second mapping at all; expects EAGAIN, after some time.
TEST_F(Offload, MappingAgainEndsSometime) {
    auto owned = FiledMemory::create();
    FiledMemory& memory = *owned;
    Guest c{*b_host_, "c", ipv4_gid(2), std::move(owned), {}, uplink};
    memory.refusals = UINT_MAX;
    EXPECT_EQ(c.slice().register_mr(one_page(Key{0x4711})).error(),
              std::errc::resource_unavailable_try_again);
    EXPECT_EQ(fake_.mrs(), 0u);
}

// The guest loses a page of a region. Expects the HCA to refuse it from then on, to the peer and to
// the guest itself, and another region to stay.
TEST_F(OffloadPair, RevokedMemoryLeavesTheHca) {
    const MemoryRegion other = b_.register_mr(page_size);
    EXPECT_EQ(fake_.mrs(), 3u);
    b_.slice().revoke(b_mr_.buffer.pages().blocks[3], 1);
    EXPECT_EQ(fake_.mrs(), 2u);
    const vrdma_sge sge = a_mr_.sge(0, 8);
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                     .flags = VRDMA_SQ_SIGNALED,
                     .sges = {&sge, 1},
                     .rkey = other.key,
                     .raddr = other.start});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(send(VRDMA_SQ_RDMA_WRITE, 8).status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_TRUE(b_.slice().deregister_mr(b_mr_.key));
    EXPECT_EQ(fake_.mrs(), 2u);
}

// The same on the side that sends.
TEST_F(OffloadPair, RevokedMemoryIsNotSent) {
    a_.slice().revoke(Iova{0}, UINT64_MAX / 2);
    EXPECT_EQ(send(VRDMA_SQ_RDMA_WRITE, 8).status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(state_of(a_, a_qp_), IBV_QPS_ERR);
}

// Page tables must know of what the HCA may have written, when the device is let go and when a
// region ends. Takes the pages away after they are registered; expects a fault for each page that
// may be written, and none for the others.
TEST_F(Offload, WritesOfTheHcaAreNoted) {
    constexpr std::uint64_t size = 8 * page_size;
    auto owned = std::make_unique<RevocableMemory>(1 << 24);
    RevocableMemory& memory = *owned;
    Guest c{*b_host_, "c", ipv4_gid(2), std::move(owned), {}, uplink};
    const MemoryRegion read =
        c.register_mr(size, {.access_flags = IBV_ACCESS_REMOTE_READ, .scattered = false});
    const MemoryRegion written = c.register_mr(size, {.scattered = false});
    for (const MemoryRegion* const region : {&read, &written}) {
        memory.revoke(region->buffer.pages().blocks[0], size);
    }
    c.slice().freeze();
    c.slice().let_go();
    EXPECT_EQ(memory.scratch_faults(), 8u);
    c.thaw();
    memory.revoke(written.buffer.pages().blocks[0], size);
    EXPECT_TRUE(c.slice().deregister_mr(written.key));
    EXPECT_TRUE(c.slice().deregister_mr(read.key));
    EXPECT_EQ(memory.scratch_faults(), 16u);
}

// Sends inline data; expects it to arrive, also if the HCA's WQEs have no room for any.
TEST_F(Offload, InlineDataNeedsNoRoomAtTheHca) {
    for (const std::uint32_t room : {256u, 0u}) {
        fake_.set_max_inline(room);
        GuestQp a_qp = a_.create_qp(a_cq_, a_cq_);
        GuestQp b_qp = b_.create_qp(b_cq_, b_cq_);
        connect_both(a_, a_qp, b_, b_qp);
        const MemoryRegion to = b_.register_mr(4096);
        const vrdma_sge sge = to.sge(0, 64);
        b_qp.post_recv({&sge, 1});
        const std::vector<std::byte> data(40, std::byte{0x42});
        a_qp.post_send({.flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE, .inline_data = data});
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
        EXPECT_EQ(wait(b_cq_).byte_len, 40u);
        EXPECT_TRUE(std::ranges::equal(data, std::span{to.buffer.at(0), 40}));
    }
}

// Fails a message in the way that the HCA reports, with two more behind it. Expects the same status
// for the first, flushes for the others, and a QP that has failed here and is reset there.
TEST_F(OffloadPair, ErrorsKeepTheirStatus) {
    fake_.fail_next(IBV_WC_RETRY_EXC_ERR);
    for (int i = 0; i < 3; ++i) {
        post(VRDMA_SQ_RDMA_WRITE, 8);
    }
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(state_of(a_, a_qp_), IBV_QPS_ERR);
    EXPECT_EQ(fake_.state_of(a_qp_.id().value), IBV_QPS_RESET);
    EXPECT_EQ(event_types(a_), std::vector<std::uint32_t>{}); // the completion has told
}

// Names a key that the peer does not have; expects the peer's refusal.
TEST_F(OffloadPair, WrongKeysOfPeersAreRefused) {
    EXPECT_EQ(send(VRDMA_SQ_RDMA_WRITE, 8, 0, Key{0x12345678}).status, IBV_WC_REM_ACCESS_ERR);
}

// Names a key that its own device does not have; expects an error before the HCA sees the message.
TEST_F(OffloadPair, WrongKeysOfOnesOwnNeverReachTheHca) {
    const std::uint64_t before = fake_.last_wr_id();
    vrdma_sge sge = a_mr_.sge(0, 8);
    sge.lkey = b_mr_.key.value; // the HCA has it, for another guest
    a_qp_.post_send({.sges = {&sge, 1}});
    const Completion completion = wait(a_cq_);
    EXPECT_EQ(completion.status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(completion.vendor_err, VRDMA_VERR_KEY);
    EXPECT_EQ(fake_.last_wr_id(), before);
}

// A region of another PD of the peer must give no access, as by the soft HCA.
TEST_F(OffloadPair, PdsAreApart) {
    const MemoryRegion other = b_.register_mr(4096, {.pd = PdId{2}});
    const vrdma_sge sge = a_mr_.sge(0, 8);
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                     .sges = {&sge, 1},
                     .rkey = other.key,
                     .raddr = other.start});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_REM_ACCESS_ERR);
}

// Receives into a WQE that is too short; expects the errors of both sides.
TEST_F(OffloadPair, ShortReceivesFail) {
    receive(50);
    EXPECT_EQ(send(VRDMA_SQ_SEND, 100).status, IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(state_of(b_, b_qp_), IBV_QPS_ERR);
}

// Moves a QP with receives at the HCA to ERR; expects each to be flushed once.
TEST_F(OffloadPair, ReceivesAreFlushed) {
    for (int i = 0; i < 3; ++i) {
        receive(100);
    }
    settle();
    EXPECT_TRUE(b_.slice().modify_qp(b_qp_.id(), state_attr(IBV_QPS_ERR)));
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(wait(b_cq_).status, IBV_WC_WR_FLUSH_ERR);
    }
    settle();
    EXPECT_FALSE(b_cq_.poll());
}

// Resets both QPs with work under way, and connects them again; expects a message to arrive, and
// nothing of before.
TEST_F(OffloadPair, ConnectsAgain) {
    post(VRDMA_SQ_SEND, 8); // waits for a receive
    settle();
    EXPECT_TRUE(a_.slice().modify_qp(a_qp_.id(), state_attr(IBV_QPS_RESET)));
    EXPECT_TRUE(b_.slice().modify_qp(b_qp_.id(), state_attr(IBV_QPS_RESET)));
    a_qp_.reset();
    b_qp_.reset();
    connect_both(a_, a_qp_, b_, b_qp_);
    receive(100);
    EXPECT_EQ(send(VRDMA_SQ_SEND, 100).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(b_cq_).byte_len, 100u);
    settle();
    EXPECT_FALSE(a_cq_.poll());
}

// Connects to a guest of the same host; expects a message by a copy, of which the HCA sees nothing.
TEST_F(Offload, GuestsOfOneHostDoWithoutTheHca) {
    fake_.add_gid(ipv4_gid(3));
    Guest c{*a_host_, "c", ipv4_gid(3), Guest::default_memory(), {}, uplink};
    GuestCq c_cq = c.create_cq();
    GuestQp a_qp = a_.create_qp(a_cq_, a_cq_);
    GuestQp c_qp = c.create_qp(c_cq, c_cq);
    connect_both(a_, a_qp, c, c_qp);
    const MemoryRegion from = a_.register_mr(4096);
    const MemoryRegion to = c.register_mr(4096);
    const vrdma_sge receive = to.sge();
    c_qp.post_recv({&receive, 1});
    const vrdma_sge sge = from.sge();
    a_qp.post_send({.sges = {&sge, 1}});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(c_cq).byte_len, 4096u);
    EXPECT_EQ(fake_.last_wr_id(), 0u);
}

// Two guests with one address, as programs behind one socket have it: each has the QPs that the HCA
// has numbered for it.
TEST_F(Offload, NumbersLeadToTheGuestThatHasThem) {
    Guest twin{*a_host_, "twin", ipv4_gid(1), Guest::default_memory(), {}, uplink};
    GuestCq twin_cq = twin.create_cq();
    GuestQp a_qp = a_.create_qp(a_cq_, a_cq_);
    GuestQp twin_qp = twin.create_qp(twin_cq, twin_cq);
    connect_both(a_, a_qp, twin, twin_qp);
    const MemoryRegion to = twin.register_mr(4096);
    const vrdma_sge receive = to.sge();
    twin_qp.post_recv({&receive, 1});
    a_qp.post_send({.flags = VRDMA_SQ_SIGNALED});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(wait(twin_cq).status, IBV_WC_SUCCESS);
}

// Connects a guest whose address the HCA does not have; expects ENODEV.
TEST_F(Offload, AddressesMustBeTheHcas) {
    Guest c{*a_host_, "c", ipv4_gid(3), Guest::default_memory(), {}, uplink};
    GuestCq cq = c.create_cq();
    GuestQp qp = c.create_qp(cq, cq);
    move_to_init(c, qp);
    const auto connected = c.slice().modify_qp(qp.id(), rtr_attr(ipv4_gid(2), Qpn{0x4711}));
    EXPECT_EQ(connected.error(), std::errc::no_such_device);
}

// Writes with immediate data between QPs of UC; expects the bytes, and the data in a receive.
TEST_F(Offload, UnreliableConnections) {
    GuestQp a_qp = a_.create_qp(a_cq_, a_cq_, {.type = hca::QpType::uc});
    GuestQp b_qp = b_.create_qp(b_cq_, b_cq_, {.type = hca::QpType::uc});
    connect_both(a_, a_qp, b_, b_qp);
    const MemoryRegion from = a_.register_mr(4096);
    const MemoryRegion to = b_.register_mr(4096);
    fill(from, 5);
    b_qp.post_recv({});
    const vrdma_sge sge = from.sge();
    a_qp.post_send({.opcode = VRDMA_SQ_RDMA_WRITE_WITH_IMM,
                    .imm = 0x11223344,
                    .sges = {&sge, 1},
                    .rkey = to.key,
                    .raddr = to.start});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    const Completion received = wait(b_cq_);
    EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(received.imm, 0x11223344u);
    EXPECT_TRUE(same(from, to, 4096));
}

// A device must not promise what the HCA does not have.
TEST_F(Offload, LimitsAreThoseOfTheHca) {
    const hca::HardwareLimits limits = a_.slice().hardware_limits();
    EXPECT_EQ(limits.max_sge, 32);
    EXPECT_EQ(limits.max_rd_atomic, 4);
    EXPECT_FALSE(limits.shares_receives);
}

// What the HCA does for its own programs and not for guests must be refused, and never seem to
// work.
TEST_F(Offload, RefusesWhatItDoesNotMediate) {
    constexpr auto refused = std::errc::operation_not_supported;
    hca::QpSpec qp;
    qp.pd = Guest::pd;
    qp.type = hca::QpType::xrc_send;
    EXPECT_EQ(a_.slice().name_qp(qp).error(), refused);
    qp.type = hca::QpType::rc;
    qp.srq = Srqn{7};
    EXPECT_EQ(a_.slice().name_qp(qp).error(), refused);
    EXPECT_EQ(a_.slice().allocate_mw({Key{0x4700}, Guest::pd, IBV_MW_TYPE_1}).error(), refused);
    hca::MrSpec mr;
    mr.key = a_.register_mr(4096).key;
    mr.pd = Guest::pd;
    EXPECT_EQ(a_.slice().reregister_mr(mr).error(), refused);
    mr.key = Key{0x4800};
    mr.length = 4096;
    mr.access_flags = IBV_ACCESS_ON_DEMAND;
    EXPECT_EQ(a_.slice().register_mr(mr).error(), refused);
}

// Reports completions of nothing, of another QP, of a place without a QP, and of work that is not
// the oldest. Expects only the QP of the last to fail.
TEST_F(OffloadPair, LiesOfTheHcaAreNotBelieved) {
    post(VRDMA_SQ_SEND, 8); // waits for a receive
    settle();
    ibv_wc wc{};
    wc.wr_id = UINT64_MAX;
    fake_.inject(wc);
    wc.wr_id = fake_.last_wr_id();
    wc.qp_num = 0x4711;
    fake_.inject(wc);
    wc.qp_num = a_qp_.id().value;
    wc.wr_id ^= std::uint64_t{1} << 17; // another generation
    fake_.inject(wc);
    settle();
    EXPECT_EQ(state_of(a_, a_qp_), IBV_QPS_RTS);
    wc.wr_id = fake_.last_wr_id() + 1;
    fake_.inject(wc);
    settle();
    EXPECT_EQ(state_of(a_, a_qp_), IBV_QPS_ERR);
    EXPECT_EQ(event_types(a_), std::vector<std::uint32_t>{IBV_EVENT_QP_FATAL});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_WR_FLUSH_ERR);
}

// A length that the receive cannot have, and a status that no guest knows.
TEST_F(OffloadPair, ImpossibleCompletionsFailTheQp) {
    fake_.fail_next(static_cast<ibv_wc_status>(31));
    EXPECT_EQ(send(VRDMA_SQ_RDMA_WRITE, 8).status, IBV_WC_GENERAL_ERR);
}

// The HCA ends to work; expects each connected QP to fail with an event, and its work to be
// flushed.
TEST_F(OffloadPair, LossOfTheHcaFailsWhatIsConnected) {
    receive(8);
    settle();
    fake_.break_down();
    settle();
    EXPECT_EQ(event_types(a_), std::vector<std::uint32_t>{IBV_EVENT_QP_FATAL});
    EXPECT_EQ(event_types(b_), std::vector<std::uint32_t>{IBV_EVENT_QP_FATAL});
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_WR_FLUSH_ERR);
}

// The HCA reports that a peer broke a rule; expects the same event.
TEST_F(OffloadPair, EventsOfTheHcaReachTheGuest) {
    b_host_->with_host_port(uplink,
                            [&](auto& port) { port.tell(IBV_EVENT_QP_ACCESS_ERR, b_qp_.id()); });
    EXPECT_EQ(event_types(b_), std::vector<std::uint32_t>{IBV_EVENT_QP_ACCESS_ERR});
    EXPECT_EQ(state_of(b_, b_qp_), IBV_QPS_ERR);
}

// A message arrives while its receiver is frozen for a while; expects its completion after that.
TEST_F(OffloadPair, CompletionsWaitForAThaw) {
    receive(100);
    settle();
    b_.slice().freeze();
    EXPECT_EQ(send(VRDMA_SQ_SEND, 100).status, IBV_WC_SUCCESS);
    settle();
    EXPECT_FALSE(b_cq_.poll());
    b_.thaw();
    EXPECT_EQ(wait(b_cq_).byte_len, 100u);
}

// The device moves; expects the HCA's QP to end, and the guest to learn that its connection is
// lost.
TEST_F(OffloadPair, ConnectionsDoNotMove) {
    receive(100);
    settle();
    b_.migrate(*a_host_);
    b_.thaw();
    EXPECT_EQ(event_types(b_), std::vector<std::uint32_t>{IBV_EVENT_QP_FATAL});
    EXPECT_EQ(wait(b_cq_).status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(fake_.state_of(b_qp_.id().value), std::nullopt);
    EXPECT_EQ(send(VRDMA_SQ_SEND, 8).status, IBV_WC_RETRY_EXC_ERR);
}

// Sends a datagram to a guest of another host; expects its bytes behind the header of 40 bytes.
TEST_F(Offload, Datagrams) {
    constexpr std::uint32_t qkey = 0x1234;
    GuestQp a_qp = a_.create_qp(a_cq_, a_cq_, {.type = hca::QpType::ud});
    GuestQp b_qp = b_.create_qp(b_cq_, b_cq_, {.type = hca::QpType::ud});
    activate_ud(a_, a_qp, qkey);
    activate_ud(b_, b_qp, qkey);
    const AhId ah = a_.create_ah(b_.gid());
    const MemoryRegion from = a_.register_mr(4096);
    const MemoryRegion to = b_.register_mr(4096);
    fill(from, 3);
    for (int round = 0; round < 100; ++round) { // more than there are places
        const vrdma_sge receive = to.sge();
        b_qp.post_recv({&receive, 1});
        const vrdma_sge sge = from.sge(0, 500);
        a_qp.post_send({.sges = {&sge, 1}, .ah = ah, .dest_qpn = b_qp.id(), .qkey = qkey});
        EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
        const Completion received = wait(b_cq_);
        EXPECT_EQ(received.byte_len, 540u);
        EXPECT_EQ(received.src_qpn, a_qp.id().value);
        EXPECT_EQ(std::memcmp(to.buffer.at(40), from.buffer.at(0), 500), 0);
    }
}

// Destroys all; expects nothing to be left at the HCA.
TEST_F(Offload, LeavesNothingBehind) {
    {
        Guest c{*a_host_, "c", ipv4_gid(1), Guest::default_memory(), {}, uplink};
        GuestCq cq = c.create_cq();
        GuestQp c_qp = c.create_qp(cq, cq);
        GuestQp b_qp = b_.create_qp(b_cq_, b_cq_);
        const MemoryRegion region = c.register_mr(1 << 16);
        connect_both(c, c_qp, b_, b_qp);
        EXPECT_EQ(fake_.qps(), 2u);
        EXPECT_EQ(fake_.mrs(), 1u);
        b_.slice().destroy_qp(b_qp.id());
    }
    EXPECT_EQ(fake_.qps(), 0u);
    EXPECT_EQ(fake_.mrs(), 0u);
    EXPECT_EQ(fake_.pds(), 0u);
}

} // namespace
} // namespace vrdma::test
