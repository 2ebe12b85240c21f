// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A client whose driver names memory that it does not share.
#include <linux/vfio.h>
#include <sys/mman.h>

#include "mediator/base/mapping.h"
#include "mediator/frontend/vfio_user/tests/client.h"
#include "mediator/memory/tests/mappings.h"

namespace vrdma::vfio_user::test {
namespace {

constexpr std::uint64_t page = VRDMA_PAGE_SIZE;
constexpr std::uint64_t shared = 1 << 24; // what lies behind it in the window is not there

// The driver of a function: registers and an admin queue in the memory that its client shares.
class Driver {
  public:
    explicit Driver(std::unique_ptr<Function> function) : function_{std::move(function)} {
        EXPECT_TRUE(function_->client_memory().map(Iova{0}, shared, copy_of(file_), 0,
                                                   PROT_READ | PROT_WRITE));
    }

    Function& function() { return *function_; }

    std::uint32_t read(std::uint32_t offset) {
        std::uint32_t value = 0;
        function_->read(VFIO_PCI_BAR0_REGION_INDEX, offset,
                        std::as_writable_bytes(std::span{&value, 1}));
        return value;
    }
    void write(std::uint32_t offset, std::uint64_t value) {
        const auto word = static_cast<std::uint32_t>(value);
        function_->write(VFIO_PCI_BAR0_REGION_INDEX, offset, std::as_bytes(std::span{&word, 1}));
    }

    std::uint32_t enable(std::uint64_t status_page = status_page_of_ours) {
        std::fill_n(memory_.data() + submissions, 2 * page, std::byte{});
        posted_ = 0;
        write(VRDMA_REG_ASQ_LOW, submissions);
        write(VRDMA_REG_ACQ_LOW, completions);
        write(VRDMA_REG_AQ_DEPTH, depth);
        write(VRDMA_REG_AQ_VECTOR, 1);
        write(VRDMA_REG_STATUS_PAGE_LOW, status_page);
        write(VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
        return read(VRDMA_REG_STATUS);
    }

    // The completion of a command, which is there when the doorbell's write returns.
    vrdma_admin_cpl run(std::uint32_t opcode, vrdma_admin_cmd cmd = {}) {
        cmd.header = VRDMA_SET(VRDMA_ADMIN_OPCODE, opcode) | VRDMA_ADMIN_PHASE;
        memory_.as<vrdma_admin_cmd>(submissions)[posted_] = cmd;
        write(VRDMA_REG_ADMIN_DOORBELL, 1);
        return memory_.as<vrdma_admin_cpl>(completions)[posted_++];
    }

    // A list of 4 KiB blocks, as a tree in shared memory.
    vrdma_page_list list(std::vector<std::uint64_t> entries) {
        vrdma_page_list list{};
        list.count = static_cast<std::uint32_t>(entries.size());
        list.page_shift = VRDMA_PAGE_SHIFT;
        std::uint64_t next = lists;
        for (; entries.size() > 1; ++list.levels) {
            std::vector<std::uint64_t> above;
            for (std::size_t i = 0; i < entries.size();
                 i += VRDMA_PAGE_LIST_ENTRIES, next += page) {
                const auto count =
                    std::min<std::size_t>(VRDMA_PAGE_LIST_ENTRIES, entries.size() - i);
                std::copy_n(entries.begin() + static_cast<std::ptrdiff_t>(i), count,
                            memory_.as<std::uint64_t>(next));
                above.push_back(next);
            }
            entries = std::move(above);
        }
        list.root = entries.front();
        return list;
    }

    vrdma_admin_cpl create_eq() {
        vrdma_admin_cmd cmd{};
        cmd.create_eq = {list({ring}), 16, 2};
        return run(VRDMA_ADMIN_CREATE_EQ, cmd);
    }

  private:
    static constexpr std::uint64_t submissions = 0x1000;
    static constexpr std::uint64_t completions = 0x2000;
    static constexpr std::uint64_t status_page_of_ours = 0x3000;
    static constexpr std::uint64_t ring = 0x4000;
    static constexpr std::uint64_t lists = 0x10000;
    static constexpr std::uint32_t depth = 16;

    UniqueFd file_ = shared_file(shared);
    Mapping memory_ = *Mapping::map(file_.get(), 0, shared, PROT_READ | PROT_WRITE);
    std::unique_ptr<Function> function_;
    std::uint32_t posted_ = 0;
};

class MissingMemoryTest : public ::testing::Test {
  protected:
    // What the control thread has been asked for.
    void turn() {
        EventFd end = *EventFd::create();
        end.signal();
        const auto watch = bench_.loop.watch(end.fd(), [&](std::uint32_t) { bench_.loop.stop(); });
        ASSERT_TRUE(bench_.loop.run());
    }

