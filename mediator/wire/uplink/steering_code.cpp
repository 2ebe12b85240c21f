// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/steering_code.h"

#include <linux/if_ether.h>
#include <netinet/in.h>

#include <cstddef>

#include "vrdma/roce.h"

namespace vrdma::wire::steering_code {
namespace {

enum Label : BpfAssembler::Label { found_v1, found_ipv4, found_ipv6, look_up };
static_assert(look_up < pass);

constexpr int stack = BPF_REG_10;

// The stack holds the key to look up, and a piece of the frame.
constexpr int key = -static_cast<int>(sizeof(SteeredAddress));
constexpr int gid_at = key + static_cast<int>(offsetof(SteeredAddress, gid));
constexpr int mac_at = key + static_cast<int>(offsetof(SteeredAddress, mac));
constexpr int type_at = key + static_cast<int>(offsetof(SteeredAddress, type));
constexpr int vlan_at = key + static_cast<int>(offsetof(SteeredAddress, vlan));
static_assert(piece + 24 == key);

constexpr int port_in_udp = 2;
constexpr int target_in_ipv6 = 24; // and in a GRH

// Reads the frame by a helper, at offsets behind the Ethernet header.
class Writer {
  public:
    Writer(BpfAssembler& code, bpf_func_id helper) : code_{code}, helper_{helper} {}

    // The offset is in R2 already.
    void copy_from(int to, int bytes) {
        code_.move(BPF_REG_1, frame);
        code_.move(BPF_REG_3, stack);
        code_.plus(BPF_REG_3, to);
        code_.set(BPF_REG_4, bytes);
        code_.call(helper_);
        code_.jump_if(BPF_JNE, BPF_REG_0, 0, pass);
    }

    void copy(int offset, int to, int bytes) {
        code_.move(BPF_REG_2, header_size);
        code_.plus(BPF_REG_2, offset);
        copy_from(to, bytes);
    }

    void take_ipv4() {
        code_.place(found_ipv4);
        copy(0, piece, 20);
        pass_unless_udp(piece + 9);
        code_.load(BPF_W, BPF_REG_1, stack, piece + 16);
        code_.store(BPF_W, stack, gid_at + 12, BPF_REG_1);
        code_.store_value(BPF_H, stack, gid_at + 10, 0xffff);
        code_.load(BPF_B, BPF_REG_2, stack, piece);
        code_.mask(BPF_REG_2, 0xf);
        code_.shift_left(BPF_REG_2, 2);
        code_.plus(BPF_REG_2, port_in_udp);
        code_.plus_register(BPF_REG_2, header_size);
        copy_from(piece, 2);
        pass_unless_roce();
        set_type(Encapsulation::roce_v2);
        code_.jump(look_up);
    }

    void take_ipv6() {
        code_.place(found_ipv6);
        copy(6, piece, 1);
        pass_unless_udp(piece);
        copy(40 + port_in_udp, piece, 2);
        pass_unless_roce();
        copy(target_in_ipv6, gid_at, 16);
        set_type(Encapsulation::roce_v2);
        code_.jump(look_up);
    }

    void take_v1() {
        code_.place(found_v1);
        copy(target_in_ipv6, gid_at, 16);
        set_type(Encapsulation::roce_v1);
    }

    void pass_unless_there(int addresses) {
        code_.place(look_up);
        code_.set(BPF_REG_2, 0);
        copy_from(mac_at, ETH_ALEN);
        code_.load_table(BPF_REG_1, addresses);
        code_.move(BPF_REG_2, stack);
        code_.plus(BPF_REG_2, key);
        code_.call(BPF_FUNC_map_lookup_elem);
        code_.jump_if(BPF_JEQ, BPF_REG_0, 0, pass);
    }

  private:
    // The piece has the destination port of the UDP header.
    void pass_unless_roce() {
        code_.load(BPF_H, BPF_REG_1, stack, piece);
        code_.jump_if(BPF_JNE, BPF_REG_1, htons(VRDMA_ROCE_UDP_PORT), pass);
    }

    void pass_unless_udp(int protocol_at) {
        code_.load(BPF_B, BPF_REG_1, stack, protocol_at);
        code_.jump_if(BPF_JNE, BPF_REG_1, IPPROTO_UDP, pass);
    }

    void set_type(Encapsulation type) {
        code_.store_value(BPF_B, stack, type_at, static_cast<int>(type));
    }

    BpfAssembler& code_;
    bpf_func_id helper_;
};

} // namespace

void copy_to_piece(BpfAssembler& code, bpf_func_id helper, int offset, int bytes) {
    code.set(BPF_REG_2, offset);
    Writer{code, helper}.copy_from(piece, bytes);
}

void find_address(BpfAssembler& code, bpf_func_id helper, int addresses) {
    for (const int at : {0, 8, 16, 24}) {
        code.store_value(BPF_DW, stack, key + at, 0);
    }
    code.store(BPF_H, stack, vlan_at, vlan);
    code.jump_if(BPF_JEQ, ethertype, htons(VRDMA_ROCE_ETHERTYPE), found_v1);
    code.jump_if(BPF_JEQ, ethertype, htons(ETH_P_IP), found_ipv4);
    code.jump_if(BPF_JEQ, ethertype, htons(ETH_P_IPV6), found_ipv6);
    code.jump(pass);

    Writer writer{code, helper};
    writer.take_ipv4();
    writer.take_ipv6();
    writer.take_v1();
    writer.pass_unless_there(addresses);
}

} // namespace vrdma::wire::steering_code
