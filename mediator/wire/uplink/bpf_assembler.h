// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Writes an eBPF program, one instruction after the other. Jumps go forward, to labels that are
// placed later. Registers are BPF_REG_*, widths BPF_B to BPF_DW.
#pragma once

#include <linux/bpf.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vrdma::wire {

class BpfAssembler {
  public:
    using Label = std::size_t;
    static constexpr std::size_t max_labels = 8;

    void move(int to, int from) { add(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0); }
    void set(int to, int value) { add(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value); }
    void plus(int to, int value) { add(BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, value); }
    void plus_register(int to, int from) { add(BPF_ALU64 | BPF_ADD | BPF_X, to, from, 0, 0); }
    void mask(int to, int value) { add(BPF_ALU64 | BPF_AND | BPF_K, to, 0, 0, value); }
    void shift_left(int to, int bits) { add(BPF_ALU64 | BPF_LSH | BPF_K, to, 0, 0, bits); }
    // Converts 16 bits in network order.
    void to_host_order(int what) { add(BPF_ALU | BPF_END | BPF_TO_BE, what, 0, 0, 16); }
    void load(int width, int to, int base, int offset) {
        add(BPF_LDX | BPF_MEM | width, to, base, offset, 0);
    }
    void store(int width, int base, int offset, int from) {
        add(BPF_STX | BPF_MEM | width, base, from, offset, 0);
    }
    void store_value(int width, int base, int offset, int value) {
        add(BPF_ST | BPF_MEM | width, base, 0, offset, value);
    }
    void call(int function) { add(BPF_JMP | BPF_CALL, 0, 0, 0, function); }
    void exit(int value) {
        set(BPF_REG_0, value);
        exit();
    }
    // Returns the value in R0.
    void exit() { add(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }
    // Operation: BPF_JEQ, BPF_JNE, …
    void jump_if(int operation, int left, int value, Label label) {
        jumps_.push_back({code_.size(), label});
        add(BPF_JMP | operation | BPF_K, left, 0, 0, value);
    }
    void jump(Label label) {
        jumps_.push_back({code_.size(), label});
        add(BPF_JMP | BPF_JA, 0, 0, 0, 0);
    }
    void load_table(int to, int table) {
        add(BPF_LD | BPF_DW | BPF_IMM, to, BPF_PSEUDO_MAP_FD, 0, table);
        add(0, 0, 0, 0, 0);
    }
    void place(Label label) { places_[label] = code_.size(); }

    const std::vector<bpf_insn>& finish() {
        for (const auto& [from, label] : jumps_) {
            code_[from].off = static_cast<std::int16_t>(places_[label] - from - 1);
        }
        return code_;
    }

  private:
    struct Jump {
        std::size_t from;
        Label label;
    };

    void add(int code, int to, int from, int offset, int value) {
        bpf_insn instruction{};
        instruction.code = static_cast<std::uint8_t>(code);
        instruction.dst_reg = static_cast<std::uint8_t>(to);
        instruction.src_reg = static_cast<std::uint8_t>(from);
        instruction.off = static_cast<std::int16_t>(offset);
        instruction.imm = value;
        code_.push_back(instruction);
    }

    std::vector<bpf_insn> code_;
    std::vector<Jump> jumps_;
    std::array<std::size_t, max_labels> places_{};
};

} // namespace vrdma::wire
