// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The QP at the host's HCA that stands for a QP of a guest.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "mediator/hca/soft/slice/slice_core.h"
#include "mediator/hca/soft/transport/offload/completions.h"

namespace vrdma::hca::soft::offload {

using SharedPd = std::shared_ptr<host::Pd>;

// Memory of this process that the HCA may read and write.
struct Buffer {
    static Result<Buffer> make(const host::Pd& pd, std::size_t bytes);

    std::byte* at(std::size_t offset) const noexcept { return bytes.get() + offset; }
    std::uint32_t lkey() const noexcept { return mr->lkey; }

    std::unique_ptr<std::byte[]> bytes;
    host::OwnedMr mr; // before the bytes are freed
};

struct HostQp {
    // How much work it has posted at most, in each direction.
    static constexpr std::uint32_t most_posted = 128;
    static constexpr std::uint32_t most_datagrams = 32;

    // EOPNOTSUPP for a QP that the HCA has not, or that is not mediated.
    static Result<HostQp> create(const host::SharedDevice& device, SharedPd pd,
                                 Completions& completions, const QpSpec& spec);

    Qpn number() const noexcept { return Qpn{qp->qp_num}; }
    Result<> modify(ibv_qp_attr& attr, int mask) const { return host::modify_qp(qp, attr, mask); }
    // Afterwards the HCA touches no memory for it.
    Result<> reset() const;

    SharedPd pd{};
    Completions::Share completions{};
    std::uint32_t sends = 0; // the work that it may have posted
    std::uint32_t receives = 0;
    std::uint32_t max_inline = 0; // bytes in a WQE of its own
    Buffer buffer{};              // for inline data that is longer; for the datagrams of UD
    host::OwnedQp qp{};           // destroyed first
};

// The flags of a message's WQE at the HCA, whose completion gives its place back.
inline unsigned send_flags_of(const Message& message) noexcept {
    unsigned flags = IBV_SEND_SIGNALED;
    flags |= message.solicited ? std::uint32_t{IBV_SEND_SOLICITED} : 0u;
    return flags;
}

// The attributes for the HCA's QP, with those of the mask that it has. `path` is where its GID
// table has the source of the path.
struct HostAttr {
    ibv_qp_attr attr{};
    int mask = 0;
};
HostAttr host_attr_of(const SliceCore& slice, const vrdma_qp_attr& attr, std::uint8_t path);
ibv_ah_attr host_path_of(const SliceCore& slice, const vrdma_av& av, std::uint8_t path);

// Where the HCA's GID table has the GID of the slice with that index. ENODEV: nowhere.
Result<std::uint8_t> find_source(const host::Device& device, const SliceCore& slice,
                                 std::uint8_t index);

} // namespace vrdma::hca::soft::offload
