// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "vrdmadv.h"

#include <cerrno>
#include <string>

#include <gtest/gtest.h>

namespace
{

TEST(Vrdmadv, ListsWhatItIsGiven)
{
	const vrdmadv_device_attr attr[] = {
		{"/run/a", nullptr, nullptr, 0},
		{"/run/b", "mine", "10.0.0.1,fd00::1", 0},
	};
	ibv_device **list = vrdmadv_get_device_list(attr, 2);
	ASSERT_NE(list, nullptr);
	EXPECT_STREQ(ibv_get_device_name(list[0]), "vrdma0");
	EXPECT_STREQ(ibv_get_device_name(list[1]), "mine");
	EXPECT_EQ(list[2], nullptr);
	EXPECT_EQ(list[0]->node_type, IBV_NODE_CA);
	EXPECT_TRUE(vrdmadv_is_device(list[0]));
	ibv_free_device_list(list);
}

// List the same devices twice, the second time in another order; expect the same devices. Expect
// another device if any attribute differs.
TEST(Vrdmadv, ADeviceIsTheSameInAllLists)
{
	const vrdmadv_device_attr attr[] = {{"/run/a", "a", "10.0.0.1", 0},
					    {"/run/a", "b", "10.0.0.1", 0},
					    {"/run/a", "a", "10.0.0.2", 0},
					    {"/run/b", "a", "10.0.0.1", 0}};
	const vrdmadv_device_attr turned[] = {attr[3], attr[2], attr[1], attr[0]};
	ibv_device **list = vrdmadv_get_device_list(attr, 4);
	ibv_device **other = vrdmadv_get_device_list(turned, 4);
	ASSERT_TRUE(list && other);
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(list[i], other[3 - i]);
		EXPECT_NE(list[i], other[i]);
	}
	ibv_free_device_list(list);
	EXPECT_STREQ(ibv_get_device_name(other[2]), "b");
	ibv_free_device_list(other);
}

TEST(Vrdmadv, AnEmptyListIsOne)
{
	ibv_device **list = vrdmadv_get_device_list(nullptr, 0);
	ASSERT_NE(list, nullptr);
	EXPECT_EQ(list[0], nullptr);
	ibv_free_device_list(list);
}

void expect_invalid(const vrdmadv_device_attr &attr)
{
	errno = 0;
	EXPECT_EQ(vrdmadv_get_device_list(&attr, 1), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

TEST(Vrdmadv, RefusesWhatIsWrong)
{
	const std::string long_name(IBV_SYSFS_NAME_MAX, 'x');
	std::string many = "10.0.0.1";
	for (int i = 0; i < 16; i++)
		many += ",10.0.0.1";

	expect_invalid({nullptr, nullptr, nullptr, 0});
	expect_invalid({"/run/a", long_name.c_str(), nullptr, 0});
	expect_invalid({"/run/a", nullptr, "10.0.0", 0});
	expect_invalid({"/run/a", nullptr, "10.0.0.1,,10.0.0.2", 0});
	expect_invalid({"/run/a", nullptr, many.c_str(), 0});
	expect_invalid({"/run/a", nullptr, nullptr, 1});
	errno = 0;
	EXPECT_EQ(vrdmadv_get_device_list(nullptr, -1), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

TEST(Vrdmadv, OpeningWhatIsNotThereFails)
{
	const vrdmadv_device_attr attr{"/nonexistent/socket", nullptr, nullptr, 0};
	ibv_device **list = vrdmadv_get_device_list(&attr, 1);
	ASSERT_NE(list, nullptr);
	errno = 0;
	EXPECT_EQ(ibv_open_device(list[0]), nullptr);
	EXPECT_EQ(errno, ENOENT);
	ibv_free_device_list(list);
}

} // namespace
