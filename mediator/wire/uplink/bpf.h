// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Programs and tables of the kernel (bpf(2)).
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <vector>

#include "mediator/base/result.h"
#include "mediator/base/unique_fd.h"

namespace vrdma::wire {

// Returns a new object's fd, or 0; or -1 and errno.
int bpf(bpf_cmd command, bpf_attr& attributes) noexcept;

inline std::uint64_t bpf_pointer(const void* to) noexcept {
    return reinterpret_cast<std::uint64_t>(to);
}

struct BpfTable {
    bpf_map_type type = BPF_MAP_TYPE_UNSPEC;
    std::uint32_t key_size = 0;
    std::uint32_t value_size = 0;
    std::uint32_t max_entries = 0;
    std::uint32_t flags = 0;
};
Result<UniqueFd> create_bpf_table(const BpfTable& table);

// Flags: BPF_NOEXIST, …
Result<> put_in_bpf_table(int table, const void* key, const void* value, std::uint64_t flags);

// `attach` says how the program will be attached, for types that require it.
Result<UniqueFd> load_bpf_program(bpf_prog_type type, const std::vector<bpf_insn>& code,
                                  bpf_attach_type attach = {});

} // namespace vrdma::wire
