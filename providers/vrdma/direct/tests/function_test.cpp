// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Tests reset and identification of a function.
#include "device.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include <gtest/gtest.h>

#include "fake_bus.h"

namespace vrdma::test
{
namespace
{

constexpr std::array<uint8_t, 6> new_mac{0x02, 0x11, 0x22, 0x33, 0x44, 0x55};

class Function : public testing::Test
{
      protected:
	Function() : fn(std::make_unique<vrdma_function>())
	{
		bus.doorbells_size = VRDMA_DOORBELL_PAGE_SIZE;
		bus.registers[VRDMA_REG_MAGIC] = VRDMA_MAGIC;
		bus.registers[VRDMA_REG_VERSION] = VRDMA_VERSION;
		bus.registers[VRDMA_REG_DOORBELL_PAGES] = 1;
		bus.registers[VRDMA_REG_VECTORS] = 1;
		bus.registers[VRDMA_REG_STATUS] = 0;
	}

	FakeBus bus;
	std::unique_ptr<vrdma_function> fn;
};

// The administrator has changed the MAC between two openings: the reset shows the new one.
TEST_F(Function, ItsMacIsThatOfItsReset)
{
	bus.registers[VRDMA_REG_MAC_LOW] = 0xdeadbeef;
	bus.on_write = [this](uint32_t offset, uint32_t value) {
		if (offset != VRDMA_REG_CONTROL || value != VRDMA_CONTROL_RESET)
			return;
		bus.registers[VRDMA_REG_MAC_LOW] = 0x33221102;
		bus.registers[VRDMA_REG_MAC_HIGH] = 0x5544;
		bus.registers[VRDMA_REG_STATUS] = VRDMA_STATUS_READY;
	};
	ASSERT_EQ(vrdma_function_init(fn.get(), &bus), 0);
	EXPECT_TRUE(std::equal(new_mac.begin(), new_mac.end(), fn->id.mac));
	vrdma_function_cleanup(fn.get());
}

// A device that is no vrdma function is not reset.
TEST_F(Function, WhatIsNoneIsLeftAlone)
{
	bus.on_write = [](uint32_t, uint32_t) { FAIL(); };
	bus.registers[VRDMA_REG_MAGIC] = 0;
	EXPECT_EQ(vrdma_function_init(fn.get(), &bus), -ENODEV);
	bus.registers[VRDMA_REG_MAGIC] = VRDMA_MAGIC;
	bus.registers[VRDMA_REG_DOORBELL_PAGES] = 2;
	EXPECT_EQ(vrdma_function_init(fn.get(), &bus), -ENODEV) << "there is no room for them";
}

} // namespace
} // namespace vrdma::test
