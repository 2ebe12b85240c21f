// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The device copies each datagram to every member of a group.
#include <arpa/inet.h>

#include <vector>

#include "torture/hostile/neighbours.h"
#include "torture/hostile/queues.h"

namespace vrdma::torture::hostile {
namespace {

constexpr unsigned members = 64;
constexpr std::uint32_t depth = 64;
constexpr std::uint32_t receives = 8192;
constexpr std::uint32_t message = 1024;
constexpr std::uint32_t qkey = 0x11111111;
constexpr std::uint32_t everybody = 0xffffff;
constexpr const char* group_address = "ff0e::6e65:6967:6862:6f72";

ibv_gid group() {
    ibv_gid gid{};
    require(::inet_pton(AF_INET6, group_address, gid.raw) == 1, "inet_pton");
    return gid;
}

Qp datagram_qp(const Device& device, ibv_pd* pd, ibv_cq* cq, ibv_srq* srq) {
    ibv_qp_init_attr init{};
    init.send_cq = cq;
    init.recv_cq = cq;
    init.srq = srq;
    init.cap.max_send_wr = depth;
    init.cap.max_send_sge = 1;
    init.qp_type = IBV_QPT_UD;
    Qp qp{made(::ibv_create_qp(pd, &init), "ibv_create_qp")};
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = port;
    attr.pkey_index = device.pkey_index();
    attr.qkey = qkey;
    check(::ibv_modify_qp(qp.get(), &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
          "modify to INIT");
    to_state(qp.get(), IBV_QPS_RTR);
    attr.qp_state = IBV_QPS_RTS;
    check(::ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "modify to RTS");
    return qp;
}

ibv_srq* make_srq(ibv_pd* pd) {
    ibv_srq_init_attr attr{};
    attr.attr = {.max_wr = receives, .max_sge = 1, .srq_limit = 0};
    return made(::ibv_create_srq(pd, &attr), "ibv_create_srq");
}

} // namespace

void multicast_flood(const Seat& seat, Pace& pace) {
    const Device device{seat.device, seat.gid_index};
    const Pd pd = make_pd(device);
    const Region region{pd.get(), 2 * (grh_size + message)};
    const Cq cq = make_cq(device, 2 * receives);
    const Srq srq{make_srq(pd.get())};
    const ibv_gid gid = group();
    std::vector<Qp> qps;
    for (unsigned i = 0; i < members; ++i) {
        qps.push_back(datagram_qp(device, pd.get(), cq.get(), srq.get()));
        check(::ibv_attach_mcast(qps.back().get(), &gid, 0), "ibv_attach_mcast");
    }
    ibv_ah_attr to = device.address(gid);
    const Ah ah{made(::ibv_create_ah(pd.get(), &to), "ibv_create_ah")};

    ibv_sge target = region.piece(0, grh_size + message);
    ibv_recv_wr receive{.wr_id = 0, .next = nullptr, .sg_list = &target, .num_sge = 1};
    ibv_sge source = region.piece(grh_size + message, message);
    ibv_send_wr send{};
    send.sg_list = &source;
    send.num_sge = 1;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    send.wr.ud = {.ah = ah.get(), .remote_qpn = everybody, .remote_qkey = qkey};
    std::uint32_t wanted = receives;
    std::uint32_t room = depth;
    while (true) {
        for (ibv_recv_wr* bad = nullptr; wanted > 0; --wanted) {
            check(::ibv_post_srq_recv(srq.get(), &receive, &bad), "ibv_post_srq_recv");
        }
        for (; room > 0 && post(qps.front().get(), send); --room) {
        }
        pace.rest();
        drain(cq.get(),
              [&](const ibv_wc& done) { ++((done.opcode & IBV_WC_RECV) != 0 ? wanted : room); });
    }
}

} // namespace vrdma::torture::hostile
