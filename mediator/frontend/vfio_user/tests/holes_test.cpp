// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A client whose files have holes. Pages in them are charged to vrdmad if the device touches them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <thread>

#include "mediator/base/event_fd.h"
#include "mediator/frontend/vfio_user/client_memory.h"
#include "mediator/frontend/vfio_user/tests/client.h"
#include "mediator/memory/shared_words.h"

namespace vrdma::vfio_user {
namespace {

class HolesTest : public ::testing::Test {
  protected:
    static constexpr std::uint64_t page = 4096;
    static constexpr std::uint64_t window = std::uint64_t{2} << 30;
    static constexpr std::uint64_t length = window / 2;
    static constexpr std::uint64_t allowed = 128; // pages
    static constexpr int both = PROT_READ | PROT_WRITE;

    static std::uint64_t pages_of(const UniqueFd& file) {
        struct stat status {};
        EXPECT_EQ(::fstat(file.get(), &status), 0);
        return static_cast<std::uint64_t>(status.st_blocks) * 512 / page;
    }
    bool map(const UniqueFd& file, Iova at = Iova{0}, int protection = both) {
        return memory_->map(at, length, test::copy_of(file), 0, protection).has_value();
    }
    void touch(std::uint64_t first, std::uint64_t count) {
        for (std::uint64_t i = first; i < first + count; ++i) {
            store_relaxed(*memory_->at(Iova{i * page}, 1), std::byte{'d'});
        }
    }
    // After a pause of 100 ms, the next touch counts the files' pages again.
    static void pass_time() { ::usleep(120'000); }
    std::uint64_t missing() const { return memory_->scratch_faults(); }
    bool alarmed() const {
        eventfd_t count = 0;
        return ::eventfd_read(alarm_.fd(), &count) == 0;
    }

    EventFd alarm_ = *EventFd::create();
    std::unique_ptr<ClientMemory> memory_ =
        *ClientMemory::create(window, alarm_.fd(), ClientMemory::max_maps, allowed* page);
};

// Touch more holes of a file than the allowance; expect as many pages as allowed, the rest to be
// missing memory, and the device to be told.
TEST_F(HolesTest, NoMoreAreFilledThanAllowed) {
    const UniqueFd file = test::shared_file(length);
    ASSERT_TRUE(map(file));
    touch(0, allowed);
    EXPECT_EQ(missing(), 0u);
    EXPECT_FALSE(alarmed());
    EXPECT_FALSE(memory_->take_refusal());
    touch(allowed, 8);
    EXPECT_EQ(missing(), 8u);
    EXPECT_TRUE(alarmed());
    EXPECT_TRUE(memory_->take_refusal());
    EXPECT_EQ(pages_of(file), allowed);
    touch(allowed, 10 * allowed);
    EXPECT_TRUE(memory_->overwhelmed());
    EXPECT_EQ(pages_of(file), allowed);
}

// Touch pages that the client has; expect them not to count.
TEST_F(HolesTest, WhatTheClientHasDoesNotCount) {
    const UniqueFd file = test::shared_file(length);
    ASSERT_EQ(::fallocate(file.get(), 0, 0, 4 * allowed * page), 0);
    ASSERT_TRUE(map(file));
    touch(0, 4 * allowed);
    EXPECT_EQ(missing(), 0u);
}

// Replace the map by one of another file, and keep the first file; expect its pages to count still.
// Close the first file; expect the next one to have the full allowance.
TEST_F(HolesTest, WhatIsKeptCountsWhenTheClientIsGone) {
    UniqueFd first = test::shared_file(length);
    ASSERT_TRUE(map(first));
    touch(0, allowed);
    memory_->unmap_all();
    const UniqueFd second = test::shared_file(length);
    ASSERT_TRUE(map(second));
    touch(0, 1);
    EXPECT_EQ(missing(), 1u);
    EXPECT_EQ(pages_of(second), 0u);
    memory_->unmap_all();
    first = {};
    ASSERT_TRUE(map(second));
    touch(0, allowed);
    EXPECT_EQ(missing(), 1u);
}

// The same, with a file whose names come and go while it is open; expect its pages to count still,
// whatever inotify reports about its names.
TEST_F(HolesTest, ANameThatGoesIsNoFileThatGoes) {
    const std::string name = "/dev/shm/vrdma-holes-" + std::to_string(::getpid());
    const UniqueFd file{::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
    ASSERT_TRUE(file);
    ASSERT_EQ(::ftruncate(file.get(), length), 0);
    ASSERT_EQ(::link(name.c_str(), (name + "-2").c_str()), 0);
    ASSERT_TRUE(map(file));
    touch(0, allowed);
    ASSERT_TRUE(memory_->unmap(Iova{0}, length));
    ASSERT_EQ(::unlink(name.c_str()), 0);
    ASSERT_EQ(::unlink((name + "-2").c_str()), 0);
    const UniqueFd second = test::shared_file(length);
    ASSERT_TRUE(map(second));
    touch(0, 1);
    EXPECT_EQ(missing(), 1u);
}

// Unmap and map a file again and again; expect its pages to count once.
TEST_F(HolesTest, AFileThatIsShownAnewCountsOnce) {
    const UniqueFd file = test::shared_file(length);
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(map(file));
        touch(0, allowed / 2);
        ASSERT_TRUE(memory_->unmap(Iova{0}, length));
    }
    ASSERT_TRUE(map(file));
    touch(0, allowed);
    EXPECT_EQ(missing(), 0u);
}

// Give pages back to the system between touches; expect the device to be allowed other pages.
TEST_F(HolesTest, WhatIsGivenBackDoesNotCount) {
    const UniqueFd file = test::shared_file(length);
    ASSERT_TRUE(map(file));
    for (std::uint64_t i = 0; i < 3; ++i) {
        touch(i * allowed, allowed);
        EXPECT_EQ(missing(), 0u);
        ASSERT_EQ(::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                              static_cast<off_t>(length)),
                  0);
        pass_time();
    }
}

// Touch the same holes from several threads; expect each to be made and counted once.
TEST_F(HolesTest, ThreadsTouchAtOnce) {
    const UniqueFd file = test::shared_file(length);
    ASSERT_TRUE(map(file));
    std::array<std::thread, 4> threads;
    for (auto& thread : threads) {
        thread = std::thread{[&] { touch(0, allowed); }};
    }
    for (auto& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(missing(), 0u);
    EXPECT_EQ(pages_of(file), allowed);
}

// Miss a page beyond the allowance and release it; expect it to be missing again, and not to be
// made.
TEST_F(HolesTest, WhatIsShownAgainIsWatched) {
    const UniqueFd file = test::shared_file(length);
    ASSERT_TRUE(map(file));
    touch(0, allowed);
    for (std::uint64_t i = 1; i <= 10; ++i) {
        touch(2 * allowed, 1);
        EXPECT_EQ(missing(), i);
        memory_->release(Iova{2 * allowed * page}, page);
    }
    EXPECT_EQ(pages_of(file), allowed);
}

// Pass a file that cannot be written, so that its holes cannot be filled; expect it to be out of
// reach, and to get no page.
TEST_F(HolesTest, AFileThatCannotBeWrittenIsOutOfReach) {
    const UniqueFd file = test::shared_file(length);
    const UniqueFd reading{
        ::open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDONLY | O_CLOEXEC)};
    ASSERT_TRUE(map(reading, Iova{0}, PROT_READ));
    static_cast<void>(*reinterpret_cast<volatile char*>(memory_->at(Iova{0}, 1)));
    EXPECT_EQ(missing(), 1u);
    EXPECT_EQ(pages_of(file), 0u);
    EXPECT_TRUE(memory_->unmap(Iova{0}, length));
}

// Unmap more files than are remembered; expect the pages of forgotten files to count still.
TEST_F(HolesTest, WhatIsForgottenCounts) {
    HoleAccount account{1 << 20};
    std::vector<UniqueFd> files;
    for (std::size_t i = 0; i < 2 * HoleAccount::most_left; ++i) {
        files.push_back(test::shared_file(page));
        ASSERT_EQ(::fallocate(files.back().get(), 0, 0, page), 0);
        struct stat status {};
        ASSERT_EQ(::fstat(files.back().get(), &status), 0);
        const auto file = account.open(status);
        account.note(file->second);
        account.close(file, files.back().get(), 1);
    }
    EXPECT_EQ(account.used(), files.size());
    files.clear();
    const UniqueFd other = test::shared_file(page);
    struct stat status {};
    ASSERT_EQ(::fstat(other.get(), &status), 0);
    account.close(account.open(status), other.get(), 0);
    EXPECT_EQ(account.used(), HoleAccount::most_left);
}

} // namespace
} // namespace vrdma::vfio_user
