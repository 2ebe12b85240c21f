// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <map>
#include <set>
#include <string>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <gtest/gtest.h>

#include "given_devices.h"

namespace
{

using Interfaces = GivenDevices;

std::string text(const sockaddr *address)
{
	char buffer[INET6_ADDRSTRLEN] = "";

	if (address->sa_family == AF_INET)
		inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in *>(address)->sin_addr,
			  buffer, sizeof(buffer));
	else
		inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr,
			  buffer, sizeof(buffer));
	return buffer;
}

/* Each IP address, with the interfaces that getifaddrs() reports for it. */
std::map<std::string, std::multiset<std::string>> carriers()
{
	std::map<std::string, std::multiset<std::string>> found;
	ifaddrs *list = nullptr;

	EXPECT_EQ(getifaddrs(&list), 0);
	for (const ifaddrs *entry = list; entry; entry = entry->ifa_next) {
		const sockaddr *address = entry->ifa_addr;

		if (address && (address->sa_family == AF_INET || address->sa_family == AF_INET6))
			found[text(address)].insert(entry->ifa_name);
	}
	freeifaddrs(list);
	return found;
}

using Carriers = std::multiset<std::string>;

TEST_F(Interfaces, AreMadeUpForAddressesThatNoneCarries)
{
	auto found = carriers();

	EXPECT_EQ(found["198.51.100.1"], Carriers{"vrdma0"});
	EXPECT_EQ(found["198.51.100.2"], Carriers{"vrdma1"});
	EXPECT_EQ(found["2001:db8::2"], Carriers{"vrdma1"});
}

/* Of two devices that have the address, the first gets the interface. */
TEST_F(Interfaces, AreMadeUpForAddressesOfLoopback)
{
	auto found = carriers();

	EXPECT_EQ(found["127.0.0.1"], (Carriers{"lo", "vrdma0"}));
}

TEST_F(Interfaces, AreThoseOfTheHostWithoutDevices)
{
	unsetenv("VRDMA_RUN_DEVICES");
	auto found = carriers();

	EXPECT_EQ(found.count("198.51.100.1"), 0U);
	EXPECT_EQ(found["127.0.0.1"], Carriers{"lo"});
}

TEST_F(Interfaces, AreUpAndStandAlone)
{
	const std::set<std::string> made_up{"vrdma0", "vrdma1"};
	ifaddrs *list = nullptr;
	unsigned int ours = 0;

	ASSERT_EQ(getifaddrs(&list), 0);
	for (const ifaddrs *entry = list; entry; entry = entry->ifa_next)
		if (made_up.contains(entry->ifa_name)) {
			const std::string mask = text(entry->ifa_netmask);

			EXPECT_TRUE(mask == "255.255.255.255" ||
				    mask == "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
			EXPECT_NE(entry->ifa_flags, 0U);
			ours++;
		}
	freeifaddrs(list);
	EXPECT_EQ(ours, 4U);
	freeifaddrs(nullptr);
}

} // namespace
