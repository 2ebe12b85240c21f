// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <fcntl.h>
#include <linux/pci_regs.h>
#include <sys/eventfd.h>

#include "mediator/frontend/vfio_user/tests/driver.h"

namespace vrdma::vfio_user::test {
namespace {

class ConfigSpaceTest : public ::testing::Test {
  protected:
    template <typename T>
    T read(std::uint32_t offset) {
        T value{};
        driver_.function().read(VFIO_PCI_CONFIG_REGION_INDEX, offset,
                                std::as_writable_bytes(std::span{&value, 1}));
        return value;
    }
    template <typename T>
    void write(std::uint32_t offset, T value) {
        driver_.function().write(VFIO_PCI_CONFIG_REGION_INDEX, offset,
                                 std::as_bytes(std::span{&value, 1}));
    }

    std::uint32_t status() { return driver_.read(VRDMA_REG_STATUS); }

    // Returns how often vector 0 was signalled since the last call.
    eventfd_t signals() const {
        eventfd_t count = 0;
        return ::eventfd_read(vector_->fd(), &count) == 0 ? count : 0;
    }

    void SetUp() override {
        std::vector<UniqueFd> fds;
        fds.emplace_back(::fcntl(vector_->fd(), F_DUPFD_CLOEXEC, 0));
        EXPECT_TRUE(driver_.function().interrupts().set(0, std::move(fds)));
    }

    Bench bench_;
    Driver driver_{bench_.make_function()};
    Result<EventFd> vector_ = EventFd::create();
};

// Follow the list of capabilities; expect MSI-X, power management and PCI Express with a reset.
TEST_F(ConfigSpaceTest, HasCapabilities) {
    std::vector<std::uint8_t> ids;
    for (std::uint8_t at = read<std::uint8_t>(PCI_CAPABILITY_LIST); at != 0;
         at = read<std::uint8_t>(at + PCI_CAP_LIST_NEXT)) {
        ids.push_back(read<std::uint8_t>(at));
    }
    EXPECT_EQ(ids, (std::vector<std::uint8_t>{PCI_CAP_ID_MSIX, PCI_CAP_ID_PM, PCI_CAP_ID_EXP}));
    EXPECT_NE(read<std::uint32_t>(VRDMA_PCI_EXP_CAPABILITY + PCI_EXP_DEVCAP) & PCI_EXP_DEVCAP_FLR,
              0u);
}

// Clear Bus Master of an enabled device and ask it for a command; expect it to be reset, its driver
// to be told, and no byte of memory to be written.
TEST_F(ConfigSpaceTest, ClearingBusMasterStopsTheDevice) {
    ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    ASSERT_EQ(driver_.create_eq().status, 0u);
    static_cast<void>(signals());
    driver_.command(PCI_COMMAND_MEMORY);
    EXPECT_EQ(status(), VRDMA_STATUS_READY);
    EXPECT_EQ(signals(), 1u);
    EXPECT_EQ(driver_.run(VRDMA_ADMIN_QUERY_DEVICE).header, 0u);
}

// Clear Bus Master of an enabled device, and set it twice; expect its driver to be told again,
// once. An emulator delivers no interrupt of a function that is no bus master.
TEST_F(ConfigSpaceTest, ADriverLearnsOfAResetWhenInterruptsReachIt) {
    ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    driver_.command(PCI_COMMAND_MEMORY);
    static_cast<void>(signals());
    driver_.command(PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
    EXPECT_EQ(signals(), 1u);
    driver_.command(PCI_COMMAND_MASTER);
    EXPECT_EQ(signals(), 0u);
}

// Reset a device whose driver was not told; expect the next driver not to be told.
TEST_F(ConfigSpaceTest, AResetOfTheFunctionForgetsWhatADriverWasToBeTold) {
    ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    driver_.command(0);
    static_cast<void>(signals());
    driver_.function().reset();
    driver_.command(PCI_COMMAND_MASTER);
    EXPECT_EQ(signals(), 0u);
}

// Clear Bus Master of a device that nobody has enabled; expect no interrupt.
TEST_F(ConfigSpaceTest, AnIdleDeviceIsSilent) {
    driver_.command(0);
    EXPECT_EQ(status(), VRDMA_STATUS_READY);
    EXPECT_EQ(signals(), 0u);
}

// Enable a device without Bus Master; expect it to be FATAL, and to work after a reset with it.
TEST_F(ConfigSpaceTest, WithoutBusMasterADeviceCannotBeEnabled) {
    driver_.command(0);
    EXPECT_EQ(driver_.enable(), VRDMA_STATUS_FATAL);
    driver_.write(VRDMA_REG_CONTROL, VRDMA_CONTROL_RESET);
    driver_.command(PCI_COMMAND_MASTER);
    ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    EXPECT_EQ(driver_.run(VRDMA_ADMIN_QUERY_DEVICE).status, 0u);
}

// Ask for a Function Level Reset; expect device and configuration space as they were at first.
TEST_F(ConfigSpaceTest, ResetsTheFunction) {
    constexpr std::uint32_t control = VRDMA_PCI_EXP_CAPABILITY + PCI_EXP_DEVCTL;
    ASSERT_EQ(driver_.enable(), VRDMA_STATUS_ENABLED);
    write(PCI_BASE_ADDRESS_0, 0xfebf0000u);
    write(control, std::uint16_t{PCI_EXP_DEVCTL_RELAX_EN});
    EXPECT_EQ(status(), VRDMA_STATUS_ENABLED);
    write(control + 1, static_cast<std::uint8_t>(PCI_EXP_DEVCTL_BCR_FLR >> 8));
    EXPECT_EQ(status(), VRDMA_STATUS_READY);
    EXPECT_EQ(read<std::uint32_t>(PCI_BASE_ADDRESS_0), 0u);
    EXPECT_EQ(read<std::uint16_t>(PCI_COMMAND), 0u);
    EXPECT_EQ(read<std::uint16_t>(control), 0u);
}

} // namespace
} // namespace vrdma::vfio_user::test
