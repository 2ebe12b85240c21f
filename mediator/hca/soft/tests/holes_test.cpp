// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device whose memory has holes: each touch of one has a page made, while all others wait.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "mediator/hca/soft/soft_hca.h"
#include "mediator/memory/fault_guard.h"
#include "mediator/memory/file_holes.h"
#include "mediator/tests/guest/guest.h"

namespace vrdma::test {
namespace {

// A file of memory whose holes are filled, or are missing memory.
class HoleyMemory final : public GuestMemory, public FaultGuard::Filler {
  public:
    static constexpr std::uint64_t length = 1 << 30;
    static constexpr std::uint64_t page = FileHoles::page_size;

    static std::unique_ptr<HoleyMemory> create() {
        UniqueFd file{::memfd_create("holey", MFD_CLOEXEC)};
        EXPECT_EQ(::ftruncate(file.get(), length), 0);
        auto mapping = *Mapping::map(file.get(), 0, length, PROT_READ | PROT_WRITE);
        auto guard = *FaultGuard::create(mapping.data(), length);
        return std::unique_ptr<HoleyMemory>{
            new HoleyMemory{std::move(file), std::move(mapping), std::move(guard)}};
    }
    HoleyMemory(const HoleyMemory&) = delete;
    HoleyMemory& operator=(const HoleyMemory&) = delete;
    ~HoleyMemory() override { guard_.fill_by(nullptr); }

    void release(Iova iova, std::uint64_t size) noexcept override {
        std::byte* const begin = at(iova, size);
        guard_.scratch().take_away(begin, begin + size, [this](const ScratchPages::Page& scratch) {
            show(scratch.start, scratch.size());
            return true;
        });
    }

    bool fill(std::byte* address) noexcept override {
        const auto offset = reinterpret_cast<std::uintptr_t>(address) % page;
        return fills && holes_.make(address - offset) == 0;
    }

    bool fills = true;

  private:
    HoleyMemory(UniqueFd file, Mapping mapping, FaultGuard guard)
        : GuestMemory{mapping.data(), length, &guard.faults()},
          file_{std::move(file)},
          mapping_{std::move(mapping)},
          guard_{std::move(guard)} {
        show(mapping_.data(), length);
        guard_.fill_by(this);
    }
    void show(std::byte* start, std::uint64_t size) {
        EXPECT_NE(::mmap(start, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_.get(),
                         start - mapping_.data()),
                  MAP_FAILED);
        EXPECT_TRUE(holes_.watch(start, size));
    }

    UniqueFd file_;
    Mapping mapping_;
    FaultGuard guard_;
    FileHoles holes_ = *FileHoles::open();
};

class Holes : public ::testing::Test {
  protected:
    static constexpr std::uint64_t size = 1 << 20;
    static constexpr std::uint64_t page = HoleyMemory::page;

    Holes() { connect_both(guest_, from_, guest_, to_); }

    static std::unique_ptr<hca::soft::SoftHca> make_hca() {
        hca::soft::Config config;
        config.threads = false;
        return std::move(*hca::soft::SoftHca::create(config));
    }
    // From one page of the region to another: none has been touched before.
    void write(std::uint64_t from, std::uint64_t to, std::uint32_t bytes) {
        const vrdma_sge sge = region_.sge(from, bytes);
        from_.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                         .flags = VRDMA_SQ_SIGNALED,
                         .sges = {&sge, 1},
                         .rkey = region_.key,
                         .raddr = region_.start + to});
    }
    // How many holes a round met.
    std::uint64_t round() {
        const std::uint64_t before = FaultGuard::met();
        hca_->poll();
        return FaultGuard::met() - before;
    }
    // In all rounds until so many have completed; returns the most of one round.
    std::uint64_t most_in_a_round(unsigned completions) {
        std::uint64_t most = 0;
        for (int rounds = 0; completions > 0 && rounds < 100000; ++rounds) {
            most = std::max(most, round());
            for (; cq_.ready(); --completions) {
                EXPECT_EQ(cq_.poll()->status, IBV_WC_SUCCESS);
            }
        }
        EXPECT_EQ(completions, 0u);
        return most;
    }

    std::unique_ptr<hca::soft::SoftHca> hca_ = make_hca();
    std::unique_ptr<HoleyMemory> made_ = HoleyMemory::create();
    HoleyMemory& memory_ = *made_;
    Guest guest_{*hca_, "holey", ipv4_gid(1), std::move(made_)};
    Guest other_{*hca_, "other", ipv4_gid(2)};
    GuestCq cq_ = guest_.create_cq(64);
    GuestQp from_ = guest_.create_qp(cq_, cq_, {.sq_depth = 64});
    GuestQp to_ = guest_.create_qp(cq_, cq_);
    MemoryRegion region_ = guest_.register_mr(size, {.scattered = false});
};

// 32 messages of a page, each from a hole to a hole; expect a round to fill two at most, as whoever
// comes next waits for that.
TEST_F(Holes, ARoundFillsFew) {
    for (std::uint64_t i = 0; i < 32; ++i) {
        write(i * page, size / 2 + i * page, page);
    }
    EXPECT_LE(most_in_a_round(32), 2u);
}

// A message of 512 KiB from holes to holes; expect its first piece to be as long as any, and then
// two in a round.
TEST_F(Holes, ALongMessageGoesOnByThePage) {
    write(0, size / 2, size / 2);
    EXPECT_GT(round(), 2u);
    EXPECT_LE(most_in_a_round(1), 2u);
}

// After some holes one that may not be filled, at the sender; expect the message to fail, as if
// nobody had looked before.
TEST_F(Holes, MissingMemoryIsToldAllTheSame) {
    write(0, size / 2, page);
    most_in_a_round(1);
    GuestQp sender = guest_.create_qp(cq_, cq_);
    GuestCq cq = other_.create_cq(64);
    const GuestQp receiver = other_.create_qp(cq, cq);
    connect_both(guest_, sender, other_, receiver);
    const MemoryRegion target = other_.register_mr(page);
    memory_.fills = false;
    const vrdma_sge sge = region_.sge(page, page);
    sender.post_send({.opcode = VRDMA_SQ_RDMA_WRITE,
                      .sges = {&sge, 1},
                      .rkey = target.key,
                      .raddr = target.start});
    for (int rounds = 0; !cq_.ready() && rounds < 1000; ++rounds) {
        hca_->poll();
    }
    ASSERT_TRUE(cq_.ready());
    EXPECT_EQ(cq_.poll()->status, IBV_WC_LOC_PROT_ERR);
}

} // namespace
} // namespace vrdma::test
