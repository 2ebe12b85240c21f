// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <thread>

#include "mediator/base/mapping.h"
#include "mediator/base/unique_fd.h"
#include "mediator/memory/fault_guard.h"

namespace vrdma {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t pages = 16;

class FaultGuardTest : public ::testing::Test {
  protected:
    FaultGuardTest() { EXPECT_EQ(::ftruncate(file_.get(), pages * page), 0); }

    volatile char& byte(std::size_t i) { return *memory_.as<volatile char>(i * page); }

    UniqueFd file_{::memfd_create("shared", MFD_CLOEXEC)};
    Mapping memory_ = *Mapping::map(file_.get(), 0, pages* page, PROT_READ | PROT_WRITE);
    FaultGuard guard_ = *FaultGuard::create(memory_.data(), memory_.size());
};

// Touch memory that is there; expect no fault to be counted.
TEST_F(FaultGuardTest, LeavesGoodAccessesAlone) {
    byte(3) = 'x';
    EXPECT_EQ(byte(3), 'x');
    EXPECT_EQ(guard_.faults(), 0u);
}

// Cut the file short; expect zeroes beyond its end, writes that stick, and one fault a page.
TEST_F(FaultGuardTest, AFileThatWasCutShowsScratchPages) {
    byte(15) = 'x';
    ASSERT_EQ(::ftruncate(file_.get(), 8 * page), 0);
    EXPECT_EQ(byte(15), 0);
    byte(15) = 'y';
    EXPECT_EQ(byte(15), 'y');
    byte(8) = 'z';
    EXPECT_EQ(guard_.faults(), 2u);
    byte(7) = 'w';
    EXPECT_EQ(guard_.faults(), 2u);
}

// Forbid access to a page; expect a scratch page there, and its neighbours to be as they were.
TEST_F(FaultGuardTest, AForbiddenPageShowsAScratchPage) {
    byte(4) = 'a';
    byte(5) = 'b';
    ASSERT_EQ(::mprotect(memory_.data() + 5 * page, page, PROT_NONE), 0);
    EXPECT_EQ(byte(5), 0);
    EXPECT_EQ(byte(4), 'a');
    EXPECT_EQ(guard_.faults(), 1u);
}

// Touch the same missing pages from several threads; expect all to go on.
TEST_F(FaultGuardTest, ThreadsFaultAtOnce) {
    ASSERT_EQ(::ftruncate(file_.get(), 0), 0);
    std::array<std::thread, 4> threads;
    for (auto& thread : threads) {
        thread = std::thread{[&] {
            for (std::size_t at = 0; at < pages; ++at) {
                EXPECT_EQ(byte(at), 0);
            }
        }};
    }
    for (auto& thread : threads) {
        thread.join();
    }
    EXPECT_GE(guard_.faults(), pages);
}

// Two guards; expect each to count its own faults, and the slot of one that is gone to be reused.
TEST_F(FaultGuardTest, GuardsDoNotMix) {
    UniqueFd file{::memfd_create("other", MFD_CLOEXEC)};
    const Mapping other = *Mapping::map(file.get(), 0, page, PROT_READ | PROT_WRITE);
    for (int round = 0; round < 2000; ++round) {
        auto guard = FaultGuard::create(other.data(), other.size());
        ASSERT_TRUE(guard);
        EXPECT_EQ(guard->faults(), 0u);
    }
    const auto guard = FaultGuard::create(other.data(), other.size());
    EXPECT_EQ(*other.as<volatile char>(), 0);
    EXPECT_EQ(guard->faults(), 1u);
    EXPECT_EQ(guard_.faults(), 0u);
}

// Touch nothing's memory outside any guard; expect the program to die of it as ever.
TEST_F(FaultGuardTest, OtherFaultsKill) {
    void* const nowhere = ::mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_DEATH(*static_cast<volatile char*>(nowhere) = 1, "");
}

} // namespace
} // namespace vrdma