    // Missing pages, with others between them, as the device does when it is told to use them.
    void touch(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            auto* const at = driver_.function().client_memory().at(Iova{shared + 2 * i * page}, 1);
            static_cast<void>(*reinterpret_cast<volatile char*>(at));
        }
    }

    // Of the window.
    std::size_t mappings() {
        const auto& memory = driver_.function().client_memory();
        return vrdma::test::mappings(memory.at(Iova{0}, 1), memory.size());
    }

    Bench bench_;
    Driver driver_{bench_.make_function()};
};

// Create a CQ of the largest size whose ring lies in pages that are not there, no two of them side
// by side; expect EFAULT, no more mappings than before, and a device that goes on.
TEST_F(MissingMemoryTest, ARingThatIsNotThereIsRefused) {
    ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    const auto eq = driver_.create_eq();
    ASSERT_EQ(eq.status, 0u);
    constexpr std::uint32_t cqes = VRDMA_MAX_CQ_DEPTH;
    std::vector<std::uint64_t> blocks;
    for (std::uint64_t i = 0; i < 1 + cqes * sizeof(vrdma_cqe) / page; ++i) {
        blocks.push_back(shared + 2 * i * page);
    }
    vrdma_admin_cmd cmd{};
    cmd.create_cq.pages = driver_.list(blocks);
    cmd.create_cq.depth = cqes;
    cmd.create_cq.eq = eq.handle.handle;
    const std::size_t before = mappings();
    EXPECT_EQ(driver_.run(VRDMA_ADMIN_CREATE_CQ, cmd).status, static_cast<unsigned>(EFAULT));
    EXPECT_LE(mappings(), before);
    EXPECT_EQ(driver_.run(VRDMA_ADMIN_QUERY_DEVICE).status, 0u);
}

// Enable and reset many times, each time with a status page in another place where nothing is;
// expect no more mappings than before.
TEST_F(MissingMemoryTest, AResetLeavesNoScratchPage) {
    const std::size_t before = mappings();
    for (std::uint64_t i = 0; i < 4 * ScratchPages::room; ++i) {
        ASSERT_EQ(driver_.enable(shared + 2 * i * page), VRDMA_STATUS_ENABLED) << i;
        driver_.write(VRDMA_REG_CONTROL, VRDMA_CONTROL_RESET);
    }
    EXPECT_LE(mappings(), before);
}

// Miss more pages than there are scratch pages for; expect that device to be FATAL and no other,
// and its memory to be there again after a reset.
TEST_F(MissingMemoryTest, TooMuchEndsTheDeviceOnly) {
    Driver other{std::move(bench_.make_functions("other").front())};
    ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    ASSERT_EQ(other.enable(), VRDMA_STATUS_ENABLED);
    touch(ScratchPages::room);
    turn();
    EXPECT_EQ(driver_.read(VRDMA_REG_STATUS), VRDMA_STATUS_ENABLED);
    touch(ScratchPages::room + 1);
    turn();
    EXPECT_EQ(driver_.read(VRDMA_REG_STATUS), VRDMA_STATUS_FATAL);
    EXPECT_EQ(other.create_eq().status, 0u);
    driver_.write(VRDMA_REG_CONTROL, VRDMA_CONTROL_RESET);
    EXPECT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    EXPECT_EQ(driver_.create_eq().status, 0u);
    turn();
    EXPECT_EQ(driver_.read(VRDMA_REG_STATUS), VRDMA_STATUS_ENABLED);
}

} // namespace
} // namespace vrdma::vfio_user::test
