// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Windows, fast registration and invalidation: the state of keys afterwards, and the errors of both
// sides.
#include "mediator/hca/soft/tests/two_guests.h"

namespace vrdma::test {
namespace {

constexpr std::uint32_t window_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr std::uint32_t bindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;

// The same key with another tag, which its owner may choose.
Key retag(Key key, std::uint8_t tag) {
    return Key{(key.value & ~VRDMA_KEY_TAG) | tag};
}

class MemoryKeys : public ConnectedPair {
  protected:
    // Side b has the memory, and side a accesses it.
    vrdma_sq_bind all_of(const MemoryRegion& region, std::uint32_t access = window_access) {
        return {region.start, region.buffer.size(), region.key.value, access};
    }

    Completion bind(Key key, const vrdma_sq_bind& what) {
        b_qp_.post_send({.opcode = VRDMA_SQ_BIND_MW, .rkey = key, .bind = &what});
        return wait(b_cq_);
    }

    Completion invalidate(Key key) {
        b_qp_.post_send({.opcode = VRDMA_SQ_LOCAL_INV, .rkey = key});
        return wait(b_cq_);
    }

    // Side a writes 8 bytes to the address.
    ibv_wc_status write(Key key, std::uint64_t address, GuestQp& from) {
        const auto word = Buffer::pattern(7, 8);
        from.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                        .flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                        .inline_data = word,
                        .rkey = key,
                        .raddr = address});
        return wait(a_cq_).status;
    }
    ibv_wc_status write(Key key, std::uint64_t address) { return write(key, address, a_qp_); }

    void expect_bind_error(const Completion& failed, vrdma_vendor_err reason) {
        EXPECT_EQ(failed.status, IBV_WC_MW_BIND_ERR);
        EXPECT_EQ(failed.vendor_err, static_cast<std::uint32_t>(reason));
        settle();
        EXPECT_EQ(state_of(b_, b_qp_), IBV_QPS_ERR);
        EXPECT_EQ(state_of(a_, a_qp_), IBV_QPS_RTS);
    }

    MemoryRegion region_ =
        b_.register_mr(std::uint64_t{3} * VRDMA_PAGE_SIZE, {.access_flags = bindable});
};

// Bind a window of each type to the middle of a region; expect writes inside the window to arrive.
// The region itself, the window's old key and the bytes beside the window must not be accessible.
TEST_F(MemoryKeys, AWindowShowsWhatIsBound) {
    for (const std::uint32_t type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
        const Key old = b_.allocate_mw(type);
        const Key key = retag(old, 9);
        vrdma_sq_bind middle = all_of(region_);
        middle.addr += 100;
        middle.length = VRDMA_PAGE_SIZE;
        const Completion bound = bind(key, middle);
        ASSERT_EQ(bound.status, IBV_WC_SUCCESS);
        EXPECT_EQ(bound.opcode, IBV_WC_BIND_MW);
        EXPECT_EQ(write(key, middle.addr + VRDMA_PAGE_SIZE - 8), IBV_WC_SUCCESS);
        EXPECT_EQ(region_.buffer.read(100 + VRDMA_PAGE_SIZE - 8, 8), Buffer::pattern(7, 8));
        for (const auto& [refused, address] : {std::pair{old, middle.addr},
                                               {key, middle.addr - 1},
                                               {retag(key, 10), middle.addr},
                                               {key, middle.addr + VRDMA_PAGE_SIZE - 7},
                                               {region_.key, middle.addr}}) {
            GuestQp from = a_.create_qp(a_cq_, a_cq_);
            GuestQp to = b_.create_qp(b_cq_, b_cq_);
            connect_pair(from, to);
            EXPECT_EQ(write(refused, address, from), IBV_WC_REM_ACCESS_ERR);
        }
    }
}

// Use a type 2 window through another QP of its PD; expect a refusal. One of type 1 can be used.
TEST_F(MemoryKeys, AType2WindowBelongsToItsQp) {
    GuestQp from = a_.create_qp(a_cq_, a_cq_);
    GuestQp to = b_.create_qp(b_cq_, b_cq_);
    connect_pair(from, to);
    const Key one = b_.allocate_mw(IBV_MW_TYPE_1);
    ASSERT_EQ(bind(one, all_of(region_)).status, IBV_WC_SUCCESS);
    EXPECT_EQ(write(one, region_.start, from), IBV_WC_SUCCESS);
    const Key two = b_.allocate_mw(IBV_MW_TYPE_2);
    ASSERT_EQ(bind(two, all_of(region_)).status, IBV_WC_SUCCESS);
    EXPECT_EQ(write(two, region_.start), IBV_WC_SUCCESS);
    EXPECT_EQ(write(two, region_.start, from), IBV_WC_REM_ACCESS_ERR);
}

