// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Finds an interface's frames that are for devices: RoCE to one of some addresses, by MAC, GID and
// RoCE version. It is written once for all places in the kernel that need it (eBPF).
#pragma once

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"
#include "mediator/wire/packet.h"
#include "mediator/wire/uplink/bpf_assembler.h"

namespace vrdma::wire {

// A key of the table of addresses. RoCE v2 over IPv4 has an IPv4-mapped GID. `vlan` is that of a
// frame's tag; 0: no tag, or one with a priority only.
struct SteeredAddress {
    Gid gid{};
    Mac mac{};
    Encapsulation type = Encapsulation::roce_v2;
    std::uint8_t reserved = 0;
    std::uint16_t vlan = 0;
    std::uint8_t reserved2[6]{};
};
static_assert(sizeof(SteeredAddress) == 32);

namespace steering_code {

// Registers of a program, before find_address() and after it.
inline constexpr int frame = BPF_REG_6;     // the program's context
inline constexpr int ethertype = BPF_REG_7; // as in the frame; if there is a tag, the one behind it
inline constexpr int header_size = BPF_REG_8; // of Ethernet
inline constexpr int vlan = BPF_REG_9;        // of the tag (802.1Q); 0: none
inline constexpr int vlan_mask = 0xfff;

// Copies bytes of the frame at an offset to a piece of the stack. Goes to `pass` if the frame is
// too short. The helper is BPF_FUNC_skb_load_bytes or BPF_FUNC_xdp_load_bytes.
inline constexpr int piece = -56;
void copy_to_piece(BpfAssembler& code, bpf_func_id helper, int offset, int bytes);

// Uses labels 0 to 3. Goes to `pass` with frames that are for none of the addresses.
inline constexpr BpfAssembler::Label pass = 4;
inline constexpr BpfAssembler::Label first_free = 5;
void find_address(BpfAssembler& code, bpf_func_id helper, int addresses);

} // namespace steering_code

} // namespace vrdma::wire
