// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Which of an interface's frames are devices': RoCE to one of some addresses, by MAC, GID and RoCE
// version. Written once for all places in the kernel that ask (eBPF).
#pragma once

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"
#include "mediator/wire/packet.h"
#include "mediator/wire/uplink/bpf_assembler.h"

namespace vrdma::wire {

// As it lies in the table of addresses. RoCE v2 over IPv4 is to an IPv4-mapped GID. Frames of a
// VLAN have its tag; 0: none, or one that says a priority only.
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

// What a program has in registers before find_address(), and after it.
inline constexpr int frame = BPF_REG_6;       // the context that it began with
inline constexpr int ethertype = BPF_REG_7;   // as it is in the frame; a tag's is that behind it
inline constexpr int header_size = BPF_REG_8; // Ethernet's
inline constexpr int vlan = BPF_REG_9;        // of the tag (802.1Q); 0: none
inline constexpr int vlan_mask = 0xfff;

// Copies bytes of the frame at an offset to a piece of the stack, and goes to `pass` if it has not
// that many. By a helper: BPF_FUNC_skb_load_bytes or BPF_FUNC_xdp_load_bytes.
inline constexpr int piece = -56;
void copy_to_piece(BpfAssembler& code, bpf_func_id helper, int offset, int bytes);

// Labels of its own are 0 to 3. Goes to `pass` with frames that are nobody's.
inline constexpr BpfAssembler::Label pass = 4;
inline constexpr BpfAssembler::Label first_free = 5;
void find_address(BpfAssembler& code, bpf_func_id helper, int addresses);

} // namespace steering_code

} // namespace vrdma::wire