// Use the key of a window as an lkey; expect LOC_PROT_ERR, because a window grants its owner no
// local access.
TEST_F(MemoryKeys, AWindowHasNoLkey) {
    const Key key = b_.allocate_mw(IBV_MW_TYPE_1);
    ASSERT_EQ(bind(key, all_of(region_)).status, IBV_WC_SUCCESS);
    const vrdma_sge sge{region_.start, 8, key.value};
    b_qp_.post_send({.sges = {&sge, 1}});
    const Completion failed = wait(b_cq_);
    EXPECT_EQ(failed.status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(failed.vendor_err, VRDMA_VERR_ACCESS);
}

// A zero-based window; expect addresses to count from its first byte.
TEST_F(MemoryKeys, ZeroBasedWindows) {
    const Key key = b_.allocate_mw(IBV_MW_TYPE_2);
    vrdma_sq_bind what = all_of(region_, window_access | IBV_ACCESS_ZERO_BASED);
    what.addr += 16;
    what.length -= 16;
    ASSERT_EQ(bind(key, what).status, IBV_WC_SUCCESS);
    EXPECT_EQ(write(key, 0), IBV_WC_SUCCESS);
    EXPECT_EQ(region_.buffer.read(16, 8), Buffer::pattern(7, 8));
    EXPECT_EQ(write(key, region_.start + 16), IBV_WC_REM_ACCESS_ERR);
}

// Bind a type 1 window again, and to nothing; expect each bind to end the one before.
TEST_F(MemoryKeys, AType1WindowMoves) {
    const MemoryRegion other = b_.register_mr(VRDMA_PAGE_SIZE, {.access_flags = bindable});
    const Key first = b_.allocate_mw(IBV_MW_TYPE_1);
    ASSERT_EQ(bind(first, all_of(region_)).status, IBV_WC_SUCCESS);
    EXPECT_EQ(b_.slice().deregister_mr(region_.key).error(), std::errc::device_or_resource_busy);
    const Key second = retag(first, static_cast<std::uint8_t>(first.value + 1));
    ASSERT_EQ(bind(second, all_of(other)).status, IBV_WC_SUCCESS);
    EXPECT_TRUE(b_.slice().deregister_mr(region_.key));
    EXPECT_EQ(write(second, other.start), IBV_WC_SUCCESS);
    ASSERT_EQ(bind(second, {}).status, IBV_WC_SUCCESS);
    EXPECT_TRUE(b_.slice().deregister_mr(other.key));
    EXPECT_EQ(write(second, other.start), IBV_WC_REM_ACCESS_ERR);
}

struct BindCase {
    const char* name;
    std::uint32_t type;
    std::uint32_t region_access;
    PdId region_pd;
    PdId window_pd;
    std::int64_t offset;
    std::uint64_t length;
    std::uint32_t access;
    vrdma_vendor_err reason;
};

class BindRules : public MemoryKeys, public ::testing::WithParamInterface<BindCase> {};

// A bind against one rule; expect MW_BIND_ERR with the reason and a QP in error.
TEST_P(BindRules, AreKept) {
    const BindCase& bad = GetParam();
    const MemoryRegion region =
        b_.register_mr(VRDMA_PAGE_SIZE, {.pd = bad.region_pd, .access_flags = bad.region_access});
    const Key key = b_.allocate_mw(bad.type, bad.window_pd);
    expect_bind_error(bind(key, {region.start + static_cast<std::uint64_t>(bad.offset), bad.length,
                                 region.key.value, bad.access}),
                      bad.reason);
}

constexpr std::uint32_t type_1 = IBV_MW_TYPE_1;
constexpr std::uint32_t type_2 = IBV_MW_TYPE_2;
constexpr std::uint32_t read_only = IBV_ACCESS_REMOTE_READ;
constexpr std::uint32_t zero_based = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED;
constexpr PdId pd = Guest::pd;
constexpr PdId foreign{2};

INSTANTIATE_TEST_SUITE_P(
    All, BindRules,
    ::testing::Values(
        BindCase{"NoBindRight", type_2, all_access, pd, pd, 0, 8, read_only, VRDMA_VERR_ACCESS},
        BindCase{"NoLocalWrite", type_2, IBV_ACCESS_MW_BIND, pd, pd, 0, 8, window_access,
                 VRDMA_VERR_ACCESS},
        BindCase{"RegionPd", type_2, bindable, foreign, pd, 0, 8, read_only, VRDMA_VERR_PD},
        BindCase{"WindowPd", type_2, bindable, pd, foreign, 0, 8, read_only, VRDMA_VERR_PD},
        BindCase{"Before", type_1, bindable, pd, pd, -1, 8, read_only, VRDMA_VERR_BOUNDS},
        BindCase{"Behind", type_1, bindable, pd, pd, 1, 4096, read_only, VRDMA_VERR_BOUNDS},
        BindCase{"Endless", type_1, bindable, pd, pd, 1, ~0ull, read_only, VRDMA_VERR_BOUNDS},
        BindCase{"Type2OfNothing", type_2, bindable, pd, pd, 0, 0, read_only, VRDMA_VERR_LENGTH},
        BindCase{"ZeroBasedType1", type_1, bindable, pd, pd, 0, 8, zero_based, VRDMA_VERR_ACCESS}),
    [](const auto& info) { return std::string{info.param.name}; });

// A key that names nothing, a region instead of a window, a window instead of a region; expect
// MW_BIND_ERR, key.
TEST_F(MemoryKeys, BindsNeedAWindowAndARegion) {
    const Key window = b_.allocate_mw(IBV_MW_TYPE_1);
    const vrdma_sq_bind onto_itself{region_.start, 8, window.value, 0};
    for (const auto& [key, what] : {std::pair{Key{0x77777777}, all_of(region_)},
                                    {region_.key, all_of(region_)},
                                    {window, onto_itself}}) {
        GuestQp from = b_.create_qp(b_cq_, b_cq_);
        connect(b_, from, a_.gid(), a_qp_.id());
        from.post_send({.opcode = VRDMA_SQ_BIND_MW, .rkey = key, .bind = &what});
        const Completion failed = wait(b_cq_);
        EXPECT_EQ(failed.status, IBV_WC_MW_BIND_ERR);
        EXPECT_EQ(failed.vendor_err, VRDMA_VERR_KEY);
    }
}

// Bind a type 2 window twice; expect the second bind to fail until the window is invalidated.
TEST_F(MemoryKeys, AType2WindowIsBoundOnce) {
    const Key key = b_.allocate_mw(IBV_MW_TYPE_2);
    ASSERT_EQ(bind(key, all_of(region_)).status, IBV_WC_SUCCESS);
    const Completion ended = invalidate(key);
    EXPECT_EQ(ended.status, IBV_WC_SUCCESS);
    EXPECT_EQ(ended.opcode, IBV_WC_LOCAL_INV);
    ASSERT_EQ(bind(retag(key, 1), all_of(region_)).status, IBV_WC_SUCCESS);
    expect_bind_error(bind(retag(key, 2), all_of(region_)), VRDMA_VERR_KEY_STATE);
}

// Invalidate keys that do not allow it: a region, a type 1 window, an unbound window, another tag,
// a region of another PD; expect MW_BIND_ERR, and the type 1 window to stay valid.
TEST_F(MemoryKeys, InvalidationHasRules) {
    const Key one = b_.allocate_mw(IBV_MW_TYPE_1);
    ASSERT_EQ(bind(one, all_of(region_)).status, IBV_WC_SUCCESS);
    const Key two = b_.allocate_mw(IBV_MW_TYPE_2);
    const Key alien = b_.allocate_mr(1, PdId{2});
    for (const auto& [key, reason] : {std::pair{region_.key, VRDMA_VERR_ACCESS},
                                      {one, VRDMA_VERR_ACCESS},
                                      {two, VRDMA_VERR_KEY_STATE},
                                      {retag(two, 0), VRDMA_VERR_KEY},
                                      {alien, VRDMA_VERR_PD}}) {
        GuestQp from = b_.create_qp(b_cq_, b_cq_);
        connect(b_, from, a_.gid(), a_qp_.id());
        from.post_send({.opcode = VRDMA_SQ_LOCAL_INV, .rkey = key});
        const Completion failed = wait(b_cq_);
        EXPECT_EQ(failed.status, IBV_WC_MW_BIND_ERR);
        EXPECT_EQ(failed.vendor_err, static_cast<std::uint32_t>(reason));
    }
    EXPECT_EQ(write(one, region_.start), IBV_WC_SUCCESS);
}

// The peer invalidates a window by a SEND; expect its key in the receiver's completion, and the
// window to be unbound.
TEST_F(MemoryKeys, SendWithInvalidate) {
    const Key key = b_.allocate_mw(IBV_MW_TYPE_2);
    ASSERT_EQ(bind(key, all_of(region_)).status, IBV_WC_SUCCESS);
    b_qp_.post_recv({});
    a_qp_.post_send({.opcode = VRDMA_SQ_SEND_WITH_INV, .rkey = key});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    const Completion received = wait(b_cq_);
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.opcode, IBV_WC_RECV);
    EXPECT_TRUE(received.with_inv);
    EXPECT_FALSE(received.with_imm);
    EXPECT_EQ(received.imm, key.value);
    EXPECT_TRUE(b_.slice().deregister_mr(region_.key));
    EXPECT_EQ(write(key, region_.start), IBV_WC_REM_ACCESS_ERR);
}

