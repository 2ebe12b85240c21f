// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
// Messages on the wire, well-formed and malformed.
#include <random>

#include "cm/gsi.h"
#include "network.h"

namespace vrdma::cm
{
namespace
{

const uint8_t *bytes(const vrdma_mad &mad)
{
	return reinterpret_cast<const uint8_t *>(&mad);
}

uint32_t word(const vrdma_mad &mad, size_t offset)
{
	uint32_t value;
	std::memcpy(&value, bytes(mad) + 24 + offset, sizeof(value));
	return be32toh(value);
}

// A REQ; expect its fields where IBA table 106 and annex A11 have them.
TEST_F(Network, ARequestOnTheWire)
{
	connecting = client.resolve(ipv4("10.0.0.1", 7000));
	rdma_ucm_conn_param param = parameters(0x123456, "abc");
	param.srq = 1;
	param.flow_control = 1;
	ASSERT_EQ(vrdma_cm_connect(connecting, &param), 0);
	const vrdma_mad mad = client.sent.front().mad;
	const uint8_t header[] = {1, 7, 2, 3, 0, 0, 0, 0};
	EXPECT_EQ(std::memcmp(bytes(mad), header, sizeof(header)), 0);
	EXPECT_EQ(be16toh(mad.header.attribute), 0x10);
	EXPECT_EQ(word(mad, 0), connecting->comm_id);
	EXPECT_EQ(word(mad, 8), 0U);
	EXPECT_EQ(word(mad, 12), 0x01060000U | 7000); // port space and port
	EXPECT_EQ(word(mad, 32), 0x12345603U);        // QPN, responder resources
	EXPECT_EQ(word(mad, 36), 5U);                 // initiator depth
	EXPECT_EQ(word(mad, 40), 20U << 3 | 1);       // response timeout, RC, flow control
	EXPECT_EQ(word(mad, 44), connecting->psn << 8 | 20U << 3 | 6);
	EXPECT_EQ(word(mad, 48), 0xffff0000U | 5U << 12 | 7U << 8 | 15U << 4 | 1U << 3);
	EXPECT_EQ(std::memcmp(bytes(mad) + 24 + 56, client.port.gids.entries[3].raw, 16), 0);
	EXPECT_EQ(std::memcmp(bytes(mad) + 24 + 72, server.port.gids.entries[3].raw, 16), 0);
	EXPECT_EQ(word(mad, 92), 64U << 16 | 19U << 3); // hop limit, timeout
	EXPECT_EQ(word(mad, 140), 0x00400000U | ntohs(connecting->source.in.sin_port));
	EXPECT_EQ(word(mad, 156), 0x0a000002U);
	EXPECT_EQ(word(mad, 172), 0x0a000001U);
	EXPECT_EQ(std::memcmp(bytes(mad) + 24 + 176, "abc", 4), 0);
}

class Malformed : public Network
{
      protected:
	// Sends a request after `change` has corrupted it.
	template <typename Change> void send(Change change)
	{
		const rdma_ucm_conn_param param = parameters(0x111);
		vrdma_cm_id *id = client.resolve(ipv4("10.0.0.1", 7000));
		ASSERT_EQ(vrdma_cm_connect(id, &param), 0);
		change(client.sent.front().mad);
		carry(client, server);
	}

