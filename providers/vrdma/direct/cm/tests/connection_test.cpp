// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <array>
#include <cerrno>
#include <set>

#include "cm/connection.h"
#include "network.h"

namespace vrdma::cm
{
namespace
{

constexpr uint64_t long_time = 1 << 20; // ms

// Connect; expect each side to get the other's QPN, PSN, depths and data, as a QP needs them.
TEST_F(Network, BothEndsLearnOfEachOther)
{
	server.listen(7000);
	request();
	accept();
	carry_all();
	const Event response = client.take();
	ASSERT_EQ(response->resp.event, VRDMA_CM_CONNECT_RESPONSE);
	EXPECT_EQ(response->resp.param.conn.qp_num, 0x222U);
	EXPECT_STREQ(reinterpret_cast<const char *>(response->resp.param.conn.private_data),
		     "answer");

	ib_uverbs_qp_attr here, there;
	ASSERT_EQ(vrdma_cm_qp_attr(connecting, IBV_QPS_RTR, &here), 0);
	ASSERT_EQ(vrdma_cm_qp_attr(accepting, IBV_QPS_RTS, &there), 0);
	EXPECT_EQ(here.dest_qp_num, 0x222U);
	EXPECT_EQ(here.rq_psn, there.sq_psn);
	EXPECT_EQ(here.path_mtu, IBV_MTU_4096);
	EXPECT_EQ(here.ah_attr.grh.sgid_index, 3);
	EXPECT_EQ(std::memcmp(here.ah_attr.grh.dgid, server.port.gids.entries[3].raw, 16), 0);
	EXPECT_EQ(there.retry_cnt, 6);
	ASSERT_EQ(vrdma_cm_qp_attr(connecting, IBV_QPS_RTS, &here), 0);
	ASSERT_EQ(vrdma_cm_qp_attr(accepting, IBV_QPS_RTR, &there), 0);
	EXPECT_EQ(there.dest_qp_num, 0x111U);
	EXPECT_EQ(here.sq_psn, there.rq_psn);
	EXPECT_EQ(here.max_rd_atomic, 3); // the server's responder resources
	EXPECT_EQ(there.max_dest_rd_atomic, 3);
}

// Begin many connections; expect unpredictable PSNs (V6 of ReDMArk, USENIX Security 2021).
TEST_F(Network, RedmarkV6StartingPsnsAreNotFixed)
{
	constexpr int many = 4096;
	std::set<uint32_t> different;
	std::array<int, 24> set{};
	vrdma_cm_id id{};
	id.port = &client.port;
	for (int i = 0; i < many; i++) {
		vrdma_cm_set_random(&id);
		EXPECT_LT(id.psn, 1U << set.size());
		different.insert(id.psn);
		for (size_t bit = 0; bit < set.size(); bit++)
			set[bit] += id.psn >> bit & 1;
	}
	EXPECT_GT(different.size(), many * 99U / 100);
	for (const int count : set)
		EXPECT_NEAR(count, many / 2, 6 * 32); // six standard deviations
}

// Expect a request to contain the client's address, and to count as waiting until it is read.
TEST_F(Network, ARequestTellsWhoAsks)
{
	vrdma_cm_id *listener = server.listen(7000);
	connecting = client.resolve(ipv4("10.0.0.1", 7000));
	const rdma_ucm_conn_param param = parameters(0x111, "question");
	ASSERT_EQ(vrdma_cm_connect(connecting, &param), 0);
	carry_all();
	EXPECT_EQ(listener->waiting, 1U);
	const Event event = server.take();
	EXPECT_EQ(event->resp.uid, listener->uid);
	EXPECT_EQ(event->resp.param.conn.private_data_len, 56);
	EXPECT_STREQ(reinterpret_cast<const char *>(event->resp.param.conn.private_data),
		     "question");
	EXPECT_EQ(listener->waiting, 0U);
	const vrdma_cm_id *id = vrdma_cm_id_find(event->resp.id, server.channel);
	EXPECT_EQ(id->destination.in.sin_addr.s_addr, ipv4("10.0.0.2", 0).in.sin_addr.s_addr);
	EXPECT_EQ(id->destination.in.sin_port, connecting->source.in.sin_port);
	EXPECT_EQ(id->source.in.sin_port, htons(7000));
}

// Connect to a port that has no listener; expect to be rejected.
TEST_F(Network, NobodyListens)
{
	server.listen(7001);
	connecting = client.resolve(ipv4("10.0.0.1", 7000));
	const rdma_ucm_conn_param param = parameters(0x111);
	ASSERT_EQ(vrdma_cm_connect(connecting, &param), 0);
	carry_all();
	const Event event = client.take();
	EXPECT_EQ(event->resp.event, VRDMA_CM_REJECTED);
	EXPECT_EQ(event->resp.status, VRDMA_CM_REASON_SERVICE_ID);
	EXPECT_EQ(server.type(), -1);
}

// Reject; expect reason and data at the client, and later calls on the id to fail.
TEST_F(Network, Rejects)
{
	server.listen(7000);
	request();
	ASSERT_EQ(vrdma_cm_reject(accepting, "no", 2, VRDMA_CM_REASON_CONSUMER), 0);
	carry_all();
	const Event event = client.take();
	EXPECT_EQ(event->resp.event, VRDMA_CM_REJECTED);
	EXPECT_EQ(event->resp.status, VRDMA_CM_REASON_CONSUMER);
	EXPECT_EQ(std::memcmp(event->resp.param.conn.private_data, "no", 3), 0);
	const rdma_ucm_conn_param param = parameters(0x222);
	EXPECT_EQ(vrdma_cm_accept(accepting, &param), EINVAL);
	EXPECT_EQ(vrdma_cm_reject(accepting, nullptr, 0, VRDMA_CM_REASON_CONSUMER), EINVAL);
}

// Lose each message once; expect it to be retransmitted, and a connection in the end.
TEST_F(Network, WhatIsLostIsSentAgain)
{
	server.listen(7000);
	connecting = client.resolve(ipv4("10.0.0.1", 7000));
	const rdma_ucm_conn_param param = parameters(0x111);
	ASSERT_EQ(vrdma_cm_connect(connecting, &param), 0);
	EXPECT_EQ(lose(client), VRDMA_CM_REQ);
	wait(client, 1000);
	carry_all();
	accepting = vrdma_cm_id_find(server.take()->resp.id, server.channel);
	accept();
	EXPECT_EQ(lose(server), VRDMA_CM_REP);
	wait(server, 1000);
	carry_all();
	EXPECT_EQ(client.type(), VRDMA_CM_CONNECT_RESPONSE);
	ASSERT_EQ(vrdma_cm_accept(connecting, nullptr), 0);
	EXPECT_EQ(lose(client), VRDMA_CM_RTU);
	wait(server, 1000);
	carry_all();
	EXPECT_EQ(server.type(), VRDMA_CM_ESTABLISHED);
	EXPECT_EQ(client.type(), -1);
}

// Answer nothing; expect a bounded number of retransmissions, and then a REJ to the peer.
TEST_F(Network, GivesUp)
{
	connecting = client.resolve(ipv4("10.0.0.1", 7000));
	const rdma_ucm_conn_param param = parameters(0x111);
	ASSERT_EQ(vrdma_cm_connect(connecting, &param), 0);
	for (int i = 0; i < VRDMA_CM_MAX_RETRIES; i++) {
		EXPECT_EQ(lose(client), VRDMA_CM_REQ);
		wait(client, long_time);
	}
	EXPECT_EQ(lose(client), VRDMA_CM_REQ);
	wait(client, long_time);
	EXPECT_EQ(lose(client), VRDMA_CM_REJ);
	const Event event = client.take();
	EXPECT_EQ(event->resp.event, VRDMA_CM_UNREACHABLE);
	EXPECT_EQ(static_cast<int>(event->resp.status), -ETIMEDOUT);
	EXPECT_EQ(client.port.deadline, 0U);
}

// A client gives up before it has an answer; expect the server to find its id by the client's.
TEST_F(Network, WhoGivesUpIsFoundByItsOwnId)
{
	server.listen(7000);
	request();
	accepting->uid = accepting->handle;
	vrdma_cm_destroy(connecting);
	carry_all();
	EXPECT_EQ(server.type(), VRDMA_CM_REJECTED);
}

// Functions share their GIDs with others; expect comm ids that begin with the functions' numbers.
TEST_F(Network, AnswersFindTheFunction)
{
	client.port.function_bits = server.port.function_bits = 4;
	client.port.function = 0xb;
	server.port.function = 3;
	server.listen(7000);
	request();
	EXPECT_EQ(connecting->comm_id >> 28, 0xbU);
	EXPECT_EQ(accepting->comm_id >> 28, 3U);
	accept();
	carry_all();
	EXPECT_EQ(client.type(), VRDMA_CM_CONNECT_RESPONSE);
}

// Retransmit a REQ; expect one request.
TEST_F(Network, ARepeatedRequestIsOne)
{
	server.listen(7000);
	request();
	wait(client, 1000);
	carry_all();
	EXPECT_EQ(server.type(), -1);
	accept();
	wait(client, 1000);
	EXPECT_EQ(client.sent.size(), 1U);
	carry_all();
	EXPECT_EQ(server.type(), -1);
	EXPECT_EQ(client.type(), VRDMA_CM_CONNECT_RESPONSE);
}

// Send two requests to a listener with a backlog of one; expect the second to be retransmitted.
TEST_F(Network, ABacklogIsABound)
{
	server.listen(7000, RDMA_PS_TCP, 1);
	for (int i = 0; i < 2; i++) {
		const rdma_ucm_conn_param param = parameters(0x111);
		ASSERT_EQ(vrdma_cm_connect(client.resolve(ipv4("10.0.0.1", 7000)), &param), 0);
	}
	carry_all();
	EXPECT_EQ(server.type(), VRDMA_CM_CONNECT_REQUEST);
	EXPECT_EQ(server.type(), -1);
	EXPECT_EQ(client.type(), -1);
	wait(client, 1000);
	carry_all();
	EXPECT_EQ(server.type(), VRDMA_CM_CONNECT_REQUEST);
}

// The peer asks for more time; expect no retransmission in that time.
TEST_F(Network, APeerMayAskForTime)
{
	server.listen(7000);
	request();
	vrdma_mad mra;
	vrdma_mad_init(&mra, VRDMA_CM_MRA, 1);
	mra.ids.local_id = htobe32(accepting->comm_id);
	mra.ids.remote_id = htobe32(connecting->comm_id);
	mra.mra.timeout = VRDMA_SET(VRDMA_CM_TIMEOUT, 24U);
	server.sent.push_back({client.sender(), mra});
	carry_all();
	wait(client, 60000);
	EXPECT_EQ(lose(client), -1);
	wait(client, 20000);
	EXPECT_EQ(lose(client), VRDMA_CM_REQ);
}

// Disconnect at one end, and at both at once; expect an event at both, and the id to be over later.
TEST_F(Network, Disconnects)
{
	connect();
	ASSERT_EQ(vrdma_cm_disconnect(connecting), 0);
	carry_all();
	EXPECT_EQ(server.type(), VRDMA_CM_DISCONNECTED);
	EXPECT_EQ(client.type(), VRDMA_CM_DISCONNECTED);
	EXPECT_EQ(vrdma_cm_disconnect(accepting), 0);
	EXPECT_EQ(lose(server), -1);
	wait(server, 10000);
	EXPECT_EQ(server.type(), VRDMA_CM_TIMEWAIT_EXIT);
}

TEST_F(Network, BothDisconnectAtOnce)
{
	connect();
	ASSERT_EQ(vrdma_cm_disconnect(connecting), 0);
	ASSERT_EQ(vrdma_cm_disconnect(accepting), 0);
	carry_all();
	for (Side *side : {&server, &client}) {
		EXPECT_EQ(side->type(), VRDMA_CM_DISCONNECTED);
		EXPECT_EQ(side->type(), -1);
	}
}

// Destroy one end, and lose its DREQ; expect the other end's DREQ to be answered nevertheless.
TEST_F(Network, DestroyingDisconnects)
{
	connect();
	vrdma_cm_destroy(connecting);
	EXPECT_EQ(lose(client), VRDMA_CM_DREQ);
	ASSERT_EQ(vrdma_cm_disconnect(accepting), 0);
	carry_all();
	EXPECT_EQ(server.type(), VRDMA_CM_DISCONNECTED);
}

// Give up a connection that is being accepted, and lose the REJ; expect the REP to be rejected, and
// the other end to get an event at once.
TEST_F(Network, AnAnswerToWhoIsGoneIsRejected)
{
	server.listen(7000);
	request();
	vrdma_cm_destroy(connecting);
	EXPECT_EQ(lose(client), VRDMA_CM_REJ);
	accept();
	carry_all();
	const Event event = server.take();
	ASSERT_TRUE(event);
	EXPECT_EQ(event->resp.event, VRDMA_CM_REJECTED);
	EXPECT_EQ(event->resp.status, VRDMA_CM_REASON_COMM_ID);
}

// Destroy a listener; expect requests that the program has not read to be rejected, and their ids
// to be gone.
TEST_F(Network, AListenerTakesItsRequestsAlong)
{
	vrdma_cm_id *listener = server.listen(7000);
	const rdma_ucm_conn_param param = parameters(0x111);
	ASSERT_EQ(vrdma_cm_connect(client.resolve(ipv4("10.0.0.1", 7000)), &param), 0);
	carry_all();
	EXPECT_EQ(vrdma_cm_destroy(listener), 0U);
	carry_all();
	EXPECT_EQ(client.type(), VRDMA_CM_REJECTED);
	EXPECT_EQ(server.type(), -1);
}

// A device is removed; expect an event of each of its ids, and no messages.
TEST_F(Network, ADeviceMayGo)
{
	connect();
	vrdma_cm_port_gone(&client.port);
	EXPECT_EQ(client.type(), VRDMA_CM_DEVICE_REMOVAL);
	EXPECT_EQ(vrdma_cm_disconnect(connecting), 0);
	vrdma_cm_destroy(connecting);
	EXPECT_EQ(lose(client), -1);
}

// Calls that are illegal in the id's state; expect each to be refused.
TEST_F(Network, NothingIsDoneOutOfTurn)
{
	vrdma_cm_id *id = client.create();
	const rdma_ucm_conn_param param = parameters(0x111);
	ib_uverbs_qp_attr attr;
	EXPECT_EQ(vrdma_cm_resolve_route(id), EINVAL);
	EXPECT_EQ(vrdma_cm_connect(id, &param), EINVAL);
	EXPECT_EQ(vrdma_cm_accept(id, &param), EINVAL);
	EXPECT_EQ(vrdma_cm_accept(id, nullptr), EINVAL);
	EXPECT_EQ(vrdma_cm_disconnect(id), EINVAL);
	EXPECT_EQ(vrdma_cm_qp_attr(id, IBV_QPS_INIT, &attr), EINVAL);
	id = client.resolve(ipv4("10.0.0.1", 7000));
	EXPECT_EQ(vrdma_cm_listen(id, 0), EINVAL);
	EXPECT_EQ(vrdma_cm_qp_attr(id, IBV_QPS_INIT, &attr), 0);
	EXPECT_EQ(vrdma_cm_qp_attr(id, IBV_QPS_RTR, &attr), EINVAL);
	const rdma_ucm_conn_param too_long = parameters(0x111, std::string(57, 'x'));
	EXPECT_EQ(vrdma_cm_connect(id, &too_long), EINVAL);
}

// Resolve a datagram service; expect its QP, Q_Key and address.
TEST_F(Network, DatagramServicesAreResolved)
{
	server.listen(7000, RDMA_PS_UDP);
	vrdma_cm_id *id = client.resolve(ipv4("10.0.0.1", 7000), RDMA_PS_UDP);
	const rdma_ucm_conn_param question = parameters(0, "question");
	ASSERT_EQ(vrdma_cm_connect(id, &question), 0);
	carry_all();
	const Event request = server.take();
	ASSERT_EQ(request->resp.event, VRDMA_CM_CONNECT_REQUEST);
	EXPECT_EQ(request->resp.param.ud.private_data_len, 180);
	EXPECT_STREQ(reinterpret_cast<const char *>(request->resp.param.ud.private_data),
		     "question");
	const rdma_ucm_conn_param answer = parameters(0x333, "answer");
	ASSERT_EQ(vrdma_cm_accept(vrdma_cm_id_find(request->resp.id, server.channel), &answer), 0);
	carry_all();
	const Event event = client.take();
	ASSERT_EQ(event->resp.event, VRDMA_CM_ESTABLISHED);
	EXPECT_EQ(event->resp.param.ud.qp_num, 0x333U);
	EXPECT_EQ(event->resp.param.ud.qkey, 0x01234567U);
	EXPECT_EQ(event->resp.param.ud.ah_attr.is_global, 1);
	EXPECT_EQ(std::memcmp(event->resp.param.ud.ah_attr.grh.dgid,
			      server.port.gids.entries[3].raw, 16),
		  0);
}

// A service that does not exist, and one that rejects; expect the event's status to tell which.
TEST_F(Network, DatagramServicesMayRefuse)
{
	const rdma_ucm_conn_param param = parameters(0);
	ASSERT_EQ(vrdma_cm_connect(client.resolve(ipv4("10.0.0.1", 7000), RDMA_PS_UDP), &param), 0);
	carry_all();
	Event event = client.take();
	EXPECT_EQ(event->resp.event, VRDMA_CM_UNREACHABLE);
	EXPECT_EQ(event->resp.status, VRDMA_CM_SIDR_UNSUPPORTED);

	server.listen(7000, RDMA_PS_UDP);
	ASSERT_EQ(vrdma_cm_connect(client.resolve(ipv4("10.0.0.1", 7000), RDMA_PS_UDP), &param), 0);
	carry_all();
	vrdma_cm_id *asked = vrdma_cm_id_find(server.take()->resp.id, server.channel);
	ASSERT_EQ(vrdma_cm_reject(asked, nullptr, 0, VRDMA_CM_REASON_CONSUMER), 0);
	carry_all();
	event = client.take();
	EXPECT_EQ(event->resp.event, VRDMA_CM_UNREACHABLE);
	EXPECT_EQ(event->resp.status, VRDMA_CM_SIDR_REJECT);
}

// Leave a group before and after its event was read; expect the count of events that were read.
TEST_F(Network, GroupsAreJoinedAndLeft)
{
	const Address own = ipv4("10.0.0.2", 0);
	const Address group = ipv4("239.0.0.1", 0);
	vrdma_cm_id *id = client.create(RDMA_PS_UDP);
	uint32_t handle = 0, reported = 0;
	EXPECT_EQ(vrdma_cm_join(id, &group, 77, &handle), EINVAL);
	ASSERT_EQ(vrdma_cm_bind(id, &own), 0);
	ASSERT_EQ(vrdma_cm_join(id, &group, 77, &handle), 0);
	const Event event = client.take();
	EXPECT_EQ(event->resp.event, VRDMA_CM_MULTICAST_JOIN);
	EXPECT_EQ(event->resp.uid, 77U);
	EXPECT_EQ(event->resp.id, handle);
	EXPECT_EQ(event->resp.param.ud.qp_num, 0xffffffU);
	EXPECT_EQ(event->resp.param.ud.ah_attr.grh.sgid_index, 3);
	EXPECT_EQ(event->resp.param.ud.ah_attr.grh.dgid[12], 239);
	ASSERT_EQ(vrdma_cm_leave(client.channel, handle, &reported), 0);
	EXPECT_EQ(reported, 1U);
	EXPECT_EQ(vrdma_cm_leave(client.channel, handle, &reported), ENOENT);
	ASSERT_EQ(vrdma_cm_join(id, &group, 78, &handle), 0);
	EXPECT_EQ(vrdma_cm_leave(server.channel, handle, &reported), ENOENT);
	ASSERT_EQ(vrdma_cm_leave(client.channel, handle, &reported), 0);
	EXPECT_EQ(reported, 0U);
	EXPECT_EQ(client.type(), -1);
	for (int i = 0; i < VRDMA_CM_MAX_GROUPS; i++)
		EXPECT_EQ(vrdma_cm_join(id, &group, 79, &handle), 0);
	EXPECT_EQ(vrdma_cm_join(id, &group, 79, &handle), ENOMEM);
}

} // namespace
} // namespace vrdma::cm
