// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <cerrno>

#include "network.h"

namespace vrdma::cm
{
namespace
{

class Resolve : public Network
{
      protected:
	int bind(const char *address, uint16_t port, bool reuse = false)
	{
		const Address wanted = ipv4(address, port);
		last = client.create();
		last->reuse = reuse;
		return vrdma_cm_bind(last, &wanted);
	}

	vrdma_cm_id *last = nullptr;
};

// Bind to a device's address, to the wildcard address and to another one; expect that device, no
// device, and an error.
TEST_F(Resolve, AddressesAreThoseOfDevices)
{
	EXPECT_EQ(bind("10.0.0.1", 1), 0);
	EXPECT_EQ(last->port, &server.port);
	EXPECT_EQ(bind("0.0.0.0", 2), 0);
	EXPECT_EQ(last->port, nullptr);
	EXPECT_EQ(bind("10.0.0.3", 3), EADDRNOTAVAIL);
	const Address unknown{};
	EXPECT_EQ(vrdma_cm_bind(client.create(), &unknown), EAFNOSUPPORT);
}

// Bind to a loopback address; expect no device, as for the wildcard address, until the id resolves
// an address. Expect that a loopback address cannot be resolved.
TEST_F(Resolve, ALoopbackAddressIsNoDevices)
{
	const Address none{};
	const Address to = ipv4("10.0.0.3", 7000);
	EXPECT_EQ(bind("127.0.0.1", 1), 0);
	EXPECT_EQ(last->port, nullptr);
	EXPECT_EQ(vrdma_cm_resolve(last, &none, &to), 0);
	EXPECT_EQ(last->source.in.sin_addr.s_addr, ipv4("10.0.0.2", 0).in.sin_addr.s_addr);
	EXPECT_EQ(last->peer.sgid_index, 3);
	const Address loopback = ipv4("127.0.0.1", 7000);
	EXPECT_EQ(vrdma_cm_resolve(client.create(), &none, &loopback), ENETUNREACH);
	uint32_t handle;
	vrdma_cm_id *id = client.create(RDMA_PS_UDP);
	EXPECT_EQ(vrdma_cm_bind(id, &loopback), 0);
	EXPECT_EQ(vrdma_cm_join(id, &to, 1, &handle), EINVAL);
}

// Listen at a loopback address; expect requests for any device's address to find the listener, as
// in Linux.
TEST_F(Resolve, WhoListensAtALoopbackAddressListensEverywhere)
{
	EXPECT_EQ(bind("127.0.0.1", 7000), 0);
	EXPECT_EQ(vrdma_cm_listen(last, 1), 0);
	for (Side *side : {&server, &client}) {
		const Address asked = ipv4(side->address, 7000);
		const uint64_t service = vrdma_cm_service_id(last, &asked);
		EXPECT_EQ(vrdma_cm_find_listener(&side->port, service, &asked), last);
	}
}

// With a device that has a loopback address, bind to it, listen there and resolve it; expect that
// device, and no listener at another address. Expect that no device has other loopback addresses.
TEST_F(Resolve, ALoopbackAddressMayBeADevices)
{
	Side local("127.0.0.2");
	const Address none{};
	const Address own = ipv4("127.0.0.2", 7000);
	EXPECT_EQ(bind("127.0.0.2", 7000), 0);
	EXPECT_EQ(last->port, &local.port);
	EXPECT_EQ(vrdma_cm_listen(last, 1), 0);
	const uint64_t service = vrdma_cm_service_id(last, &own);
	EXPECT_EQ(vrdma_cm_find_listener(&local.port, service, &own), last);
	const Address elsewhere = ipv4("10.0.0.1", 7000);
	EXPECT_EQ(vrdma_cm_find_listener(&server.port, service, &elsewhere), nullptr);
	EXPECT_EQ(bind("127.0.0.1", 7000), EADDRNOTAVAIL);
	const Address peer = ipv4("127.0.0.3", 7000);
	for (const Address *to : {&own, &peer}) {
		vrdma_cm_id *id = client.create();
		EXPECT_EQ(vrdma_cm_resolve(id, &none, to), 0);
		EXPECT_EQ(id->port, &local.port);
	}
}

// The same for the single loopback address of IPv6; expect that no device has those of IPv4.
TEST_F(Resolve, TheLoopbackAddressOfIpv6MayBeADevices)
{
	Side local("10.1.0.1");
	const Address none{};
	Address own{};
	own.in6.sin6_family = AF_INET6;
	own.in6.sin6_addr = IN6ADDR_LOOPBACK_INIT;
	EXPECT_EQ(vrdma_cm_resolve(client.create(), &none, &own), ENETUNREACH);
	vrdma_cm_to_gid(&own, &local.port.gids.entries[3]);
	vrdma_cm_id *id = client.create();
	EXPECT_EQ(vrdma_cm_resolve(id, &none, &own), 0);
	EXPECT_EQ(id->port, &local.port);
	EXPECT_EQ(id->peer.sgid_index, 3);
	EXPECT_EQ(bind("127.0.0.1", 7000), 0);
	EXPECT_EQ(last->port, nullptr);
}

// Bind to a port twice; expect success if addresses or port spaces differ, or if both ids share it.
TEST_F(Resolve, APortIsOnes)
{
	EXPECT_EQ(bind("10.0.0.1", 7000), 0);
	EXPECT_EQ(bind("10.0.0.1", 7000), EADDRINUSE);
	EXPECT_EQ(bind("0.0.0.0", 7000), EADDRINUSE);
	EXPECT_EQ(bind("10.0.0.2", 7000), 0);
	EXPECT_EQ(bind("10.0.0.1", 7001, true), 0);
	EXPECT_EQ(bind("10.0.0.1", 7001, true), 0);
	EXPECT_EQ(bind("10.0.0.1", 7001), EADDRINUSE);
	const Address same = ipv4("10.0.0.1", 7000);
	EXPECT_EQ(vrdma_cm_bind(client.create(RDMA_PS_UDP), &same), 0);
}

// Bind to port 0; expect a port that no other id has.
TEST_F(Resolve, APortIsPicked)
{
	EXPECT_EQ(bind("10.0.0.1", 0), 0);
	const uint16_t first = ntohs(last->source.in.sin_port);
	EXPECT_GE(first, 32768);
	EXPECT_EQ(bind("10.0.0.1", 0), 0);
	EXPECT_NE(ntohs(last->source.in.sin_port), first);
}

constexpr uint64_t tcp_7000 = 0x01060000 | 7000;

// Bind to a port; expect it to be reserved with the devices until the id is gone. Expect no
// reservation for an id that only connects.
TEST_F(Resolve, APortIsReservedWithTheDevices)
{
	EXPECT_EQ(bind("0.0.0.0", 7000), 0);
	EXPECT_EQ(vrdma_cm_listen(last, 1), 0);
	EXPECT_EQ(server.listening.count(tcp_7000), 1U);
	EXPECT_EQ(client.listening.count(tcp_7000), 1U);
	vrdma_cm_destroy(last);
	EXPECT_TRUE(server.listening.empty());
	EXPECT_TRUE(client.listening.empty());
	client.resolve(ipv4("10.0.0.1", 7000));
	EXPECT_TRUE(client.listening.empty());
}

// Bind to a port of all devices and resolve an address; expect the port to be reserved with the
// chosen device only, and with none when the id is gone.
TEST_F(Resolve, AReservationIsThatOfTheChosenDevice)
{
	const Address none{};
	const Address peer = ipv4("10.0.0.3", 7000);
	EXPECT_EQ(bind("0.0.0.0", 7000), 0);
	EXPECT_EQ(vrdma_cm_resolve(last, &none, &peer), 0);
	EXPECT_EQ(last->port, &client.port);
	EXPECT_EQ(client.listening.count(tcp_7000), 1U);
	EXPECT_TRUE(server.listening.empty());
	vrdma_cm_destroy(last);
	EXPECT_TRUE(client.listening.empty());
}

// Bind to a port that another program has on a device; expect EADDRINUSE for that device's address,
// for the wildcard address, and for an id that shares the port when it listens.
TEST_F(Resolve, OtherProgramsHavePorts)
{
	client.is_elsewhere = [](uint64_t service) { return service == tcp_7000; };
	EXPECT_EQ(bind("10.0.0.2", 7000), EADDRINUSE);
	EXPECT_EQ(last->state, VRDMA_CM_IDLE);
	EXPECT_EQ(bind("0.0.0.0", 7000), EADDRINUSE);
	EXPECT_TRUE(server.listening.empty());
	EXPECT_EQ(bind("10.0.0.1", 7000), 0);
	EXPECT_EQ(bind("10.0.0.2", 7000, true), 0);
	EXPECT_EQ(vrdma_cm_listen(last, 1), EADDRINUSE);
	EXPECT_EQ(last->state, VRDMA_CM_BOUND);
}

// Bind to a port of both devices, and remove one device; expect the other to keep its reservation.
TEST_F(Resolve, AReservationGoesWithItsDevice)
{
	EXPECT_EQ(bind("10.0.0.1", 7000), 0);
	EXPECT_EQ(bind("10.0.0.2", 7000), 0);
	vrdma_cm_port_gone(&client.port);
	vrdma_cm_destroy(last);
	EXPECT_EQ(server.listening.count(tcp_7000), 1U);
}

// Bind to port 0 while other programs have all even ports; expect an odd one.
TEST_F(Resolve, APortIsPickedThatNoProgramHas)
{
	client.is_elsewhere = [](uint64_t service) { return service % 2 == 0; };
	EXPECT_EQ(bind("10.0.0.2", 0), 0);
	EXPECT_EQ(ntohs(last->source.in.sin_port) % 2, 1);
	client.is_elsewhere = [](uint64_t) { return true; };
	EXPECT_EQ(bind("10.0.0.2", 0), EADDRINUSE);
}

// Resolve without a source; expect the device whose address shares most bits with the destination.
TEST_F(Resolve, TheNearestDeviceIsTaken)
{
	Side other("10.1.0.1");
	const Address none{};
	for (const auto &[destination, port] :
	     {std::pair{"10.1.2.3", &other.port}, {"10.0.0.3", &client.port}}) {
		const Address to = ipv4(destination, 7000);
		vrdma_cm_id *id = client.create();
		ASSERT_EQ(vrdma_cm_resolve(id, &none, &to), 0);
		EXPECT_EQ(id->port, port);
		EXPECT_EQ(client.type(), VRDMA_CM_ADDR_RESOLVED);
	}
}

// Resolve unreachable addresses: of a family that no device has, the wildcard, and an empty one.
TEST_F(Resolve, WhatCannotBeReached)
{
	const Address none{};
	Address ipv6{};
	ipv6.in6.sin6_family = AF_INET6;
	EXPECT_EQ(vrdma_cm_resolve(client.create(), &none, &ipv6), ENETUNREACH);
	const Address any = ipv4("0.0.0.0", 7000);
	EXPECT_EQ(vrdma_cm_resolve(client.create(), &none, &any), ENETUNREACH);
	EXPECT_EQ(vrdma_cm_resolve(client.create(), &none, &none), EAFNOSUPPORT);
	const Address to = ipv4("10.0.0.1", 7000);
	vrdma_cm_id *id = client.resolve(to);
	EXPECT_EQ(vrdma_cm_resolve(id, &none, &to), EINVAL);
}

} // namespace
} // namespace vrdma::cm
