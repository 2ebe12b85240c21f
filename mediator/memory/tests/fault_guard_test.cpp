// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/memory/fault_guard.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <thread>

#include "mediator/base/event_fd.h"
#include "mediator/base/mapping.h"
#include "mediator/base/sanitized.h"
#include "mediator/base/unique_fd.h"
#include "mediator/memory/tests/mappings.h"

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

// Truncate the file; expect zeroes beyond its end, writes that stick, and one fault per page.
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

// Touch the same missing pages from several threads; expect all accesses to succeed.
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

// Blame a range from two threads at once; expect the sum of both costs.
TEST_F(FaultGuardTest, NoBlameIsLost) {
    constexpr int times = 20000;
    std::array<std::thread, 2> threads;
    for (auto& thread : threads) {
        thread = std::thread{[&] {
            for (int i = 0; i < times; ++i) {
                FaultGuard::blame(memory_.data() + page, std::chrono::nanoseconds{1});
            }
        }};
    }
    for (auto& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(guard_.take_cost(), std::chrono::nanoseconds{2 * times});
}

// A range without memory, between memory of other owners. Like a range that mmap() may return, it
// begins in the middle of a huge page.
class MissingMemoryTest : public ::testing::Test {
  protected:
    static constexpr std::uint64_t large = 1 << 21;
    static constexpr std::uint64_t size = 4 * large;

    MissingMemoryTest() {
        const auto address = reinterpret_cast<std::uintptr_t>(space_.data());
        auto* const aligned = space_.data() + (large - address % large) % large;
        base_ = aligned + large / 2;
        EXPECT_EQ(::mprotect(base_, size, PROT_NONE), 0);
        std::fill(aligned, base_, std::byte{0xaa});
        std::fill(base_ + size, base_ + size + large / 2, std::byte{0xaa});
        guard_.emplace(*FaultGuard::create(base_, size, alarm_.fd()));
    }

    // Leaves a page between every two, so that none of their mappings can be merged.
    void touch(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            *reinterpret_cast<volatile char*>(base_ + 2 * i * page) = 1;
        }
    }

    bool alarmed() const {
        eventfd_t count = 0;
        return ::eventfd_read(alarm_.fd(), &count) == 0;
    }

    std::ptrdiff_t spoilt() const {
        const auto other = [](const std::byte* from) {
            return large / 2 - std::count(from, from + large / 2, std::byte{0xaa});
        };
        return static_cast<std::ptrdiff_t>(other(base_ - large / 2) + other(base_ + size));
    }

    Mapping space_ = *Mapping::anonymous(8 * large);
    EventFd alarm_ = *EventFd::create();
    std::byte* base_ = nullptr;
    std::optional<FaultGuard> guard_;
};

// Touch as many missing pages as there is room for, and one more; expect no alarm before the last.
// Then expect one mapping in the place of all, in which all accesses succeed.
TEST_F(MissingMemoryTest, ARangeThatMissesTooMuchIsOneMapping) {
    touch(ScratchPages::room);
    EXPECT_FALSE(guard_->overwhelmed());
    EXPECT_FALSE(alarmed());
    touch(size / (2 * page));
    EXPECT_TRUE(guard_->overwhelmed());
    EXPECT_TRUE(alarmed());
    EXPECT_EQ(guard_->faults(), ScratchPages::room + 1);
    EXPECT_EQ(vrdma::test::mappings(base_, size), 1u);
    EXPECT_EQ(spoilt(), 0);
}

// Take away one of three scratch pages; expect a fault at that one, and at no other.
TEST_F(MissingMemoryTest, ScratchPagesAreTakenAwayOneByOne) {
    touch(3);
    int taken = 0;
    const auto uncover = [&](const ScratchPages::Page& scratch) {
        ++taken;
        return ::mprotect(scratch.start, scratch.size(), PROT_NONE) == 0;
    };
    guard_->scratch().take_away(base_ + 2 * page, base_ + 4 * page, uncover);
    EXPECT_EQ(taken, 1);
    guard_->scratch().take_away(base_ + 2 * page, base_ + 4 * page, uncover);
    EXPECT_EQ(taken, 1);
    touch(3);
    EXPECT_EQ(guard_->faults(), 4u);
}

// Touch and take away many times as many pages as there is room for; expect no alarm.
TEST_F(MissingMemoryTest, RoomIsFreedWithTheScratchPage) {
    for (std::size_t i = 0; i < 4 * ScratchPages::room; ++i) {
        touch(1);
        guard_->scratch().take_away(base_, base_ + size, [](const ScratchPages::Page& scratch) {
            return ::mprotect(scratch.start, scratch.size(), PROT_NONE) == 0;
        });
    }
    EXPECT_EQ(guard_->faults(), 4 * ScratchPages::room);
    EXPECT_FALSE(guard_->overwhelmed());
}

// Take all mappings that the process may have, then touch; expect the process to live, the
// neighbours to keep their bytes, and an alarm. This runs in a child, because the rest of a process
// needs mappings.
TEST_F(MissingMemoryTest, LivesWhereNoMappingIsToBeHad) {
    if constexpr (sanitized) {
        GTEST_SKIP() << "a sanitizer needs mappings of its own";
    }
    std::size_t limit = 0;
    std::ifstream{"/proc/sys/vm/max_map_count"} >> limit;
    const auto child = [&] {
        const std::size_t length = 2 * (limit + 1) * page;
        auto* const space = static_cast<char*>(
            ::mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        std::size_t at = 0; // until another mapping is refused
        while (::mprotect(space + at, page, PROT_READ) == 0) {
            at += 2 * page;
        }
        touch(8);
        ::munmap(space, length);
        ::_exit(spoilt() == 0 && alarmed() ? 0 : 1);
    };
    EXPECT_EXIT(child(), ::testing::ExitedWithCode(0), "");
}

// Touch unmapped memory outside any guard; expect the program to die of it as usual.
TEST_F(FaultGuardTest, OtherFaultsKill) {
    void* const nowhere = ::mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_DEATH(*static_cast<volatile char*>(nowhere) = 1, "");
}

} // namespace
} // namespace vrdma
