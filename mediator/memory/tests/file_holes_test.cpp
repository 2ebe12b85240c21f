// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/memory/file_holes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <thread>
#include <vector>

#include "mediator/memory/fault_guard.h"
#include "mediator/memory/fault_times.h"

namespace vrdma {
namespace {

// Fills every hole while it may, and counts the requests.
class FileHolesTest : public ::testing::Test, protected FaultGuard::Filler {
  protected:
    static constexpr std::size_t page = FileHoles::page_size;
    static constexpr std::size_t pages = 64;

    FileHolesTest() {
        EXPECT_EQ(::ftruncate(file_.get(), pages * page), 0);
        EXPECT_TRUE(holes_.watch(memory_.data(), memory_.size()));
        guard_.fill_by(this);
    }

    bool fill(std::byte* address) noexcept override {
        ++asked_;
        const bool filled =
            may_ && holes_.make(address - reinterpret_cast<std::uintptr_t>(address) % page) == 0;
        if (filled) {
            holes_.end_fault();
        }
        return filled;
    }

    volatile char& byte(std::size_t i) { return *memory_.as<volatile char>(i * page); }
    std::size_t pages_there() const {
        struct stat status {};
        EXPECT_EQ(::fstat(file_.get(), &status), 0);
        return static_cast<std::size_t>(status.st_blocks) * 512 / page;
    }

    UniqueFd file_{::memfd_create("shared", MFD_CLOEXEC)};
    Mapping memory_ = *Mapping::map(file_.get(), 0, pages* page, PROT_READ | PROT_WRITE);
    FileHoles holes_ = *FileHoles::open();
    FaultGuard guard_ = *FaultGuard::create(memory_.data(), memory_.size());
    int asked_ = 0;
    bool may_ = true;
};

// Touch holes; expect to be asked once for each, zeros, writes that the file sees, and no scratch
// page.
TEST_F(FileHolesTest, AHoleIsFilled) {
    EXPECT_EQ(byte(3), 0);
    byte(5) = 'x';
    EXPECT_EQ(byte(3), 0);
    char seen = 0;
    EXPECT_EQ(::pread(file_.get(), &seen, 1, 5 * page), 1);
    EXPECT_EQ(seen, 'x');
    EXPECT_EQ(asked_, 2);
    EXPECT_EQ(pages_there(), 2u);
    EXPECT_EQ(guard_.faults(), 0u);
}

// Touch pages that the file has; expect not to be asked.
TEST_F(FileHolesTest, WhatIsThereIsNotAskedFor) {
    const char data = 'c';
    ASSERT_EQ(::pwrite(file_.get(), &data, 1, 7 * page), 1);
    EXPECT_EQ(byte(7), 'c');
    EXPECT_EQ(asked_, 0);
}

// Refuse; expect scratch pages, and no further page in the file.
TEST_F(FileHolesTest, WhatIsRefusedIsMissing) {
    may_ = false;
    byte(3) = 'x';
    EXPECT_EQ(byte(3), 'x');
    EXPECT_EQ(guard_.faults(), 1u);
    EXPECT_EQ(pages_there(), 0u);
}

// Truncate the file; expect pages beyond its end to be missing, though they may be made.
TEST_F(FileHolesTest, NothingIsMadeBeyondTheEnd) {
    ASSERT_EQ(::ftruncate(file_.get(), page), 0);
    byte(1) = 'x';
    EXPECT_EQ(guard_.faults(), 1u);
}

// Fill a hole, and do something else for a while; expect only the fault to count.
TEST_F(FileHolesTest, AFilledHoleEndsTheFault) {
    auto times = FaultTimes::of_this_thread();
    if (!times) {
        GTEST_SKIP() << "the kernel tells nobody of faults";
    }
    constexpr std::chrono::milliseconds some_time{20};
    for (const std::size_t i : {1, 2, 3}) { // code that runs for the first time has its own faults
        byte(i) = 'x';
        const auto begin = std::chrono::steady_clock::now();
        while (std::chrono::steady_clock::now() - begin < some_time) {
        }
    }
    byte(4) = 'x';
    times->settle();
    EXPECT_EQ(asked_, 4);
    EXPECT_LT(guard_.take_cost(), some_time / 2);
}

// Ask the kernel to write into a hole; expect EFAULT, and no new page.
TEST_F(FileHolesTest, TheKernelMakesNone) {
    const UniqueFd zeros{::open("/dev/zero", O_RDONLY | O_CLOEXEC)};
    EXPECT_EQ(::read(zeros.get(), memory_.data(), page), -1);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(pages_there(), 0u);
}

} // namespace
} // namespace vrdma
