// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/steering_program.h"

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <netinet/in.h>
#include <sys/syscall.h>

#include <cstddef>
#include <vector>

#include "mediator/base/errno.h"
#include "mediator/wire/uplink/bpf_assembler.h"
#include "vrdma/roce.h"

namespace vrdma::wire {
namespace {

int bpf(bpf_cmd command, bpf_attr& attributes) {
    return static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof(attributes)));
}

std::uint64_t pointer(const void* to) {
    return reinterpret_cast<std::uint64_t>(to);
}

Result<UniqueFd> create_table() {
    bpf_attr attributes{};
    attributes.map_type = BPF_MAP_TYPE_HASH;
    attributes.key_size = sizeof(SteeredAddress);
    attributes.value_size = sizeof(std::uint32_t);
    attributes.max_entries = SteeringProgram::max_addresses;
    attributes.map_flags = BPF_F_NO_PREALLOC;
    UniqueFd table{bpf(BPF_MAP_CREATE, attributes)};
    if (!table) {
        return fail_errno();
    }
    return table;
}

enum Label : BpfAssembler::Label { found_v1, found_ipv4, found_ipv6, look_up, pass };

constexpr int frame = BPF_REG_6; // the context of all helpers
constexpr int stack = BPF_REG_10;

// What lies on the stack: the key that is looked up, and a piece of the frame.
constexpr int key = -static_cast<int>(sizeof(SteeredAddress));
constexpr int gid_at = key + static_cast<int>(offsetof(SteeredAddress, gid));
constexpr int mac_at = key + static_cast<int>(offsetof(SteeredAddress, mac));
constexpr int type_at = key + static_cast<int>(offsetof(SteeredAddress, type));
constexpr int piece = key - 24;

// Copies bytes of the frame to the stack; passes the frame if it has not that many. The offset is
// in R2 already, or given.
void copy_from(BpfAssembler& code, int to, int bytes) {
    code.move(BPF_REG_1, frame);
    code.move(BPF_REG_3, stack);
    code.plus(BPF_REG_3, to);
    code.set(BPF_REG_4, bytes);
    code.call(BPF_FUNC_skb_load_bytes);
    code.jump_if(BPF_JNE, BPF_REG_0, 0, pass);
}

void copy(BpfAssembler& code, int offset, int to, int bytes) {
    code.set(BPF_REG_2, offset);
    copy_from(code, to, bytes);
}

// Of the UDP header whose destination port is in the piece.
void pass_unless_roce(BpfAssembler& code) {
    code.load(BPF_H, BPF_REG_1, stack, piece);
    code.jump_if(BPF_JNE, BPF_REG_1, htons(VRDMA_ROCE_UDP_PORT), pass);
}

void pass_unless_udp(BpfAssembler& code, int protocol_at) {
    code.load(BPF_B, BPF_REG_1, stack, protocol_at);
    code.jump_if(BPF_JNE, BPF_REG_1, IPPROTO_UDP, pass);
}

void set_type(BpfAssembler& code, Encapsulation type) {
    code.store_value(BPF_B, stack, type_at, static_cast<int>(type));
}

constexpr int port_in_udp = 2;
constexpr int target_in_ipv6 = 24; // and in a GRH

void take_ipv4(BpfAssembler& code) {
    code.place(found_ipv4);
    copy(code, ETH_HLEN, piece, 20);
    pass_unless_udp(code, piece + 9);
    code.load(BPF_W, BPF_REG_1, stack, piece + 16);
    code.store(BPF_W, stack, gid_at + 12, BPF_REG_1);
    code.store_value(BPF_H, stack, gid_at + 10, 0xffff);
    code.load(BPF_B, BPF_REG_2, stack, piece);
    code.mask(BPF_REG_2, 0xf);
    code.shift_left(BPF_REG_2, 2);
    code.plus(BPF_REG_2, ETH_HLEN + port_in_udp);
    copy_from(code, piece, 2);
    pass_unless_roce(code);
    set_type(code, Encapsulation::roce_v2);
    code.jump(look_up);
}

