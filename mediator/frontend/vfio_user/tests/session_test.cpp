// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <linux/vfio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <nlohmann/json.hpp>

#include "mediator/frontend/vfio_user/tests/client.h"

namespace vrdma::vfio_user::test {
namespace {

constexpr std::uint32_t bar0 = VFIO_PCI_BAR0_REGION_INDEX;
constexpr std::uint32_t bar2 = VFIO_PCI_BAR2_REGION_INDEX;
constexpr std::uint32_t config = VFIO_PCI_CONFIG_REGION_INDEX;
constexpr std::uint32_t msix = VFIO_PCI_MSIX_IRQ_INDEX;
constexpr std::uint32_t by_eventfd = VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_EVENTFD;

class SessionTest : public ::testing::Test {
  protected:
    SessionTest() {
        Message message = version_command();
        EXPECT_TRUE(session_.execute(message));
    }

    Result<Answer> run(Message message) { return session_.execute(message); }

    template <typename T>
    Result<T> read(std::uint32_t region, std::uint64_t offset) {
        return run(command(VFIO_USER_REGION_READ,
                           vfio_user_region_access{offset, region, sizeof(T)}))
            .map([](const Answer& answer) {
                return part_of<T>(answer, sizeof(vfio_user_region_access));
            });
    }

    template <typename T>
    Result<Answer> write(std::uint32_t region, std::uint64_t offset, const T& value) {
        return run(command(VFIO_USER_REGION_WRITE,
                           vfio_user_region_access{offset, region, sizeof(T)}, value));
    }

    Result<Answer> map(const vfio_user_dma_map& request, std::vector<UniqueFd> fds) {
        Message message = command(VFIO_USER_DMA_MAP, request);
        message.fds = std::move(fds);
        return run(std::move(message));
    }

