// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
// Two devices, 10.0.0.1 and 10.0.0.2, each with the channel of a program. The tests carry messages
// between them.
#ifndef VRDMA_CM_TESTS_NETWORK_H
#define VRDMA_CM_TESTS_NETWORK_H

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "cm/cm.h"

namespace vrdma::cm
{

using Address = vrdma_cm_address;
using Event = std::unique_ptr<vrdma_cm_event, decltype(&std::free)>;

inline Address ipv4(const char *text, uint16_t port)
{
	Address address{};
	address.in.sin_family = AF_INET;
	address.in.sin_port = htons(port);
	EXPECT_EQ(inet_pton(AF_INET, text, &address.in.sin_addr), 1);
	return address;
}

// A device and a program that has a channel open on it.
struct Side {
	explicit Side(const char *text) : address(text), channel(vrdma_cm_channel_new(1024))
	{
		const Address own = ipv4(text, 0);
		port.gids.count = 4;
		port.gids.entries[1].raw[0] = 0xfe;
		vrdma_cm_to_gid(&own, &port.gids.entries[2]);
		port.gids.entries[3] = port.gids.entries[2];
		port.mtu = IBV_MTU_4096;
		port.start = [](vrdma_cm_port *) { return 0; };
		port.listen = [](vrdma_cm_port *at, uint64_t service_id) {
			auto *side = reinterpret_cast<Side *>(at);
			const bool taken = side->is_elsewhere(service_id);
			if (!taken)
				side->listening.insert(service_id);
			return taken ? EADDRINUSE : 0;
		};
		port.unlisten = [](vrdma_cm_port *at, uint64_t service_id) {
			auto &listening = reinterpret_cast<Side *>(at)->listening;
			const auto found = listening.find(service_id);
			ASSERT_NE(found, listening.end());
			listening.erase(found);
		};
		port.send = [](vrdma_cm_port *at, const vrdma_av *to, const vrdma_mad *mad) {
			reinterpret_cast<Side *>(at)->sent.push_back({*to, *mad});
		};
		port.wake = [](vrdma_cm_port *) {};
		EXPECT_TRUE(vrdma_cm_add_port(&port));
	}

	~Side()
	{
		uint32_t handle = 0;
		while (vrdma_cm_id *id = vrdma_cm_id_next(&handle))
			if (id->channel == channel)
				vrdma_cm_destroy(id);
		close(channel->fd);
		vrdma_cm_channel_free(channel);
		vrdma_cm_remove_port(&port);
	}
	Side(const Side &) = delete;
	Side &operator=(const Side &) = delete;

	vrdma_cm_id *create(uint16_t port_space = RDMA_PS_TCP)
	{
		vrdma_cm_id *id = vrdma_cm_id_new(channel, port_space);
		id->uid = id->handle;
		return id;
	}

	vrdma_cm_id *listen(uint16_t at, uint16_t port_space = RDMA_PS_TCP, uint32_t backlog = 0)
	{
		const Address own = ipv4(address, at);
		vrdma_cm_id *id = create(port_space);
		EXPECT_EQ(vrdma_cm_bind(id, &own), 0);
		EXPECT_EQ(vrdma_cm_listen(id, backlog), 0);
		return id;
	}

	// Returns an id with a route. The program has read the events.
	vrdma_cm_id *resolve(const Address &to, uint16_t port_space = RDMA_PS_TCP)
	{
		const Address own = ipv4(address, 0);
		vrdma_cm_id *id = create(port_space);
		EXPECT_EQ(vrdma_cm_resolve(id, &own, &to), 0);
		EXPECT_EQ(vrdma_cm_resolve_route(id), 0);
		EXPECT_EQ(type(), VRDMA_CM_ADDR_RESOLVED);
		EXPECT_EQ(type(), VRDMA_CM_ROUTE_RESOLVED);
		return id;
	}

	Event take()
	{
		return {vrdma_cm_event_take(channel), std::free};
	}