void take_ipv6(BpfAssembler& code) {
    code.place(found_ipv6);
    copy(code, ETH_HLEN + 6, piece, 1);
    pass_unless_udp(code, piece);
    copy(code, ETH_HLEN + 40 + port_in_udp, piece, 2);
    pass_unless_roce(code);
    copy(code, ETH_HLEN + target_in_ipv6, gid_at, 16);
    set_type(code, Encapsulation::roce_v2);
    code.jump(look_up);
}

void take_v1(BpfAssembler& code) {
    code.place(found_v1);
    copy(code, ETH_HLEN + target_in_ipv6, gid_at, 16);
    set_type(code, Encapsulation::roce_v1);
}

// Frames begin with their Ethernet header here, without the VLAN tag: an address is the same in all
// VLANs of an uplink.
std::vector<bpf_insn> program_with(int table) {
    BpfAssembler code;
    code.move(frame, BPF_REG_1);
    for (const int at : {0, 8, 16}) {
        code.store_value(BPF_DW, stack, key + at, 0);
    }
    code.load(BPF_W, BPF_REG_7, frame, offsetof(__sk_buff, protocol));
    code.jump_if(BPF_JEQ, BPF_REG_7, htons(VRDMA_ROCE_ETHERTYPE), found_v1);
    code.jump_if(BPF_JEQ, BPF_REG_7, htons(ETH_P_IP), found_ipv4);
    code.jump_if(BPF_JEQ, BPF_REG_7, htons(ETH_P_IPV6), found_ipv6);
    code.jump(pass);

    take_ipv4(code);
    take_ipv6(code);
    take_v1(code);

    code.place(look_up);
    copy(code, 0, mac_at, ETH_ALEN);
    code.load_table(BPF_REG_1, table);
    code.move(BPF_REG_2, stack);
    code.plus(BPF_REG_2, key);
    code.call(BPF_FUNC_map_lookup_elem);
    code.jump_if(BPF_JEQ, BPF_REG_0, 0, pass);
    code.exit(TC_ACT_SHOT);

    code.place(pass);
    code.exit(TC_ACT_UNSPEC);
    return code.finish();
}

Result<UniqueFd> load_program(int table) {
    const auto code = program_with(table);
    bpf_attr attributes{};
    attributes.prog_type = BPF_PROG_TYPE_SCHED_CLS;
    attributes.insns = pointer(code.data());
    attributes.insn_cnt = static_cast<std::uint32_t>(code.size());
    attributes.license = pointer("Dual BSD/GPL");
    UniqueFd program{bpf(BPF_PROG_LOAD, attributes)};
    if (!program) {
        return fail_errno();
    }
    return program;
}

} // namespace

Result<SteeringProgram> SteeringProgram::load() {
    auto table = create_table();
    if (!table) {
        return fail(table.error());
    }
    auto program = load_program(table->get());
    if (!program) {
        return fail(program.error());
    }
    return SteeringProgram{std::move(*table), std::move(*program)};
}

Result<> SteeringProgram::add(const SteeredAddress& address) const {
    const std::uint32_t value = 1;
    bpf_attr attributes{};
    attributes.map_fd = static_cast<std::uint32_t>(table_.get());
    attributes.key = pointer(&address);
    attributes.value = pointer(&value);
    attributes.flags = BPF_NOEXIST;
    if (bpf(BPF_MAP_UPDATE_ELEM, attributes) != 0) {
        return fail_errno();
    }
    return {};
}

bool SteeringProgram::remove(const SteeredAddress& address) const {
    bpf_attr attributes{};
    attributes.map_fd = static_cast<std::uint32_t>(table_.get());
    attributes.key = pointer(&address);
    return bpf(BPF_MAP_DELETE_ELEM, attributes) == 0;
}

} // namespace vrdma::wire
