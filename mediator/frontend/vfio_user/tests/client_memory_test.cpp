// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/client_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "mediator/base/mapping.h"
#include "mediator/frontend/vfio_user/tests/client.h"

namespace vrdma::vfio_user {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t window = 1 << 30;
constexpr std::uint64_t length = 16 * page;
constexpr int both = PROT_READ | PROT_WRITE;
constexpr Iova start{0x100000};

class ClientMemoryTest : public ::testing::Test {
  protected:
    UniqueFd file() const { return test::copy_of(file_); }
    volatile char& device(Iova at) { return *reinterpret_cast<volatile char*>(memory_->at(at, 1)); }
    volatile char& client(std::uint64_t at) { return *client_.as<volatile char>(at); }

    UniqueFd file_ = test::shared_file(length);
    Mapping client_ = *Mapping::map(file_.get(), 0, length, both);
    std::unique_ptr<ClientMemory> memory_ = *ClientMemory::create(window);
};

// Make a window; expect it to begin where the largest page can, so that one of a client's huge
// pages never lies on its edge.
TEST_F(ClientMemoryTest, IsAlignedToTheLargestPage) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory_->at(Iova{0}, 1)) % (1 << 30), 0u);
}

// Map a file at an IOVA; expect each side to see what the other writes.
TEST_F(ClientMemoryTest, SharesWhatIsMapped) {
    ASSERT_TRUE(memory_->map(start, length, file(), 0, both));
    client(5 * page) = 'c';
    EXPECT_EQ(device(start + 5 * page), 'c');
    device(start + 6 * page) = 'd';
    EXPECT_EQ(client(6 * page), 'd');
    EXPECT_EQ(memory_->scratch_faults(), 0u);
}

// Map from the middle of a file; expect the offset to count.
TEST_F(ClientMemoryTest, MapsAPartOfAFile) {
    ASSERT_TRUE(memory_->map(start, page, file(), 3 * page, both));
    client(3 * page) = 'c';
    EXPECT_EQ(device(start), 'c');
}

// Unmap more memory than is hidden in one piece; expect all of it to be gone.
TEST_F(ClientMemoryTest, ALargeMapIsTakenAwayWhole) {
    constexpr std::uint64_t large = (2ull << 30) + page;
    const UniqueFd large_file = test::shared_file(large);
    const auto memory = *ClientMemory::create(4ull << 30);
    for (const bool all : {false, true}) {
        ASSERT_TRUE(memory->map(start, large, test::copy_of(large_file), 0, both));
        if (all) {
            memory->unmap_all();
        } else {
            ASSERT_TRUE(memory->unmap(start, large));
        }
        const std::uint64_t before = memory->scratch_faults();
        for (const std::uint64_t at : {std::uint64_t{0}, large / 2, large - 1}) {
            *reinterpret_cast<volatile char*>(memory->at(start + at, 1)) = 'd';
        }
        EXPECT_EQ(memory->scratch_faults(), before + 3);
    }
}

// Unmap; expect the device to meet a scratch page there, the client's to be left alone, and the
// place to be free for another map.
TEST_F(ClientMemoryTest, UnmapTakesItAway) {
    ASSERT_TRUE(memory_->map(start, length, file(), 0, both));
    client(0) = 'c';
    ASSERT_TRUE(memory_->unmap(start, length));
    device(start) = 'd';
    EXPECT_EQ(client(0), 'c');
    EXPECT_EQ(memory_->scratch_faults(), 1u);
    ASSERT_TRUE(memory_->map(start, length, file(), 0, both));
    EXPECT_EQ(device(start), 'c');
}

