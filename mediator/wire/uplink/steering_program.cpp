// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/steering_program.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

#include <cstddef>

#include "mediator/wire/uplink/bpf.h"

namespace vrdma::wire {
namespace {

// Frames begin with their Ethernet header here. The kernel has taken the VLAN's tag out.
void read_tag(BpfAssembler& code) {
    constexpr BpfAssembler::Label untagged = steering_code::first_free;
    constexpr int vlan = steering_code::vlan;
    code.load(BPF_W, vlan, steering_code::frame, offsetof(__sk_buff, vlan_present));
    code.jump_if(BPF_JEQ, vlan, 0, untagged);
    code.load(BPF_W, vlan, steering_code::frame, offsetof(__sk_buff, vlan_proto));
    code.jump_if(BPF_JNE, vlan, htons(ETH_P_8021Q), steering_code::pass);
    code.load(BPF_W, vlan, steering_code::frame, offsetof(__sk_buff, vlan_tci));
    code.mask(vlan, steering_code::vlan_mask);
    code.place(untagged);
}

std::vector<bpf_insn> dropping_code(int addresses) {
    namespace registers = steering_code;
    BpfAssembler code;
    code.move(registers::frame, BPF_REG_1);
    read_tag(code);
    code.load(BPF_W, registers::ethertype, registers::frame, offsetof(__sk_buff, protocol));
    code.set(registers::header_size, ETH_HLEN);
    steering_code::find_address(code, BPF_FUNC_skb_load_bytes, addresses);
    code.exit(TC_ACT_SHOT);
    code.place(steering_code::pass);
    code.exit(TC_ACT_UNSPEC);
    return code.finish();
}

} // namespace

Result<SteeringProgram> SteeringProgram::load() {
    auto table = create_bpf_table({.type = BPF_MAP_TYPE_HASH,
                                   .key_size = sizeof(SteeredAddress),
                                   .value_size = sizeof(std::uint32_t),
                                   .max_entries = max_addresses,
                                   .flags = BPF_F_NO_PREALLOC});
    if (!table) {
        return fail(table.error());
    }
    auto program = load_bpf_program(BPF_PROG_TYPE_SCHED_CLS, dropping_code(table->get()));
    if (!program) {
        return fail(program.error());
    }
    return SteeringProgram{std::move(*table), std::move(*program)};
}

Result<> SteeringProgram::add(const SteeredAddress& address) const {
    const std::uint32_t value = 1;
    return put_in_bpf_table(table_.get(), &address, &value, BPF_NOEXIST);
}

bool SteeringProgram::remove(const SteeredAddress& address) const {
    bpf_attr attributes{};
    attributes.map_fd = static_cast<std::uint32_t>(table_.get());
    attributes.key = bpf_pointer(&address);
    return bpf(BPF_MAP_DELETE_ELEM, attributes) == 0;
}

} // namespace vrdma::wire
