// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
// Commands that librdmacm writes, and invalid ones.
#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <poll.h>

#include "network.h"

namespace vrdma::cm
{
namespace
{

class Ucma : public Network
{
      protected:
	template <typename Command>
	int write(uint32_t number, const Command &command, uint16_t out = 0, size_t cut = 0)
	{
		const rdma_ucm_cmd_hdr header{number, static_cast<uint16_t>(sizeof(command) - cut),
					      out};
		std::vector<char> bytes(sizeof(header) + sizeof(command) - cut);
		std::memcpy(bytes.data(), &header, sizeof(header));
		std::memcpy(bytes.data() + sizeof(header), &command, sizeof(command) - cut);
		return vrdma_cm_command(client.channel, bytes.data(), bytes.size());
	}

	uint32_t create()
	{
		rdma_ucm_create_id_resp resp{};
		rdma_ucm_create_id command{};
		command.uid = 1;
		command.ps = RDMA_PS_TCP;
		command.response = reinterpret_cast<uintptr_t>(&resp);
		EXPECT_EQ(write(RDMA_USER_CM_CMD_CREATE_ID, command, sizeof(resp)), 0);
		return resp.id;
	}

	// Returns a request to connect to an existing listener.
	rdma_ucm_connect request_to_connect()
	{
		server.listen(7000);
		connecting = client.resolve(ipv4(server.address, 7000));
		rdma_ucm_connect connect{};
		connect.conn_param = parameters(0x111, "question");
		connect.conn_param.valid = 1;
		connect.id = connecting->handle;
		return connect;
	}

