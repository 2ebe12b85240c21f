// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/xdp_program.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>

#include <cstddef>

#include "mediator/base/errno.h"
#include "mediator/wire/uplink/bpf.h"
#include "mediator/wire/uplink/steering_code.h"

namespace vrdma::wire {
namespace {

void load_half(BpfAssembler& code, int to, int offset) {
    steering_code::copy_to_piece(code, BPF_FUNC_xdp_load_bytes, offset, 2);
    code.load(BPF_H, to, BPF_REG_10, steering_code::piece);
}

// Only a tag in the frame is seen. A NIC or a virtual cable's other end may have taken it out.
void read_ethernet(BpfAssembler& code) {
    constexpr BpfAssembler::Label untagged = steering_code::first_free;
    constexpr int type_at = ETH_HLEN - 2;
    constexpr int bytes_of_tag = 4;
    code.set(steering_code::header_size, ETH_HLEN);
    code.set(steering_code::vlan, 0);
    load_half(code, steering_code::ethertype, type_at);
    code.jump_if(BPF_JNE, steering_code::ethertype, htons(ETH_P_8021Q), untagged);
    code.set(steering_code::header_size, ETH_HLEN + bytes_of_tag);
    load_half(code, steering_code::vlan, ETH_HLEN);
    code.to_host_order(steering_code::vlan);
    code.mask(steering_code::vlan, steering_code::vlan_mask);
    load_half(code, steering_code::ethertype, type_at + bytes_of_tag);
    code.place(untagged);
}

std::vector<bpf_insn> redirecting_code(int addresses, int sockets) {
    BpfAssembler code;
    code.move(steering_code::frame, BPF_REG_1);
    read_ethernet(code);
    steering_code::find_address(code, BPF_FUNC_xdp_load_bytes, addresses);
    code.load_table(BPF_REG_1, sockets);
    code.load(BPF_W, BPF_REG_2, steering_code::frame, offsetof(xdp_md, rx_queue_index));
    code.set(BPF_REG_3, XDP_PASS);
    code.call(BPF_FUNC_redirect_map);
    code.exit();
    code.place(steering_code::pass);
    code.exit(XDP_PASS);
    return code.finish();
}

} // namespace

Result<XdpProgram> XdpProgram::load(int addresses) {
    auto sockets = create_bpf_table({.type = BPF_MAP_TYPE_XSKMAP,
                                     .key_size = sizeof(std::uint32_t),
                                     .value_size = sizeof(int),
                                     .max_entries = max_queues});
    if (!sockets) {
        return fail(sockets.error());
    }
    auto program =
        load_bpf_program(BPF_PROG_TYPE_XDP, redirecting_code(addresses, sockets->get()), BPF_XDP);
    if (!program) {
        return fail(program.error());
    }
    return XdpProgram{std::move(*sockets), std::move(*program)};
}

Result<> XdpProgram::set_socket(std::uint32_t queue, int socket) const {
    return put_in_bpf_table(sockets_.get(), &queue, &socket, BPF_ANY);
}

Result<> XdpProgram::attach(int link_index, Place place) {
    bpf_attr attributes{};
    attributes.link_create.prog_fd = static_cast<std::uint32_t>(program_.get());
    attributes.link_create.target_ifindex = static_cast<std::uint32_t>(link_index);
    attributes.link_create.attach_type = BPF_XDP;
    attributes.link_create.flags = place == Place::driver ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
    link_ = UniqueFd{bpf(BPF_LINK_CREATE, attributes)};
    if (!link_) {
        return fail_errno();
    }
    return {};
}

} // namespace vrdma::wire