// Map over what is mapped, on either side of it and around it; expect EEXIST each time.
TEST_F(ClientMemoryTest, RefusesOverlaps) {
    ASSERT_TRUE(memory_->map(start, 4 * page, file(), 0, both));
    for (const auto& [at, size] : {std::pair{raw(start), page},
                                   {raw(start) + 3 * page, 2 * page},
                                   {raw(start) - page, 2 * page},
                                   {raw(start) - page, 6 * page}}) {
        EXPECT_EQ(memory_->map(Iova{at}, size, file(), 0, both).error(), std::errc::file_exists);
    }
    EXPECT_TRUE(memory_->map(start + 4 * page, page, file(), 0, both));
}

// Unmap a part, more than was mapped, and what was never mapped; expect EINVAL each time.
TEST_F(ClientMemoryTest, UnmapsExactlyWhatWasMapped) {
    ASSERT_TRUE(memory_->map(start, 4 * page, file(), 0, both));
    EXPECT_FALSE(memory_->unmap(start, page));
    EXPECT_FALSE(memory_->unmap(start, 5 * page));
    EXPECT_FALSE(memory_->unmap(start + page, page));
    EXPECT_TRUE(memory_->unmap(start, 4 * page));
}

// Map with invalid lengths, places and offsets; expect EINVAL.
TEST_F(ClientMemoryTest, RefusesNonsense) {
    EXPECT_FALSE(memory_->map(start, 0, file(), 0, both));
    EXPECT_FALSE(memory_->map(start, page + 1, file(), 0, both));
    EXPECT_FALSE(memory_->map(start + 8, page, file(), 0, both));
    EXPECT_FALSE(memory_->map(start, page, file(), 8, both));
    EXPECT_FALSE(memory_->map(Iova{window}, page, file(), 0, both));
    EXPECT_FALSE(memory_->map(Iova{window - page}, 2 * page, file(), 0, both));
    EXPECT_FALSE(memory_->map(Iova{~0ull - page + 1}, page, file(), 0, both));
    EXPECT_FALSE(memory_->map(start, page, file(), ~0ull - page + 1, both));
}

// Pass files that are not memory: a pipe, a device, a file on a disk; expect EINVAL, because
// touching such a file may block.
TEST_F(ClientMemoryTest, RefusesFilesThatAreNotMemory) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const UniqueFd writing{ends[1]};
    EXPECT_FALSE(memory_->map(start, page, UniqueFd{ends[0]}, 0, both));
    EXPECT_FALSE(memory_->map(start, page, UniqueFd{::open("/dev/zero", O_RDWR)}, 0, both));
    EXPECT_FALSE(
        memory_->map(start, page, UniqueFd{::open("/proc/self/exe", O_RDONLY)}, 0, PROT_READ));
}

// Map without a file; expect the device to meet a scratch page, also after it was released, and the
// place to be taken.
TEST_F(ClientMemoryTest, MemoryWithoutAFileIsOutOfReach) {
    ASSERT_TRUE(memory_->map(start, page, UniqueFd{}, 0, both));
    device(start) = 'd';
    memory_->release(start, page);
    device(start) = 'd';
    EXPECT_EQ(memory_->scratch_faults(), 2u);
    EXPECT_EQ(memory_->map(start, page, file(), 0, both).error(), std::errc::file_exists);
    EXPECT_TRUE(memory_->unmap(start, page));
    EXPECT_TRUE(memory_->map(start, page, file(), 0, both));
}

