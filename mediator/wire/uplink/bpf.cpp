// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/bpf.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "mediator/base/errno.h"

namespace vrdma::wire {

int bpf(bpf_cmd command, bpf_attr& attributes) noexcept {
    return static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof(attributes)));
}

Result<UniqueFd> create_bpf_table(const BpfTable& table) {
    bpf_attr attributes{};
    attributes.map_type = table.type;
    attributes.key_size = table.key_size;
    attributes.value_size = table.value_size;
    attributes.max_entries = table.max_entries;
    attributes.map_flags = table.flags;
    UniqueFd created{bpf(BPF_MAP_CREATE, attributes)};
    if (!created) {
        return fail_errno();
    }
    return created;
}

Result<> put_in_bpf_table(int table, const void* key, const void* value, std::uint64_t flags) {
    bpf_attr attributes{};
    attributes.map_fd = static_cast<std::uint32_t>(table);
    attributes.key = bpf_pointer(key);
    attributes.value = bpf_pointer(value);
    attributes.flags = flags;
    if (bpf(BPF_MAP_UPDATE_ELEM, attributes) != 0) {
        return fail_errno();
    }
    return {};
}

Result<UniqueFd> load_bpf_program(bpf_prog_type type, const std::vector<bpf_insn>& code,
                                  bpf_attach_type attach) {
    bpf_attr attributes{};
    attributes.prog_type = type;
    attributes.expected_attach_type = attach;
    attributes.insns = bpf_pointer(code.data());
    attributes.insn_cnt = static_cast<std::uint32_t>(code.size());
    attributes.license = bpf_pointer("Dual BSD/GPL");
    UniqueFd program{bpf(BPF_PROG_LOAD, attributes)};
    if (!program) {
        return fail_errno();
    }
    return program;
}

} // namespace vrdma::wire