// A SEND that would invalidate a key that does not allow it; expect REM_ACCESS_ERR at the sender,
// an error of the receive at the receiver, and both QPs in error.
TEST_F(MemoryKeys, SendWithInvalidateOfAnothersKey) {
    b_qp_.post_recv({});
    a_qp_.post_send({.opcode = VRDMA_SQ_SEND_WITH_INV, .rkey = region_.key});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_REM_ACCESS_ERR);
    const Completion received = wait(b_cq_);
    EXPECT_EQ(received.status, IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(received.vendor_err, VRDMA_VERR_ACCESS);
    settle();
    EXPECT_EQ(state_of(a_, a_qp_), IBV_QPS_ERR);
    EXPECT_EQ(state_of(b_, b_qp_), IBV_QPS_ERR);
}

// Reset, or destroy, the QP of a type 2 window; expect the window's region to be unused.
TEST_F(MemoryKeys, WindowsFallWithTheirQp) {
    const Key key = b_.allocate_mw(IBV_MW_TYPE_2);
    ASSERT_EQ(bind(key, all_of(region_)).status, IBV_WC_SUCCESS);
    ASSERT_TRUE(b_.slice().modify_qp(b_qp_.id(), state_attr(IBV_QPS_RESET)));
    b_qp_.reset();
    connect(b_, b_qp_, a_.gid(), a_qp_.id());
    ASSERT_EQ(bind(key, all_of(region_)).status, IBV_WC_SUCCESS);
    EXPECT_FALSE(b_.slice().deregister_mr(region_.key));
    b_.slice().destroy_qp(b_qp_.id());
    EXPECT_TRUE(b_.slice().deregister_mr(region_.key));
}