// Seal a file against writing and map it for writing; expect EPERM, and reading to be fine.
TEST_F(ClientMemoryTest, SealsHold) {
    const UniqueFd sealed = test::shared_file(page);
    ASSERT_EQ(::fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
    EXPECT_EQ(memory_->map(start, page, test::copy_of(sealed), 0, both).error(),
              std::errc::operation_not_permitted);
    EXPECT_TRUE(memory_->map(start, page, test::copy_of(sealed), 0, PROT_READ));
}

// Write to memory that is mapped read-only; expect a scratch page, and the client's page unchanged.
TEST_F(ClientMemoryTest, ReadOnlyStaysSo) {
    ASSERT_TRUE(memory_->map(start, length, file(), 0, PROT_READ));
    client(0) = 'c';
    EXPECT_EQ(device(start), 'c');
    device(start) = 'd';
    EXPECT_EQ(client(0), 'c');
    EXPECT_EQ(memory_->scratch_faults(), 1u);
}

// Cut the file short and let it grow again; expect a scratch page in between, and after release()
// the file's own page.
TEST_F(ClientMemoryTest, ReleaseLooksAnew) {
    ASSERT_TRUE(memory_->map(start, length, file(), 0, both));
    ASSERT_EQ(::ftruncate(file_.get(), page), 0);
    device(start + 2 * page) = 'd';
    EXPECT_EQ(memory_->scratch_faults(), 1u);
    ASSERT_EQ(::ftruncate(file_.get(), length), 0);
    client(2 * page) = 'c';
    EXPECT_EQ(device(start + 2 * page), 'd');
    memory_->release(start + 2 * page + 100, 1);
    EXPECT_EQ(device(start + 2 * page), 'c');
    EXPECT_EQ(memory_->scratch_faults(), 1u);
}

// Release a range that begins before a map and ends after the next; expect both to be shown anew,
// and the gap between them to fault again.
TEST_F(ClientMemoryTest, ReleaseSpansMaps) {
    ASSERT_TRUE(memory_->map(start, page, file(), 0, both));
    ASSERT_TRUE(memory_->map(start + 2 * page, page, file(), page, both));
    client(0) = 'a';
    client(page) = 'b';
    device(start + page) = 'x';
    ASSERT_EQ(memory_->scratch_faults(), 1u);
    memory_->release(Iova{raw(start) - page}, 5 * page);
    EXPECT_EQ(device(start), 'a');
    EXPECT_EQ(device(start + 2 * page), 'b');
    EXPECT_EQ(device(start + page), 0);
    EXPECT_EQ(memory_->scratch_faults(), 2u);
}

// How often this process has touched a page that was not in its page tables.
long page_faults() {
    struct rusage usage {};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

// Miss a page in one place and release memory in another; expect that memory to stay in the page
// tables, because a device releases memory often.
TEST_F(ClientMemoryTest, ReleaseCostsNothingWithoutScratchPages) {
    ASSERT_TRUE(memory_->map(start, length, file(), 0, both));
    device(start + length) = 'x';
    ASSERT_EQ(memory_->scratch_faults(), 1u);
    const auto touch_all = [&] {
        for (std::uint64_t at = 0; at < length; at += page) {
            device(start + at) = 'd';
        }
    };
    touch_all();
    memory_->release(start, length);
    const long before = page_faults();
    touch_all();
    EXPECT_LT(page_faults() - before, length / page); // a sanitizer has a few
}

// Miss a page, and map memory at its place; expect the scratch page to be forgotten, so that a
// release of the place shows the mapped memory.
TEST_F(ClientMemoryTest, MapsTakeTheScratchPagesPlace) {
    device(start) = 'x';
    ASSERT_TRUE(memory_->map(start, length, file(), 0, both));
    client(0) = 'c';
    EXPECT_EQ(device(start), 'c');
    memory_->release(start, length);
    EXPECT_EQ(device(start), 'c');
    EXPECT_EQ(memory_->scratch_faults(), 1u);
}

// Map again and again; expect an error at the limit, so that one client cannot take all of the
// mediator's mappings.
TEST_F(ClientMemoryTest, MapsAreBounded) {
    for (std::size_t i = 0; i < ClientMemory::max_maps; ++i) {
        ASSERT_TRUE(memory_->map(Iova{2 * i * page}, page, file(), 0, both)) << i;
    }
    EXPECT_EQ(memory_->map(Iova{window - page}, page, file(), 0, both).error(),
              std::errc::no_space_on_device);
    memory_->unmap_all();
    EXPECT_TRUE(memory_->map(Iova{window - page}, page, file(), 0, both));
}

} // namespace
} // namespace vrdma::vfio_user
