// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A hostile peer of a program that connects without a kernel (providers/vrdma/direct/cm). It sends
// messages of connection management that name the program's ids or others, while the program
// listens, connects, accepts, disconnects and gives up. At the end, no id and no event may be left.
//
// The input is a list of steps. The first byte of each selects its kind (enum Step).
#include <arpa/inet.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "mediator/fuzz/input.h"
#include "mediator/fuzz/require.h"
#include "providers/vrdma/direct/cm/cm.h"

namespace vrdma {
namespace {

using fuzz::Input;
using fuzz::require;

enum Step : std::uint8_t {
    step_message, // attribute, the id that it names, spoilers
    step_listen,  // port space
    step_connect, // port space
    step_take,    // an event, and the program's reaction to it
    step_disconnect,
    step_destroy,
    step_expire, // number of seconds that pass
    step_count,
};

constexpr int max_steps = 300;
constexpr std::uint16_t service_port = 7000;

vrdma_cm_address ipv4(std::uint8_t last, std::uint16_t port) {
    vrdma_cm_address address{};
    address.in.sin_family = AF_INET;
    address.in.sin_port = htons(port);
    address.in.sin_addr.s_addr = htonl(0x0a000000u | last);
    return address;
}

// The program, on a device at 10.0.0.1; the input is 10.0.0.2.
class Program {
  public:
    Program() {
        constexpr int max_fds = 1 << 16;
        const vrdma_cm_address own = ipv4(1, 0);
        const vrdma_cm_address other = ipv4(2, 0);
        ibv_gid gid;
        vrdma_cm_to_gid(&other, &gid);
        std::memcpy(peer_.dgid, gid.raw, sizeof(gid.raw));
        channel_ = vrdma_cm_channel_new(max_fds);
        port_.gids.count = 1;
        vrdma_cm_to_gid(&own, &port_.gids.entries[0]);
        port_.mtu = IBV_MTU_4096;
        port_.start = [](vrdma_cm_port*) { return 0; };
        port_.listen = [](vrdma_cm_port*, std::uint64_t) { return 0; };
        port_.unlisten = [](vrdma_cm_port*, std::uint64_t) {};
        port_.send = [](vrdma_cm_port*, const vrdma_av* to, const vrdma_mad* mad) {
            require(to->dgid[0] == 0 && vrdma_mad_is_cm(mad));
        };
        port_.wake = [](vrdma_cm_port*) {};
        require(channel_ != nullptr && vrdma_cm_add_port(&port_));
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    ~Program() {
        std::uint32_t handle = 0;
        while (vrdma_cm_id* const id = vrdma_cm_id_next(&handle)) {
            vrdma_cm_destroy(id);
        }
        require(vrdma_cm_event_take(channel_) == nullptr);
        ::close(channel_->fd);
        vrdma_cm_channel_free(channel_);
        vrdma_cm_remove_port(&port_);
    }

    void step(Input& input) {
        switch (input.take<std::uint8_t>() % step_count) {
            case step_message:
                return receive(input);
            case step_listen:
                return listen(port_space(input));
            case step_connect:
                return connect(port_space(input));
            case step_take:
                return take(input.take<std::uint8_t>());
            case step_disconnect:
                return with(input, [](vrdma_cm_id* id) { (void)vrdma_cm_disconnect(id); });
            case step_destroy:
                return with(input, [](vrdma_cm_id* id) { (void)vrdma_cm_destroy(id); });
            default:
                return vrdma_cm_expire(&port_, vrdma_cm_now() + 1000 * input.take<std::uint8_t>());
        }
    }

  private:
    static std::uint16_t port_space(Input& input) {
        return input.take<std::uint8_t>() % 2 != 0 ? RDMA_PS_UDP : RDMA_PS_TCP;
    }

    static rdma_ucm_conn_param parameters() {
        rdma_ucm_conn_param param{};
        param.qp_num = 0x111;
        param.responder_resources = param.initiator_depth = 4;
        param.retry_count = param.rnr_retry_count = 7;
        param.valid = 1;
        return param;
    }

    vrdma_cm_id* make_id(std::uint16_t port_space) {
        vrdma_cm_id* const id = vrdma_cm_id_new(channel_, port_space);
        require(id != nullptr);
        id->uid = id->handle;
        return id;
    }

    void listen(std::uint16_t port_space) {
        const vrdma_cm_address own = ipv4(1, service_port);
        vrdma_cm_id* const id = make_id(port_space);
        if (vrdma_cm_bind(id, &own) != 0 || vrdma_cm_listen(id, 4) != 0) {
            vrdma_cm_destroy(id);
        }
    }

    void connect(std::uint16_t port_space) {
        const vrdma_cm_address own = ipv4(1, 0);
        const vrdma_cm_address peer = ipv4(2, service_port);
        const rdma_ucm_conn_param param = parameters();
        vrdma_cm_id* const id = make_id(port_space);
        if (vrdma_cm_resolve(id, &own, &peer) != 0 || vrdma_cm_resolve_route(id) != 0 ||
            vrdma_cm_connect(id, &param) != 0) {
            vrdma_cm_destroy(id);
        }
    }

    // A message of the peer to an id, to none, or to a service.
    void receive(Input& input) {
        vrdma_mad mad;
        const auto attribute = VRDMA_CM_REQ + input.take<std::uint8_t>() % 9;
        const auto name = input.take<std::uint8_t>();
        vrdma_mad_init(&mad, static_cast<vrdma_cm_attribute>(attribute), name);
        mad.ids.local_id = htobe32(name / 16);
        vrdma_cm_id* const id = find(name % 16);
        mad.ids.remote_id = htobe32(id != nullptr ? id->comm_id : 0);
        if (id != nullptr && attribute == VRDMA_CM_DREQ) {
            mad.dreq.qpn = htobe32(id->qpn << 8);
        }
        if (attribute == VRDMA_CM_REQ) {
            mad.req.service_id = htobe64(std::uint64_t{RDMA_PS_TCP} << 16 | service_port);
            mad.req.mtu_rnr = IBV_MTU_1024 << 4;
            write_ip(mad.req.private_data);
        } else if (attribute == VRDMA_CM_SIDR_REQ) {
            mad.sidr_req.service_id = htobe64(std::uint64_t{RDMA_PS_UDP} << 16 | service_port);
            write_ip(mad.sidr_req.private_data);
        }
        input.spoil<std::uint16_t>(std::as_writable_bytes(std::span{&mad, 1}));
        vrdma_cm_received(&port_, &peer_, &mad);
    }

    // Writes what the peer's own CM would, from one of its ports.
    static void write_ip(std::uint8_t* to) {
        vrdma_cm_id id{};
        vrdma_cm_ip ip;
        id.source = ipv4(2, 40000);
        id.destination = ipv4(1, service_port);
        vrdma_cm_write_ip(&id, &ip);
        std::memcpy(to, &ip, sizeof(ip));
    }

    void take(std::uint8_t how) {
        vrdma_cm_event* const event = vrdma_cm_event_take(channel_);
        if (event == nullptr) {
            return;
        }
        vrdma_cm_id* const asked = event->resp.event == VRDMA_CM_CONNECT_REQUEST
                                       ? vrdma_cm_id_find(event->resp.id, channel_)
                                       : nullptr;
        std::free(event);
        if (asked == nullptr) {
            return;
        }
        asked->uid = asked->handle;
        const rdma_ucm_conn_param param = parameters();
        if (how % 4 == 0) {
            (void)vrdma_cm_reject(asked, "no", 2, VRDMA_CM_REASON_CONSUMER);
        } else {
            (void)vrdma_cm_accept(asked, &param);
        }
    }

    static vrdma_cm_id* find(unsigned which) {
        std::uint32_t handle = 0;
        vrdma_cm_id* id = vrdma_cm_id_next(&handle);
        for (; id != nullptr && which != 0; --which) {
            id = vrdma_cm_id_next(&handle);
        }
        return id;
    }

    template <typename Call>
    static void with(Input& input, Call&& call) {
        if (vrdma_cm_id* const id = find(input.take<std::uint8_t>() % 8)) {
            call(id);
        }
    }

    vrdma_cm_port port_{};
    vrdma_cm_channel* channel_ = nullptr;
    vrdma_av peer_{};
};

} // namespace
} // namespace vrdma

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    vrdma::fuzz::Input input{{data, size}};
    vrdma::Program program;
    for (int i = 0; i < vrdma::max_steps && !input.empty(); ++i) {
        program.step(input);
    }
    return 0;
}