// Free a bound window; expect its key to be unknown and its region to be unused.
TEST_F(MemoryKeys, FreedWindows) {
    for (const std::uint32_t type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
        const Key key = b_.allocate_mw(type);
        ASSERT_EQ(bind(key, all_of(region_)).status, IBV_WC_SUCCESS);
        b_.slice().deallocate_mw(key);
    }
    EXPECT_TRUE(b_.slice().deregister_mr(region_.key));
}

// Migrate a device with windows of both types; expect them to work, and to keep their region in
// use.
TEST_F(MemoryKeys, WindowsMigrate) {
    const Key one = retag(b_.allocate_mw(IBV_MW_TYPE_1), 0x11);
    const Key two = retag(b_.allocate_mw(IBV_MW_TYPE_2), 0x22);
    ASSERT_EQ(bind(one, all_of(region_)).status, IBV_WC_SUCCESS);
    ASSERT_EQ(bind(two, all_of(region_, window_access | IBV_ACCESS_ZERO_BASED)).status,
              IBV_WC_SUCCESS);
    b_.migrate(host_of(b_));
    EXPECT_EQ(write(one, region_.start), IBV_WC_SUCCESS);
    EXPECT_EQ(write(two, 8), IBV_WC_SUCCESS);
    EXPECT_FALSE(b_.slice().deregister_mr(region_.key));
    EXPECT_EQ(invalidate(two).status, IBV_WC_SUCCESS);
}