	bool readable() const
	{
		pollfd fd{client.channel->fd, POLLIN, 0};
		return poll(&fd, 1, 0) == 1;
	}
};

// Create, resolve and destroy an id; expect events and answers like the kernel's.
TEST_F(Ucma, ALife)
{
	const uint32_t id = create();
	rdma_ucm_resolve_ip resolve{};
	const Address to = ipv4("10.0.0.1", 7000);
	std::memcpy(&resolve.dst_addr, &to.in, sizeof(to.in));
	resolve.id = id;
	EXPECT_FALSE(readable());
	ASSERT_EQ(write(RDMA_USER_CM_CMD_RESOLVE_IP, resolve), 0);
	EXPECT_TRUE(readable());

	rdma_ucm_event_resp event{};
	rdma_ucm_get_event get{reinterpret_cast<uintptr_t>(&event)};
	ASSERT_EQ(write(RDMA_USER_CM_CMD_GET_EVENT, get, sizeof(event)), 0);
	EXPECT_EQ(event.uid, 1U);
	EXPECT_EQ(event.id, id);
	EXPECT_EQ(event.event, VRDMA_CM_ADDR_RESOLVED);
	EXPECT_FALSE(readable());
	EXPECT_EQ(write(RDMA_USER_CM_CMD_GET_EVENT, get, sizeof(event)), EAGAIN);

	rdma_ucm_query_route_resp route{};
	rdma_ucm_query query{reinterpret_cast<uintptr_t>(&route), id, 0};
	ASSERT_EQ(write(RDMA_USER_CM_CMD_QUERY_ROUTE, query, sizeof(route)), 0);
	EXPECT_EQ(route.port_num, 1);
	EXPECT_EQ(route.num_paths, 0U);
	EXPECT_EQ(route.ib_route[0].dgid[15], 1);

	rdma_ucm_destroy_id_resp destroyed{};
	rdma_ucm_destroy_id destroy{reinterpret_cast<uintptr_t>(&destroyed), id, 0};
	ASSERT_EQ(write(RDMA_USER_CM_CMD_DESTROY_ID, destroy, sizeof(destroyed)), 0);
	EXPECT_EQ(destroyed.events_reported, 1U);
	EXPECT_EQ(write(RDMA_USER_CM_CMD_DESTROY_ID, destroy, sizeof(destroyed)), ENOENT);
}

// Expect errors for commands that are cut short, longer than the write, unknown, or that name an id
// of another channel.
TEST_F(Ucma, RefusesWhatIsWrong)
{
	const uint32_t id = create();
	rdma_ucm_listen listen{id, 1};
	EXPECT_EQ(write(RDMA_USER_CM_CMD_LISTEN, listen, 0, 1), EINVAL);
	EXPECT_EQ(write(RDMA_USER_CM_CMD_GET_OPTION, listen), ENOSYS);
	EXPECT_EQ(write(RDMA_USER_CM_CMD_BIND, listen), ENOSYS);
	EXPECT_EQ(write(1000, listen), EINVAL);
	const rdma_ucm_cmd_hdr header{RDMA_USER_CM_CMD_LISTEN, sizeof(listen), 0};
	EXPECT_EQ(vrdma_cm_command(client.channel, &header, sizeof(header)), EINVAL);
	EXPECT_EQ(vrdma_cm_command(client.channel, &header, sizeof(header) - 1), EINVAL);
	for (const uint32_t wrong : {0U, id + 1, 0xffffffffU, server.create()->handle}) {
		listen.id = wrong;
		EXPECT_EQ(write(RDMA_USER_CM_CMD_LISTEN, listen), ENOENT);
	}
	rdma_ucm_query_route_resp route{};
	const rdma_ucm_query query{reinterpret_cast<uintptr_t>(&route), id, 0};
	EXPECT_EQ(write(RDMA_USER_CM_CMD_QUERY_ROUTE, query, 8), ENOSPC);
	rdma_ucm_create_id ib{};
	ib.ps = RDMA_PS_IB;
	EXPECT_EQ(write(RDMA_USER_CM_CMD_CREATE_ID, ib, 4), EPROTONOSUPPORT);
	const rdma_ucm_connect invalid{};
	EXPECT_EQ(write(RDMA_USER_CM_CMD_CONNECT, invalid), ENOENT);
}

// Connect with ECE, as two devices of a vendor do; expect each side to get the other's options.
TEST_F(Ucma, BothSidesLearnOfEce)
{
	rdma_ucm_connect connect = request_to_connect();
	connect.ece = {.vendor_id = 0xff123456, .attr_mod = 0x89abcdef}; // a vendor id has 24 bits
	ASSERT_EQ(write(RDMA_USER_CM_CMD_CONNECT, connect), 0);
	carry_all();
	const Event request = server.take();
	ASSERT_TRUE(request);
	EXPECT_EQ(request->resp.ece.vendor_id, 0x123456U);
	EXPECT_EQ(request->resp.ece.attr_mod, 0x89abcdefU);

	accepting = vrdma_cm_id_find(request->resp.id, server.channel);
	accepting->ece = {.vendor_id = 0x123456, .attr_mod = 0x80000001};
	accept();
	carry_all();
	const Event response = client.take();
	ASSERT_TRUE(response);
	EXPECT_EQ(response->resp.ece.vendor_id, 0x123456U);
	EXPECT_EQ(response->resp.ece.attr_mod, 0x80000001U);
	EXPECT_EQ(response->resp.param.conn.qp_num, 0x222U);
}

// Connect like a program that does not know ECE; expect no ECE options.
TEST_F(Ucma, OlderProgramsHaveNoEce)
{
	rdma_ucm_connect connect = request_to_connect();
	connect.ece = {.vendor_id = 1, .attr_mod = 1};
	ASSERT_EQ(write(RDMA_USER_CM_CMD_CONNECT, connect, 0, sizeof(connect.ece)), 0);
	carry_all();
	const Event request = server.take();
	ASSERT_TRUE(request);
	EXPECT_EQ(request->resp.ece.vendor_id, 0U);
	EXPECT_EQ(request->resp.ece.attr_mod, 0U);
}

// Write an event as rdma_resolve_addrinfo() of newer releases does; expect to read it. Expect an
// error for an event that only the connection manager has.
TEST_F(Ucma, ProgramsWriteEvents)
{
	struct {
		uint32_t id, reserved, event, status;
		uint64_t arg;
		unsigned char rest[sizeof(rdma_ucm_ud_param) - sizeof(uint64_t)];
	} written{create(), 0, VRDMA_CM_USER, 5, 0x1122334455667788, {}};
	const uint32_t number = RDMA_USER_CM_CMD_JOIN_MCAST + 2;
	ASSERT_EQ(write(number, written), 0);
	const Event event = client.take();
	ASSERT_TRUE(event);
	EXPECT_EQ(event->resp.id, written.id);
	EXPECT_EQ(event->resp.event, VRDMA_CM_USER);
	EXPECT_EQ(event->resp.status, 5U);
	EXPECT_EQ(std::memcmp(&event->resp.param, &written.arg, sizeof(written.arg)), 0);

	written.event = VRDMA_CM_ESTABLISHED;
	EXPECT_EQ(write(number, written), EINVAL);
	EXPECT_FALSE(client.take());
}

// Get a file whose number is too large; expect the error for too many open files.
TEST_F(Ucma, FilesHaveABound)
{
	errno = 0;
	EXPECT_EQ(vrdma_cm_channel_new(client.channel->fd), nullptr);
	EXPECT_EQ(errno, EMFILE);
}

// Set options; expect errors for a wrong length, value or level.
TEST_F(Ucma, Options)
{
	int value = 1;
	rdma_ucm_set_option option{};
	option.optval = reinterpret_cast<uintptr_t>(&value);
	option.id = create();
	option.optname = RDMA_OPTION_ID_REUSEADDR;
	option.optlen = sizeof(value);
	EXPECT_EQ(write(RDMA_USER_CM_CMD_SET_OPTION, option), 0);
	option.optlen = 1;
	EXPECT_EQ(write(RDMA_USER_CM_CMD_SET_OPTION, option), EINVAL);
	option.optname = RDMA_OPTION_ID_ACK_TIMEOUT;
	EXPECT_EQ(write(RDMA_USER_CM_CMD_SET_OPTION, option), 0);
	value = 32;
	EXPECT_EQ(write(RDMA_USER_CM_CMD_SET_OPTION, option), EINVAL);
	option.level = RDMA_OPTION_IB;
	EXPECT_EQ(write(RDMA_USER_CM_CMD_SET_OPTION, option), ENOSYS);
}

// Move an id with an unread event to another channel; expect the event there.
TEST_F(Ucma, IdsMigrateWithTheirEvents)
{
	vrdma_cm_id *id = server.create();
	const Address none{};
	const Address to = ipv4("10.0.0.2", 7000);
	ASSERT_EQ(vrdma_cm_resolve(id, &none, &to), 0);
	rdma_ucm_migrate_resp resp{};
	rdma_ucm_migrate_id migrate{reinterpret_cast<uintptr_t>(&resp), id->handle,
				    static_cast<uint32_t>(server.channel->fd)};
	ASSERT_EQ(write(RDMA_USER_CM_CMD_MIGRATE_ID, migrate, sizeof(resp)), 0);
	EXPECT_EQ(resp.events_reported, 0U);
	EXPECT_EQ(server.type(), -1);
	EXPECT_TRUE(readable());
	EXPECT_EQ(client.type(), VRDMA_CM_ADDR_RESOLVED);
	EXPECT_EQ(write(RDMA_USER_CM_CMD_MIGRATE_ID, migrate, sizeof(resp)), ENOENT);
	migrate.fd = 0;
	EXPECT_EQ(write(RDMA_USER_CM_CMD_MIGRATE_ID, migrate, sizeof(resp)), EINVAL);
}

} // namespace
} // namespace vrdma::cm