	// Returns the reason of the answer, 0 if there is no answer.
	int reason()
	{
		if (server.sent.empty())
			return 0;
		const vrdma_mad mad = server.sent.front().mad;
		EXPECT_EQ(lose(server), VRDMA_CM_REJ);
		return be16toh(mad.rej.reason);
	}
};

// Send datagrams that are no messages of our version; expect no answers.
TEST_F(Malformed, OtherClassesAreNotAnswered)
{
	server.listen(7000);
	send([](vrdma_mad &mad) { mad.header.base_version = 2; });
	send([](vrdma_mad &mad) { mad.header.mgmt_class = 3; });
	send([](vrdma_mad &mad) { mad.header.class_version = 1; });
	send([](vrdma_mad &mad) { mad.header.method = 0x81; });
	send([](vrdma_mad &mad) { mad.header.attribute = htobe16(0x19); });
	send([](vrdma_mad &mad) { mad.header.attribute = 0xffff; });
	EXPECT_EQ(reason(), 0);
	EXPECT_EQ(server.type(), -1);
}

// Request services and options that do not exist; expect each REJ to have the right reason.
TEST_F(Malformed, RequestsAreRefused)
{
	server.listen(7000);
	send([](vrdma_mad &mad) { mad.req.service_id = htobe64(0x01060000 | 7001); });
	EXPECT_EQ(reason(), VRDMA_CM_REASON_SERVICE_ID);
	send([](vrdma_mad &mad) { mad.req.service_id |= htobe64(1ULL << 40); });
	EXPECT_EQ(reason(), VRDMA_CM_REASON_SERVICE_ID);
	send([](vrdma_mad &mad) { mad.req.private_data[0] = 1; });
	EXPECT_EQ(reason(), VRDMA_CM_REASON_SERVICE_ID);
	send([](vrdma_mad &mad) { mad.req.private_data[1] = 0x50; });
	EXPECT_EQ(reason(), VRDMA_CM_REASON_SERVICE_ID);
	send([](vrdma_mad &mad) { mad.req.private_data[35]++; }); // of the destination
	EXPECT_EQ(reason(), VRDMA_CM_REASON_SERVICE_ID);
	send([](vrdma_mad &mad) { mad.req.options |= htobe32(1U << 1); });
	EXPECT_EQ(reason(), VRDMA_CM_REASON_TRANSPORT);
	send([](vrdma_mad &mad) { mad.req.mtu_rnr = 0x60; });
	EXPECT_EQ(reason(), VRDMA_CM_REASON_MTU);
	send([](vrdma_mad &mad) { mad.req.mtu_rnr = 0; });
	EXPECT_EQ(reason(), VRDMA_CM_REASON_MTU);
	EXPECT_EQ(server.type(), -1);
	send([](vrdma_mad &) {});
	EXPECT_EQ(server.type(), VRDMA_CM_CONNECT_REQUEST);
}

// Send messages that name a connection, from a third device or with wrong numbers; expect the
// connection to stay.
TEST_F(Malformed, StrangersDoNotDisconnect)
{
	connect();
	vrdma_mad mad;
	vrdma_mad_init(&mad, VRDMA_CM_DREQ, 1);
	mad.ids.local_id = htobe32(connecting->comm_id);
	mad.ids.remote_id = htobe32(accepting->comm_id);
	mad.dreq.qpn = vrdma_cm_number(0x222, 0);
	vrdma_av stranger = client.sender();
	stranger.dgid[15]++;
	vrdma_cm_received(&server.port, &stranger, &mad);
	EXPECT_EQ(server.type(), -1);

	const vrdma_av peer = client.sender();
	mad.dreq.qpn = vrdma_cm_number(0x223, 0);
	vrdma_cm_received(&server.port, &peer, &mad);
	EXPECT_EQ(server.type(), -1);
	mad.dreq.qpn = vrdma_cm_number(0x222, 0);
	mad.ids.local_id = htobe32(connecting->comm_id + 1);
	vrdma_cm_received(&server.port, &peer, &mad);
	EXPECT_EQ(server.type(), -1);
	mad.ids.local_id = htobe32(connecting->comm_id);
	vrdma_cm_received(&server.port, &peer, &mad);
	EXPECT_EQ(server.type(), VRDMA_CM_DISCONNECTED);
}

// Send messages of all kinds with random contents, some with existing ids; expect no more requests
// than the backlog allows.
TEST_F(Malformed, AnythingMayCome)
{
	connect();
	server.listen(7001, RDMA_PS_TCP, 4);
	std::mt19937 random(1);
	const vrdma_av peer = client.sender();
	for (int i = 0; i < 20000; i++) {
		vrdma_mad mad;
		uint8_t body[sizeof(mad)];
		for (uint8_t &byte : body)
			byte = static_cast<uint8_t>(random());
		std::memcpy(&mad, body, sizeof(mad));
		vrdma_mad head;
		vrdma_mad_init(&head, VRDMA_CM_REQ, random());
		mad.header = head.header;
		mad.header.attribute = htobe16(static_cast<uint16_t>(0x10 + random() % 10));
		if (random() % 2)
			mad.ids.remote_id = htobe32(accepting->comm_id);
		if (random() % 4 == 0)
			mad.ids.local_id = htobe32(connecting->comm_id);
		if (random() % 4 == 0)
			mad.req.service_id = htobe64(0x01060000 | 7001);
		vrdma_cm_received(&server.port, &peer, &mad);
		server.sent.clear();
	}
	int requests = 0;
	while (const Event event = server.take())
		requests += event->resp.event == VRDMA_CM_CONNECT_REQUEST;
	EXPECT_LE(requests, 4);
}

// IPv4, IPv6 and invalid headers; expect the sender's GID, and the index of our GID of that kind.
TEST(Gsi, TheHeaderTellsWhoSent)
{
	const Address ours = ipv4("10.0.0.1", 0);
	vrdma_gids gids{};
	gids.count = 4;
	gids.entries[0].raw[0] = gids.entries[1].raw[0] = 0xfe;
	vrdma_cm_to_gid(&ours, &gids.entries[2]);
	gids.entries[3] = gids.entries[2];

	uint8_t grh[VRDMA_UD_GRH_SIZE] = {};
	vrdma_av sender;
	EXPECT_FALSE(vrdma_gsi_sender(&gids, grh, &sender));
	grh[20] = 0x45;
	grh[20 + 12] = 10;
	grh[20 + 15] = 2;
	grh[20 + 16] = 10;
	EXPECT_FALSE(vrdma_gsi_sender(&gids, grh, &sender)); // to 10.0.0.0
	grh[20 + 19] = 1;
	ASSERT_TRUE(vrdma_gsi_sender(&gids, grh, &sender));
	EXPECT_EQ(sender.sgid_index, 3);
	EXPECT_EQ(sender.dgid[15], 2);
	EXPECT_EQ(sender.dgid[11], 0xff);

	std::memset(grh, 0, sizeof(grh));
	grh[0] = 0x60;
	grh[6] = 27;
	grh[8] = 0xfe;
	grh[23] = 9;
	grh[24] = 0xfe;
	ASSERT_TRUE(vrdma_gsi_sender(&gids, grh, &sender));
	EXPECT_EQ(sender.sgid_index, 0);
	EXPECT_EQ(sender.dgid[15], 9);
	grh[6] = 17;
	ASSERT_TRUE(vrdma_gsi_sender(&gids, grh, &sender));
	EXPECT_EQ(sender.sgid_index, 1);
}

} // namespace
} // namespace vrdma::cm