// Restore states of windows that no bind can produce; expect them to be refused.
TEST_F(MemoryKeys, RestoredWindowsKeepTheRules) {
    const Key key = b_.allocate_mw(IBV_MW_TYPE_2);
    const hca::MwState good{.key = key.value,
                            .bound = 1,
                            .region = region_.key.value,
                            .owner = b_qp_.id().value,
                            .access_flags = read_only,
                            .address = region_.start,
                            .length = 8};
    const auto refuses = [&](auto&& change) {
        hca::MwState state = good;
        change(state);
        return !b_.slice().restore_mw(key, state);
    };
    EXPECT_TRUE(refuses([](auto& state) { state.key ^= 0x100; }));
    EXPECT_TRUE(refuses([](auto& state) { state.bound = 2; }));
    EXPECT_TRUE(refuses([](auto& state) { state.region ^= 1; }));
    EXPECT_TRUE(refuses([](auto& state) { state.owner = 0; }));
    EXPECT_TRUE(refuses([](auto& state) { state.owner = 999; }));
    EXPECT_TRUE(refuses([](auto& state) { state.length = 0; }));
    EXPECT_TRUE(refuses([](auto& state) { state.length = 1 << 20; }));
    EXPECT_TRUE(b_.slice().restore_mw(key, good));
}

// Regions without memory, which get some by the guest kernel's QP on doorbell page 0.
class FastRegistration : public MemoryKeys {
  protected:
    FastRegistration() { connect_pair(peer_, kernel_); }

    // A list page with the blocks of a buffer.
    vrdma_sq_reg list_of(const Buffer& buffer, std::uint32_t access = all_access) {
        const Buffer list = b_.pages().allocate(VRDMA_PAGE_SIZE);
        const auto& blocks = buffer.pages().blocks;
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            *list.at<std::uint64_t>(i * sizeof(std::uint64_t)) = raw(blocks[i]);
        }
        vrdma_sq_reg reg{};
        reg.pages.root = raw(list.pages().blocks.front());
        reg.pages.count = static_cast<std::uint32_t>(blocks.size());
        reg.pages.page_shift = VRDMA_PAGE_SHIFT;
        reg.pages.levels = 1;
        reg.start = 0x5000;
        reg.length = buffer.size();
        reg.access_flags = access;
        return reg;
    }

    Completion register_fast(Key key, const vrdma_sq_reg& reg) {
        kernel_.post_send({.opcode = VRDMA_SQ_REG_MR, .rkey = key, .reg = &reg});
        return wait(b_cq_);
    }

    GuestQp peer_ = a_.create_qp(a_cq_, a_cq_);
    GuestQp kernel_ = b_.create_qp(b_cq_, b_cq_, {}, 0);
    Buffer memory_ = b_.pages().allocate(std::uint64_t{4} * VRDMA_PAGE_SIZE);
    Key key_ = b_.allocate_mr(4);
};

// Register, write there, invalidate, register other pages; expect each key to have its memory, and
// the old keys to be unknown.
TEST_F(FastRegistration, GivesMemory) {
    const Key first = retag(key_, 1);
    const Completion registered = register_fast(first, list_of(memory_));
    ASSERT_EQ(registered.status, IBV_WC_SUCCESS);
    EXPECT_EQ(registered.opcode, static_cast<ibv_wc_opcode>(VRDMA_CQE_REG_MR));
    EXPECT_EQ(write(first, 0x5000 + 3 * VRDMA_PAGE_SIZE - 4, peer_), IBV_WC_SUCCESS);
    EXPECT_EQ(memory_.read(3 * VRDMA_PAGE_SIZE - 4, 8), Buffer::pattern(7, 8));
    kernel_.post_send({.opcode = VRDMA_SQ_LOCAL_INV, .rkey = first});
    ASSERT_EQ(wait(b_cq_).status, IBV_WC_SUCCESS);
    const Buffer other = b_.pages().allocate(VRDMA_PAGE_SIZE);
    const Key second = retag(key_, 2);
    ASSERT_EQ(register_fast(second, list_of(other)).status, IBV_WC_SUCCESS);
    EXPECT_EQ(write(second, 0x5000, peer_), IBV_WC_SUCCESS);
    EXPECT_EQ(other.read(0, 8), Buffer::pattern(7, 8));
    EXPECT_EQ(write(first, 0x5000, peer_), IBV_WC_REM_ACCESS_ERR);
}