    Bench bench_;
    std::unique_ptr<Function> function_ = bench_.make_function();
    DeviceLog log_{"test"};
    Session session_{*function_, log_};
};

std::vector<UniqueFd> one(UniqueFd fd) {
    std::vector<UniqueFd> fds;
    fds.push_back(std::move(fd));
    return fds;
}

// Send VERSION with several capability texts; expect valid ones to be answered with the mediator's
// capabilities, and others to be refused.
TEST_F(SessionTest, VersionIsNegotiated) {
    for (const auto* const good : {"", "{}", R"({"capabilities":{}})",
                                   R"({"capabilities":{"max_msg_fds":8,"unknown":[1]}})"}) {
        Session session{*function_, log_};
        Message message = version_command(good);
        const auto answer = session.execute(message);
        ASSERT_TRUE(answer) << good;
        EXPECT_TRUE(session.negotiated());
        EXPECT_EQ(part_of<vfio_user_version>(*answer).minor, 1);
        const auto* const text = reinterpret_cast<const char*>(answer->payload.data()) + 4;
        const auto json = nlohmann::json::parse(text);
        EXPECT_EQ(json["capabilities"]["max_msg_fds"], max_fds);
    }
    for (const auto* const bad :
         {"{", "[]", "1", R"({"capabilities":1})", R"({"capabilities":{"max_msg_fds":0}})",
          R"({"capabilities":{"max_msg_fds":"many"}})"}) {
        Session session{*function_, log_};
        Message message = version_command(bad);
        EXPECT_FALSE(session.execute(message)) << bad;
        EXPECT_FALSE(session.negotiated());
    }
}

// Send a text of 4 KiB with its NUL, and one that is longer by a byte; expect the second to be
// refused unread.
TEST_F(SessionTest, VersionIsShort) {
    for (const std::size_t length : {4096, 4097}) {
        Session session{*function_, log_};
        std::string text(length - 1, ' ');
        text.front() = '{';
        text.back() = '}';
        Message message = version_command(text);
        EXPECT_EQ(session.execute(message).has_value(), length == 4096) << length;
    }
}

// Send a command before VERSION, another major version, a text without its NUL, and a second
// VERSION; expect all to be refused.
TEST_F(SessionTest, VersionComesFirstAndOnce) {
    Session session{*function_, log_};
    Message early = command(VFIO_USER_DEVICE_RESET);
    EXPECT_FALSE(session.execute(early));
    Message major = command(VFIO_USER_VERSION, vfio_user_version{1, 0});
    EXPECT_FALSE(session.execute(major));
    Message open = version_command("{}");
    open.payload.pop_back();
    EXPECT_FALSE(session.execute(open));
    EXPECT_FALSE(run(version_command()));
}

// Ask for the device, its regions and its interrupts; expect a PCI function with doorbell pages to
// map and MSI-X vectors.
TEST_F(SessionTest, TellsWhatItIs) {
    const auto device = run(command(VFIO_USER_DEVICE_GET_INFO, vfio_user_device_info{16, 0, 0, 0}));
    ASSERT_TRUE(device);
    EXPECT_EQ(part_of<vfio_user_device_info>(*device).num_regions, VFIO_PCI_NUM_REGIONS);

    const auto region = [&](std::uint32_t index) {
        return run(command(VFIO_USER_DEVICE_GET_REGION_INFO,
                           vfio_user_region_info{32, 0, index, 0, 0, 0}));
    };
    EXPECT_EQ(part_of<vfio_user_region_info>(*region(bar0)).size, VRDMA_BAR0_SIZE);
    const auto doorbells = region(bar2);
    ASSERT_TRUE(doorbells);
    const auto info = part_of<vfio_user_region_info>(*doorbells);
    EXPECT_EQ(info.size, 4u * VRDMA_DOORBELL_PAGE_SIZE);
    EXPECT_TRUE((info.flags & VFIO_REGION_INFO_FLAG_MMAP) != 0);
    ASSERT_EQ(doorbells->fds.size(), 1u);
    EXPECT_EQ(::ftruncate(doorbells->fds[0], 0), -1); // it is sealed
    EXPECT_EQ(part_of<vfio_user_region_info>(*region(VFIO_PCI_ROM_REGION_INDEX)).size, 0u);
    EXPECT_FALSE(region(VFIO_PCI_NUM_REGIONS));

    const auto irq = [&](std::uint32_t index) {
        return run(command(VFIO_USER_DEVICE_GET_IRQ_INFO, vfio_user_irq_info{16, 0, index, 0}));
    };
    EXPECT_EQ(part_of<vfio_user_irq_info>(*irq(msix)).count, 4u);
    EXPECT_EQ(part_of<vfio_user_irq_info>(*irq(VFIO_PCI_INTX_IRQ_INDEX)).count, 0u);
    EXPECT_FALSE(irq(VFIO_PCI_NUM_IRQS));
}

// Ask for the descriptors of BAR0 with and without room for them; expect the kick page's eventfd,
// or the room that it takes.
TEST_F(SessionTest, GivesOutTheKick) {
    const auto ask = [&](std::uint32_t argsz, std::uint32_t index) {
        return run(command(VFIO_USER_DEVICE_GET_REGION_IO_FDS,
                           vfio_user_region_io_fds{argsz, 0, index, 0}));
    };
    const auto full = ask(256, bar0);
    ASSERT_TRUE(full);
    EXPECT_EQ(part_of<vfio_user_region_io_fds>(*full).count, 1u);
    const auto kick = part_of<vfio_user_ioeventfd>(*full, sizeof(vfio_user_region_io_fds));
    EXPECT_EQ(kick.offset, VRDMA_BAR0_KICK_OFFSET);
    EXPECT_EQ(full->fds, std::vector{function_->kick_fd()});

    const auto small = ask(16, bar0);
    ASSERT_TRUE(small);
    EXPECT_EQ(part_of<vfio_user_region_io_fds>(*small).argsz, 56u);
    EXPECT_TRUE(small->fds.empty());
    EXPECT_EQ(part_of<vfio_user_region_io_fds>(*ask(256, bar2)).count, 0u);
    EXPECT_FALSE(ask(256, VFIO_PCI_NUM_REGIONS));
    EXPECT_FALSE(ask(8, bar0));
}

// Read and write registers; expect the device model behind them, ones where no register is, and
// writes to the kick page to signal the eventfd.
TEST_F(SessionTest, RegistersAreTheDevices) {
    EXPECT_EQ(read<std::uint32_t>(bar0, VRDMA_REG_MAGIC).value(), VRDMA_MAGIC);
    EXPECT_EQ(read<std::uint32_t>(bar0, VRDMA_REG_STATUS).value(), VRDMA_STATUS_READY);
    EXPECT_EQ(read<std::uint16_t>(bar0, VRDMA_REG_MAGIC).value(), 0xffff);
    EXPECT_EQ(read<std::uint64_t>(bar0, VRDMA_REG_MAGIC).value(),
              VRDMA_MAGIC | std::uint64_t{VRDMA_VERSION} << 32);
    EXPECT_EQ(read<std::uint32_t>(bar0, VRDMA_BAR0_KICK_OFFSET).value(), 0u);
    EXPECT_TRUE(write(bar0, VRDMA_REG_AQ_DEPTH, std::uint32_t{32}));
    EXPECT_EQ(read<std::uint32_t>(bar0, VRDMA_REG_AQ_DEPTH).value(), 32u);
    EXPECT_TRUE(run(command(VFIO_USER_DEVICE_RESET)));
    EXPECT_EQ(read<std::uint32_t>(bar0, VRDMA_REG_AQ_DEPTH).value(), 0u);

    eventfd_t kicks = 0;
    EXPECT_TRUE(write(bar0, VRDMA_BAR0_KICK_OFFSET, std::uint32_t{1}));
    EXPECT_EQ(::eventfd_read(function_->kick_fd(), &kicks), 0);
}

// Size a BAR as firmware does, read the ids, and write them; expect the size, and unchanged ids.
TEST_F(SessionTest, ConfigurationSpaceIsAFunctions) {
    EXPECT_EQ(read<std::uint16_t>(config, PCI_VENDOR_ID).value(), VRDMA_PCI_VENDOR_ID);
    EXPECT_TRUE(write(config, PCI_BASE_ADDRESS_0, ~0u));
    EXPECT_EQ(read<std::uint32_t>(config, PCI_BASE_ADDRESS_0).value(), ~(VRDMA_BAR0_SIZE - 1u));
    EXPECT_TRUE(write(config, PCI_VENDOR_ID, std::uint16_t{0}));
    EXPECT_EQ(read<std::uint16_t>(config, PCI_VENDOR_ID).value(), VRDMA_PCI_VENDOR_ID);
    EXPECT_TRUE(run(command(VFIO_USER_DEVICE_RESET)));
    EXPECT_EQ(read<std::uint32_t>(config, PCI_BASE_ADDRESS_0).value(), 0u);
}

// Access past a region's end, in no region, of no bytes, and of more than fits a message; expect
// EINVAL.
TEST_F(SessionTest, AccessesStayInTheirRegion) {
    const auto read_at = [&](std::uint64_t offset, std::uint32_t region, std::uint32_t count) {
        return run(command(VFIO_USER_REGION_READ, vfio_user_region_access{offset, region, count}));
    };
    EXPECT_TRUE(read_at(VRDMA_BAR0_SIZE - 4, bar0, 4));
    EXPECT_FALSE(read_at(VRDMA_BAR0_SIZE - 3, bar0, 4));
    EXPECT_FALSE(read_at(~0ull, bar0, 4));
    EXPECT_FALSE(read_at(0, bar0, 0));
    EXPECT_FALSE(read_at(0, bar0, ~0u));
    EXPECT_FALSE(read_at(0, VFIO_PCI_ROM_REGION_INDEX, 1));
    EXPECT_FALSE(read_at(0, 1000, 1));
    EXPECT_FALSE(run(
        command(VFIO_USER_REGION_WRITE, vfio_user_region_access{0, bar0, 4}, std::uint64_t{0})));
    EXPECT_FALSE(run(command(VFIO_USER_REGION_WRITE, vfio_user_region_access{0, bar0, 4})));
    EXPECT_FALSE(run(command(VFIO_USER_REGION_READ)));
}

// Map, overlap and unmap; expect the errors that the protocol names, and the request back.
TEST_F(SessionTest, MapsMemory) {
    const vfio_user_dma_map request{32, 3, 0, 0x10000, 0x4000};
    EXPECT_TRUE(map(request, one(shared_file(0x4000))));
    EXPECT_EQ(map(request, one(shared_file(0x4000))).error(), std::errc::file_exists);
    const vfio_user_dma_unmap back{24, 0, 0x10000, 0x4000};
    const auto unmapped = run(command(VFIO_USER_DMA_UNMAP, back));
    ASSERT_TRUE(unmapped);
    EXPECT_EQ(part_of<vfio_user_dma_unmap>(*unmapped).size, back.size);
    EXPECT_TRUE(map(request, one(shared_file(0x4000))));
}

// Unmap ranges, as QEMU does for a guest with an emulated IOMMU; expect all maps of a range to go,
// and an error from a range that cuts a map.
TEST_F(SessionTest, UnmapsRanges) {
    const auto mapped = [&](std::uint64_t address) {
        return map({32, 3, 0, address, 0x4000}, one(shared_file(0x4000)));
    };
    const auto unmap = [&](std::uint32_t flags, std::uint64_t address, std::uint64_t size) {
        return run(command(VFIO_USER_DMA_UNMAP, vfio_user_dma_unmap{24, flags, address, size}));
    };
    constexpr std::uint64_t far = 0x100000;
    constexpr std::uint64_t all = ~std::uint64_t{0} << 12;
    for (const std::uint64_t address : {0x10000, 0x20000, 0x100000}) {
        ASSERT_TRUE(mapped(address));
    }
    EXPECT_FALSE(unmap(0, 0, 0));
    EXPECT_FALSE(unmap(0, 0x1000, all));
    EXPECT_FALSE(unmap(0, 0x11000, 0x20000));
    EXPECT_FALSE(unmap(0, 0, 0x23000));
    EXPECT_FALSE(unmap(0, 0x11000, 0x1000));
    EXPECT_EQ(mapped(0x10000).error(), std::errc::file_exists);
    EXPECT_TRUE(unmap(0, 0x30000, 0x1000));
    EXPECT_TRUE(unmap(0, 0, far));
    EXPECT_TRUE(mapped(0x10000));
    EXPECT_TRUE(mapped(0x20000));
    EXPECT_EQ(mapped(far).error(), std::errc::file_exists);
    EXPECT_TRUE(unmap(0, 0, all));
    EXPECT_TRUE(mapped(far));
    EXPECT_FALSE(unmap(VFIO_DMA_UNMAP_FLAG_ALL, 0, far));
    EXPECT_TRUE(unmap(VFIO_DMA_UNMAP_FLAG_ALL, 0, 0));
    EXPECT_TRUE(mapped(far));
}

// Map without a file, as QEMU does with its ROMs; expect it to count as any other map.
TEST_F(SessionTest, MapsMemoryWithoutAFile) {
    const vfio_user_dma_map request{32, 1, 0, 0x10000, 0x4000};
    EXPECT_TRUE(map(request, {}));
    EXPECT_EQ(map(request, one(shared_file(0x4000))).error(), std::errc::file_exists);
    EXPECT_TRUE(run(command(VFIO_USER_DMA_UNMAP, vfio_user_dma_unmap{24, 0, 0x10000, 0x4000})));
}

// Maps with two files, with unknown flags or none, and of the wrong length; expect
// EINVAL.
TEST_F(SessionTest, RefusesBadMaps) {
    const vfio_user_dma_map good{32, 3, 0, 0x10000, 0x1000};
    auto two = one(shared_file(0x1000));
    two.push_back(shared_file(0x1000));
    EXPECT_FALSE(map(good, std::move(two)));
    for (const std::uint32_t flags : {0u, 4u, 7u, 0x80000003u}) {
        auto bad = good;
        bad.flags = flags;
        EXPECT_FALSE(map(bad, one(shared_file(0x1000)))) << flags;
    }
    auto small = good;
    small.argsz = 31;
    EXPECT_FALSE(map(small, one(shared_file(0x1000))));
    EXPECT_FALSE(run(command(VFIO_USER_DMA_UNMAP, vfio_user_dma_unmap{24, 1, 0x10000, 0x1000})));
    EXPECT_FALSE(run(command(VFIO_USER_DMA_MAP, std::uint64_t{0})));
}

// Set eventfds of vectors, trigger the vectors in each way, and remove the eventfds; expect a
// signal for each vector that was triggered.
TEST_F(SessionTest, InterruptsReachTheirEventfds) {
    const UniqueFd eventfd{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    const auto count = [&] {
        eventfd_t value = 0;
        ::eventfd_read(eventfd.get(), &value);
        return value;
    };
    Message set = command(VFIO_USER_DEVICE_SET_IRQS, vfio_user_irq_set{20, by_eventfd, msix, 1, 1});
    set.fds = one(copy_of(eventfd));
    ASSERT_TRUE(run(std::move(set)));
    function_->raise(1);
    EXPECT_EQ(count(), 1u);
    constexpr std::uint32_t trigger = VFIO_IRQ_SET_ACTION_TRIGGER;
    EXPECT_TRUE(run(command(VFIO_USER_DEVICE_SET_IRQS,
                            vfio_user_irq_set{20, trigger | VFIO_IRQ_SET_DATA_NONE, msix, 0, 4})));
    EXPECT_EQ(count(), 1u);
    EXPECT_TRUE(run(command(VFIO_USER_DEVICE_SET_IRQS,
                            vfio_user_irq_set{24, trigger | VFIO_IRQ_SET_DATA_BOOL, msix, 0, 4},
                            std::uint32_t{0x01000101}))); // vectors 0, 1 and 3
    EXPECT_EQ(count(), 1u);
    EXPECT_TRUE(run(command(VFIO_USER_DEVICE_SET_IRQS,
                            vfio_user_irq_set{20, trigger | VFIO_IRQ_SET_DATA_NONE, msix, 0, 0})));
    function_->raise(1);
    EXPECT_EQ(count(), 0u);
}

// Set vectors that do not exist, with the wrong number of eventfds or of bytes, of another
// interrupt type, or to mask them; expect errors.
TEST_F(SessionTest, RefusesBadInterruptSets) {
    const auto set = [&](const vfio_user_irq_set& request, std::size_t fds) {
        Message message = command(VFIO_USER_DEVICE_SET_IRQS, request);
        for (std::size_t i = 0; i < fds; ++i) {
            message.fds.emplace_back(::eventfd(0, EFD_CLOEXEC));
        }
        return run(std::move(message));
    };
    EXPECT_FALSE(set({20, by_eventfd, msix, 4, 1}, 1));
    EXPECT_FALSE(set({20, by_eventfd, msix, 0, 5}, 5));
    EXPECT_FALSE(set({20, by_eventfd, msix, 1, ~0u}, 1));
    EXPECT_FALSE(set({20, by_eventfd, msix, 0, 2}, 1));
    EXPECT_FALSE(set({20, by_eventfd, VFIO_PCI_INTX_IRQ_INDEX, 0, 1}, 1));
    EXPECT_FALSE(set({20, by_eventfd | VFIO_IRQ_SET_DATA_NONE, msix, 0, 1}, 1));
    EXPECT_FALSE(set({20, VFIO_IRQ_SET_ACTION_MASK | VFIO_IRQ_SET_DATA_NONE, msix, 0, 1}, 0));
    EXPECT_FALSE(set({20, VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_BOOL, msix, 0, 1}, 0));
    EXPECT_FALSE(set({19, by_eventfd, msix, 0, 1}, 1));
}

// Send commands that are unknown, or that only the server may send; expect ENOTSUP. Send
// descriptors or a payload with a command that takes none; expect EINVAL.
TEST_F(SessionTest, RefusesWhatItDoesNotKnow) {
    for (const std::uint16_t number : {0, 11, 12, 14, 15, 19, 0xffff}) {
        EXPECT_EQ(run(command(number)).error(), std::errc::operation_not_supported) << number;
    }
    Message reset = command(VFIO_USER_DEVICE_RESET);
    reset.fds = one(shared_file(0));
    EXPECT_FALSE(run(std::move(reset)));
    EXPECT_FALSE(run(command(VFIO_USER_DEVICE_RESET, std::uint32_t{0})));
}

} // namespace
} // namespace vrdma::vfio_user::test