	// Returns the type of the next event, or -1.
	int type()
	{
		const Event event = take();
		return event ? static_cast<int>(event->resp.event) : -1;
	}

	// The address by which the other side knows this side.
	vrdma_av sender() const
	{
		vrdma_av av{};
		std::memcpy(av.dgid, port.gids.entries[3].raw, sizeof(av.dgid));
		av.sgid_index = 3;
		return av;
	}

	struct Sent {
		vrdma_av to;
		vrdma_mad mad;
	};

	vrdma_cm_port port{}; // first: send() finds the side by it
	const char *address;
	vrdma_cm_channel *channel;
	std::deque<Sent> sent;
	std::multiset<uint64_t> listening; // service ids
	std::function<bool(uint64_t)> is_elsewhere = [](uint64_t) { return false; };
};

inline rdma_ucm_conn_param parameters(uint32_t qpn, const std::string &data = "")
{
	rdma_ucm_conn_param param{};
	param.qp_num = qpn;
	param.responder_resources = 3;
	param.initiator_depth = 5;
	param.retry_count = 6;
	param.rnr_retry_count = 7;
	param.private_data_len = static_cast<uint8_t>(data.size());
	std::memcpy(param.private_data, data.data(), data.size());
	param.valid = 1;
	return param;
}

class Network : public testing::Test
{
      protected:
	// Carries one message, if there is one, from one side to the other.
	static bool carry(Side &from, Side &to)
	{
		if (from.sent.empty())
			return false;
		const Side::Sent sent = from.sent.front();
		from.sent.pop_front();
		const vrdma_av sender = from.sender();
		vrdma_cm_received(&to.port, &sender, &sent.mad);
		return true;
	}

	// Loses the next message that a side has sent. Returns its attribute, or -1.
	static int lose(Side &from)
	{
		if (from.sent.empty())
			return -1;
		const int attribute = be16toh(from.sent.front().mad.header.attribute);
		from.sent.pop_front();
		return attribute;
	}

	void carry_all()
	{
		while (carry(client, server) || carry(server, client))
			;
	}

	// Requests a connection, and sets `connecting` and `accepting` to its ids.
	void request(uint16_t port = 7000)
	{
		connecting = client.resolve(ipv4(server.address, port));
		const rdma_ucm_conn_param param = parameters(0x111, "question");
		ASSERT_EQ(vrdma_cm_connect(connecting, &param), 0);
		carry_all();
		const Event event = server.take();
		ASSERT_TRUE(event);
		ASSERT_EQ(event->resp.event, VRDMA_CM_CONNECT_REQUEST);
		accepting = vrdma_cm_id_find(event->resp.id, server.channel);
		ASSERT_NE(accepting, nullptr);
	}

	void accept()
	{
		const rdma_ucm_conn_param param = parameters(0x222, "answer");
		ASSERT_EQ(vrdma_cm_accept(accepting, &param), 0);
		accepting->uid = accepting->handle;
	}

	void connect()
	{
		server.listen(7000);
		request();
		accept();
		carry_all();
		ASSERT_EQ(client.type(), VRDMA_CM_CONNECT_RESPONSE);
		ASSERT_EQ(vrdma_cm_accept(connecting, nullptr), 0);
		carry_all();
		ASSERT_EQ(server.type(), VRDMA_CM_ESTABLISHED);
	}

	// Expires deadlines as if this much more time had passed.
	void wait(Side &side, uint64_t ms)
	{
		passed += ms;
		vrdma_cm_expire(&side.port, vrdma_cm_now() + passed);
	}

	Side server{"10.0.0.1"};
	Side client{"10.0.0.2"};
	vrdma_cm_id *connecting = nullptr;
	vrdma_cm_id *accepting = nullptr;
	uint64_t passed = 0;
};

} // namespace vrdma::cm

#endif // VRDMA_CM_TESTS_NETWORK_H