// Contiguous pages need no list.
TEST_F(FastRegistration, TakesARun) {
    const Buffer run = b_.pages().allocate(std::uint64_t{2} * VRDMA_PAGE_SIZE, false);
    vrdma_sq_reg reg = list_of(run);
    reg.pages.root = raw(run.pages().blocks.front());
    reg.pages.levels = 0;
    ASSERT_EQ(register_fast(key_, reg).status, IBV_WC_SUCCESS);
    EXPECT_EQ(write(key_, 0x5000 + VRDMA_PAGE_SIZE - 4, peer_), IBV_WC_SUCCESS);
    EXPECT_EQ(run.read(VRDMA_PAGE_SIZE - 4, 8), Buffer::pattern(7, 8));
}

// A region whose first byte, within a page, is at address 0 (IBA 10.6.3.4); expect access there,
// and no window to the region.
TEST_F(FastRegistration, BeginsAtZero) {
    vrdma_sq_reg reg = list_of(memory_, all_access | bindable | IBV_ACCESS_ZERO_BASED);
    reg.start = 0;
    reg.first_offset = 0x100;
    reg.length -= 0x100;
    ASSERT_EQ(register_fast(key_, reg).status, IBV_WC_SUCCESS);
    EXPECT_EQ(write(key_, 8, peer_), IBV_WC_SUCCESS);
    EXPECT_EQ(memory_.read(0x108, 8), Buffer::pattern(7, 8));
    const Key window = b_.allocate_mw(IBV_MW_TYPE_1);
    expect_bind_error(bind(window, {0, 8, key_.value, read_only}), VRDMA_VERR_ACCESS);
}

// Lists and keys with one error each; expect MW_BIND_ERR with the reason.
TEST_F(FastRegistration, RefusesWhatIsWrong) {
    const auto expect_refused = [&](vrdma_vendor_err reason, auto&& change) {
        GuestQp from = b_.create_qp(b_cq_, b_cq_, {}, 0);
        connect(b_, from, a_.gid(), a_qp_.id());
        Key key = key_;
        vrdma_sq_reg reg = list_of(memory_);
        change(key, reg);
        from.post_send({.opcode = VRDMA_SQ_REG_MR, .rkey = key, .reg = &reg});
        const Completion failed = wait(b_cq_);
        EXPECT_EQ(failed.status, IBV_WC_MW_BIND_ERR);
        EXPECT_EQ(failed.vendor_err, static_cast<std::uint32_t>(reason));
    };
    const auto first_block = [&](const vrdma_sq_reg& reg) -> std::uint64_t& {
        return *reinterpret_cast<std::uint64_t*>(b_.memory().at(Iova{reg.pages.root}, 8));
    };
    expect_refused(VRDMA_VERR_KEY, [&](Key& key, auto&) { key = region_.key; });
    expect_refused(VRDMA_VERR_KEY, [](Key& key, auto&) { key.value ^= 0x40000000; });
    expect_refused(VRDMA_VERR_PD, [&](Key& key, auto&) { key = b_.allocate_mr(4, PdId{2}); });
    expect_refused(VRDMA_VERR_ACCESS,
                   [](auto&, auto& reg) { reg.access_flags = IBV_ACCESS_REMOTE_WRITE; });
    expect_refused(VRDMA_VERR_LENGTH, [](auto&, auto& reg) { reg.length = 0; });
    expect_refused(VRDMA_VERR_LENGTH, [](auto&, auto& reg) { reg.start = ~0ull; });
    expect_refused(VRDMA_VERR_LENGTH,
                   [](auto&, auto& reg) { reg.access_flags |= IBV_ACCESS_ZERO_BASED; });
    constexpr auto list = VRDMA_VERR_PAGE_LIST;
    expect_refused(list, [](auto&, auto& reg) { reg.length += 1; });
    expect_refused(list, [](auto&, auto& reg) { reg.first_offset = VRDMA_PAGE_SIZE; });
    expect_refused(list, [](auto&, auto& reg) { reg.pages.count = 5; });
    expect_refused(list, [](auto&, auto& reg) { reg.pages.count = 0; });
    expect_refused(list, [](auto&, auto& reg) { reg.pages.count = ~0u; });
    expect_refused(list, [](auto&, auto& reg) { reg.pages.levels = 2; });
    expect_refused(list, [](auto&, auto& reg) { reg.pages.page_shift = 11; });
    expect_refused(list, [](auto&, auto& reg) { reg.pages.page_shift = 63; });
    expect_refused(list, [](auto&, auto& reg) { reg.pages.root += 8; });
    expect_refused(list, [](auto&, auto& reg) { reg.pages.root = 1ull << 50; });
    expect_refused(list, [&](auto&, auto& reg) { first_block(reg) += 8; });
    expect_refused(list, [&](auto&, auto& reg) { first_block(reg) = 1ull << 50; });
    EXPECT_EQ(register_fast(key_, list_of(memory_)).status, IBV_WC_SUCCESS);
}

