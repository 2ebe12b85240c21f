// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/pvrdma/capabilities.h"

#include <algorithm>
#include <iterator>

#include "mediator/device/version.h"
#include "mediator/hca/queue_pair.h"

namespace vrdma::pvrdma {
namespace {

// The driver rounds the SGEs of a kernel's queue up to a power of two.
constexpr std::uint32_t max_sge = 16;
static_assert(max_sge <= VRDMA_MAX_SGE);

// A directory has so many pages, and a fast registration takes the pages of one table.
constexpr std::uint64_t max_mr_size = PVRDMA_MAX_PAGES << PVRDMA_PAGE_SHIFT;

void set_sizes(pvrdma_caps& caps, const verbs::Limits& limits) {
    caps.max_mr_size = std::min(limits.max_mr_size, max_mr_size);
    caps.max_qp = table_size(limits.max_qp);
    caps.max_qp_wr = limits.max_qp_wr;
    caps.max_sge = caps.max_sge_rd = std::min<std::uint32_t>(limits.max_sge, max_sge);
    caps.max_cq = table_size(limits.max_cq);
    caps.max_cqe = limits.max_cqe;
    caps.max_mr = limits.max_mr;
    caps.max_pd = limits.max_pd;
    caps.max_ah = limits.max_ah;
    caps.max_srq = table_size(limits.max_srq);
    caps.max_srq_wr = limits.max_qp_wr;
    caps.max_srq_sge = caps.max_sge;
    caps.max_uar = limits.doorbell_pages;
    caps.gid_table_len = limits.gid_table_len;
    caps.max_qp_rd_atomic = caps.max_qp_init_rd_atomic = limits.max_rd_atomic;
    caps.max_res_rd_atomic = limits.max_rd_atomic * limits.max_qp;
    caps.max_fast_pages = VRDMA_MAX_FAST_PAGES;
}

} // namespace

pvrdma_caps capabilities(const DeviceType& type, const verbs::Identity& identity,
                         verbs::Protocols protocols) {
    pvrdma_caps caps{};
    set_sizes(caps, type.limits);
    // The GUID is the interface part of the link-local address.
    const verbs::Gid address = verbs::link_local(identity.mac);
    std::copy_n(address.begin() + 8, sizeof(caps.node_guid), caps.node_guid);
    std::ranges::copy(caps.node_guid, std::begin(caps.system_image_guid));
    caps.firmware_version = firmware_version;
    caps.page_size_cap = VRDMA_PAGE_SIZE;
    caps.vendor_id = PVRDMA_PCI_VENDOR_ID;
    caps.vendor_part_id = PVRDMA_PCI_DEVICE_ID;
    caps.hardware_version = PVRDMA_PCI_REVISION;
    caps.max_pkeys = static_cast<std::uint16_t>(identity.pkeys.size());
    caps.ack_delay = VRDMA_ACK_DELAY;
    caps.ports = VRDMA_PORT;
    caps.mode = PVRDMA_MODE_ROCE;
    caps.atomic_ops = PVRDMA_ATOMIC_COMPARE_SWAP | PVRDMA_ATOMIC_FETCH_ADD;
    caps.fast_memory =
        PVRDMA_FAST_LOCAL_INVALIDATE | PVRDMA_FAST_REMOTE_INVALIDATE | PVRDMA_FAST_REGISTER;
    caps.gid_types = protocols[VRDMA_GID_ROCE_V2] ? PVRDMA_GID_ROCE_V2 : PVRDMA_GID_ROCE_V1;
    return caps;
}

} // namespace vrdma::pvrdma
