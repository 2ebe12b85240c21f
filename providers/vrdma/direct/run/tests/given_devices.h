/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef VRDMA_TESTS_GIVEN_DEVICES_H
#define VRDMA_TESTS_GIVEN_DEVICES_H

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

/*
 * Devices that the program was given, none of which exists. Devices 0 and 3 have the address of lo,
 * which every host has. Devices 1 and 2 have no address of an interface. 198.51.100.0/24 is for
 * documentation, so no interface has its addresses.
 */
class GivenDevices : public testing::Test
{
      protected:
	void SetUp() override
	{
		setenv("VRDMA_RUN_DEVICES",
		       "/a,198.51.100.1,127.0.0.1;/b,198.51.100.2,2001:db8::2;/c;/d,127.0.0.1", 1);
	}
	void TearDown() override
	{
		unsetenv("VRDMA_RUN_DEVICES");
	}

	/* The directory of a device's interfaces. */
	static std::string directory(int device)
	{
		return "/sys/class/infiniband/vrdma" + std::to_string(device) + "/device/net";
	}
};

#endif