// Register twice; expect the second to fail until the first is invalidated.
TEST_F(FastRegistration, OneAtATime) {
    ASSERT_EQ(register_fast(key_, list_of(memory_)).status, IBV_WC_SUCCESS);
    const Completion failed = register_fast(retag(key_, 3), list_of(memory_));
    EXPECT_EQ(failed.status, IBV_WC_MW_BIND_ERR);
    EXPECT_EQ(failed.vendor_err, VRDMA_VERR_KEY_STATE);
}

// Invalidate a region while a window is bound to it; expect a refusal.
TEST_F(FastRegistration, WindowsHoldIt) {
    ASSERT_EQ(register_fast(key_, list_of(memory_, bindable)).status, IBV_WC_SUCCESS);
    const Key window = b_.allocate_mw(IBV_MW_TYPE_1);
    ASSERT_EQ(bind(window, {0x5000, 8, key_.value, read_only}).status, IBV_WC_SUCCESS);
    expect_bind_error(invalidate(key_), VRDMA_VERR_KEY_STATE);
}

// A process may not name bus addresses.
TEST_F(FastRegistration, IsTheKernels) {
    const vrdma_sq_reg reg = list_of(memory_);
    b_qp_.post_send({.opcode = VRDMA_SQ_REG_MR, .rkey = key_, .reg = &reg});
    const Completion failed = wait(b_cq_);
    EXPECT_EQ(failed.status, IBV_WC_LOC_QP_OP_ERR);
    EXPECT_EQ(failed.vendor_err, VRDMA_VERR_OPCODE);
}

// Migrate a device; expect regions with and without memory to be as before.
TEST_F(FastRegistration, Migrates) {
    const Key idle = b_.allocate_mr(4);
    const Key key = retag(key_, 0x77);
    ASSERT_EQ(register_fast(key, list_of(memory_)).status, IBV_WC_SUCCESS);
    b_.migrate(host_of(b_));
    EXPECT_EQ(write(key, 0x5008, peer_), IBV_WC_SUCCESS);
    EXPECT_EQ(memory_.read(8, 8), Buffer::pattern(7, 8));
    EXPECT_EQ(register_fast(idle, list_of(memory_)).status, IBV_WC_SUCCESS);
}

// Write eight bytes atomically, inline and from memory; expect them to arrive, and other lengths,
// odd addresses and missing rights to be refused.
TEST_F(MemoryKeys, AtomicWrite) {
    const auto word = Buffer::pattern(5, 8);
    a_qp_.post_send({.opcode = VRDMA_SQ_ATOMIC_WRITE,
                     .flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                     .inline_data = word,
                     .rkey = b_mr_.key,
                     .raddr = b_mr_.start + 8});
    const Completion written = wait(a_cq_);
    EXPECT_EQ(written.status, IBV_WC_SUCCESS);
    EXPECT_EQ(written.opcode, IBV_WC_ATOMIC_WRITE);
    EXPECT_EQ(b_mr_.buffer.read(8, 8), word);
    a_mr_.buffer.fill(3);
    const vrdma_sge across = a_mr_.sge(VRDMA_PAGE_SIZE - 3, 8);
    a_qp_.post_send({.opcode = VRDMA_SQ_ATOMIC_WRITE,
                     .sges = {&across, 1},
                     .rkey = b_mr_.key,
                     .raddr = b_mr_.start});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(b_mr_.buffer.read(0, 8), a_mr_.buffer.read(VRDMA_PAGE_SIZE - 3, 8));
    const auto refused = [&](std::uint32_t length, std::uint64_t address, Key key) {
        GuestQp from = a_.create_qp(a_cq_, a_cq_);
        GuestQp to = b_.create_qp(b_cq_, b_cq_);
        connect_pair(from, to);
        const vrdma_sge sge = a_mr_.sge(0, length);
        from.post_send(
            {.opcode = VRDMA_SQ_ATOMIC_WRITE, .sges = {&sge, 1}, .rkey = key, .raddr = address});
        return wait(a_cq_).status;
    };
    EXPECT_EQ(refused(7, b_mr_.start, b_mr_.key), IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(refused(16, b_mr_.start, b_mr_.key), IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(refused(8, b_mr_.start + 4, b_mr_.key), IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(refused(8, region_.start, region_.key), IBV_WC_REM_ACCESS_ERR);
}

// Write eight bytes inline on a QP without room for inline data; expect them to arrive
// nevertheless.
TEST_F(MemoryKeys, AtomicWriteIsInlineEverywhere) {
    GuestQp from = a_.create_qp(a_cq_, a_cq_, {.max_inline = 0});
    GuestQp to = b_.create_qp(b_cq_, b_cq_);
    connect_pair(from, to);
    const auto word = Buffer::pattern(5, 8);
    from.post_send({.opcode = VRDMA_SQ_ATOMIC_WRITE,
                    .flags = VRDMA_SQ_SIGNALED | VRDMA_SQ_INLINE,
                    .inline_data = word,
                    .rkey = b_mr_.key,
                    .raddr = b_mr_.start});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(b_mr_.buffer.read(0, 8), word);
}

// Send from the null region and receive into it; expect zeros, and no change.
TEST_F(MemoryKeys, NullRegion) {
    b_mr_.buffer.fill(1);
    const vrdma_sge nothing{12345, 10000, VRDMA_NULL_LKEY};
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                     .sges = {&nothing, 1},
                     .rkey = b_mr_.key,
                     .raddr = b_mr_.start + 3});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(b_mr_.buffer.read(3, 10000), std::vector<std::byte>(10000));
    EXPECT_NE(b_mr_.buffer.read(0, 3), std::vector<std::byte>(3));
    a_qp_.post_send({.opcode = VRDMA_SQ_RDMA_READ,
                     .sges = {&nothing, 1},
                     .rkey = b_mr_.key,
                     .raddr = b_mr_.start});
    EXPECT_EQ(wait(a_cq_).status, IBV_WC_SUCCESS);
    EXPECT_EQ(write(Key{VRDMA_NULL_LKEY}, 0), IBV_WC_REM_ACCESS_ERR);
}

// Change a region's memory, rights and PD under its key; expect the old ones to be invalid at once.
TEST_F(MemoryKeys, Reregistration) {
    const Buffer other = b_.pages().allocate(VRDMA_PAGE_SIZE);
    hca::MrSpec spec;
    spec.key = b_mr_.key;
    spec.pd = Guest::pd;
    spec.start = 0x9000;
    spec.length = other.size();
    spec.access_flags = all_access;
    spec.pages = other.pages();
    EXPECT_EQ(write(b_mr_.key, b_mr_.start), IBV_WC_SUCCESS);
    ASSERT_TRUE(b_.slice().reregister_mr(spec));
    EXPECT_EQ(write(b_mr_.key, 0x9000), IBV_WC_SUCCESS);
    EXPECT_EQ(other.read(0, 8), Buffer::pattern(7, 8));
    spec.access_flags = bindable;
    ASSERT_TRUE(b_.slice().reregister_mr(spec));
    const Key window = b_.allocate_mw(IBV_MW_TYPE_1);
    ASSERT_EQ(bind(window, {0x9000, 8, b_mr_.key.value, read_only}).status, IBV_WC_SUCCESS);
    EXPECT_EQ(b_.slice().reregister_mr(spec).error(), std::errc::device_or_resource_busy);
    EXPECT_EQ(write(b_mr_.key, 0x9000), IBV_WC_REM_ACCESS_ERR);
}

} // namespace
} // namespace vrdma::test
