// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/qp/memory_keys.h"

#include <cstdint>

#include "mediator/hca/soft/slice/slice_core.h"

namespace vrdma::hca::soft {
namespace {

constexpr std::uint32_t remote_changes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

bool is_window(const MemoryRegion& region) noexcept {
    return region.kind == KeyKind::window_1 || region.kind == KeyKind::window_2;
}

// The rules of the two window types for a bind that do not depend on the region (IBA o10-36.2,
// o10-37.2).
vrdma_vendor_err check_window(const MemoryRegion& window, const vrdma_sq_bind& bind) noexcept {
    if (window.kind == KeyKind::window_1) {
        return (bind.access_flags & IBV_ACCESS_ZERO_BASED) != 0 ? VRDMA_VERR_ACCESS
                                                                : VRDMA_VERR_NONE;
    }
    if (window.valid) {
        return VRDMA_VERR_KEY_STATE;
    }
    return bind.length == 0 ? VRDMA_VERR_LENGTH : VRDMA_VERR_NONE;
}

// Whether the region may have such a window (IBA C10-72 to C10-75).
vrdma_vendor_err check_region(const MemoryRegion* region, PdId pd,
                              const vrdma_sq_bind& bind) noexcept {
    if (region == nullptr || !region->valid || is_window(*region)) {
        return VRDMA_VERR_KEY;
    }
    if (region->pd != pd) {
        return VRDMA_VERR_PD;
    }
    const std::uint32_t needed = (bind.access_flags & remote_changes) != 0
                                     ? IBV_ACCESS_MW_BIND | IBV_ACCESS_LOCAL_WRITE
                                     : IBV_ACCESS_MW_BIND;
    if ((region->access_flags & needed) != needed || region->dma ||
        (region->access_flags & IBV_ACCESS_ZERO_BASED) != 0) {
        return VRDMA_VERR_ACCESS;
    }
    const std::uint64_t offset = bind.addr - region->start;
    const bool inside = bind.addr >= region->start && offset <= region->length &&
                        bind.length <= region->length - offset;
    return inside ? VRDMA_VERR_NONE : VRDMA_VERR_BOUNDS;
}

void show(MemoryRegion& window, MemoryRegion& region, QueuePair* qp,
          const vrdma_sq_bind& bind) noexcept {
    const bool zero_based = (bind.access_flags & IBV_ACCESS_ZERO_BASED) != 0;
    window.valid = true;
    window.region = &region;
    window.offset = bind.addr - region.start;
    window.start = zero_based ? 0 : bind.addr;
    window.length = bind.length;
    window.access_flags = bind.access_flags & ~std::uint32_t{IBV_ACCESS_LOCAL_WRITE}; // has no lkey
    ++region.windows;
    if (window.kind == KeyKind::window_2) {
        window.owner = qp;
        qp->windows.push_back(window);
    }
}

vrdma_vendor_err register_fast(QueuePair& qp, Key key, const vrdma_sq_reg& reg) noexcept {
    const MemoryGate& gate = qp.slice.gate();
    MemoryRegion* const region = gate.find_name(key);
    if (region == nullptr || region->kind != KeyKind::fast_region) {
        return VRDMA_VERR_KEY;
    }
    if (region->pd != qp.pd) {
        return VRDMA_VERR_PD;
    }
    if (region->valid) {
        return VRDMA_VERR_KEY_STATE;
    }
    if ((reg.access_flags & remote_changes) != 0 &&
        (reg.access_flags & IBV_ACCESS_LOCAL_WRITE) == 0) {
        return VRDMA_VERR_ACCESS;
    }
    const bool zero_based = (reg.access_flags & IBV_ACCESS_ZERO_BASED) != 0;
    if (reg.length == 0 || reg.start > (zero_based ? 0 : UINT64_MAX - reg.length)) {
        return VRDMA_VERR_LENGTH;
    }
    // Only a list of PVRDMA has a second level, and it always has.
    const unsigned levels = qp.slice.format() == QueueFormat::vrdma ? 1 : 2;
    if (reg.pages.levels > levels ||
        !region->pages.load(qp.slice.memory(), reg.pages, reg.first_offset, reg.length)) {
        return VRDMA_VERR_PAGE_LIST;
    }
    region->key = key;
    region->start = reg.start;
    region->length = reg.length;
    region->access_flags = reg.access_flags | MemoryRegion::local_read;
    region->valid = true;
    return VRDMA_VERR_NONE;
}

} // namespace

vrdma_vendor_err bind_window(MemoryGate& gate, Key key, PdId pd, QueuePair* qp,
                             const vrdma_sq_bind& bind) noexcept {
    MemoryRegion* const window = gate.find_name(key);
    if (window == nullptr || !is_window(*window)) {
        return VRDMA_VERR_KEY;
    }
    if (window->pd != pd) {
        return VRDMA_VERR_PD;
    }
    if (const vrdma_vendor_err error = check_window(*window, bind); error != VRDMA_VERR_NONE) {
        return error;
    }
    if (bind.length == 0) {
        unbind(*window);
        window->key = key;
        return VRDMA_VERR_NONE;
    }
    MemoryRegion* const region = gate.find(Key{bind.lkey});
    const vrdma_vendor_err error = check_region(region, pd, bind);
    if (error == VRDMA_VERR_NONE) {
        unbind(*window);
        window->key = key;
        show(*window, *region, qp, bind);
    }
    return error;
}

vrdma_vendor_err invalidate(QueuePair& qp, Key key) noexcept {
    MemoryRegion* const region = qp.slice.gate().find(key);
    if (region == nullptr) {
        return VRDMA_VERR_KEY;
    }
    if (region->pd != qp.pd || (region->owner != nullptr && region->owner != &qp)) {
        return VRDMA_VERR_PD;
    }
    switch (region->kind) {
        case KeyKind::window_2:
            if (!region->valid) {
                return VRDMA_VERR_KEY_STATE;
            }
            unbind(*region);
            return VRDMA_VERR_NONE;
        case KeyKind::fast_region:
            if (region->windows != 0) {
                return VRDMA_VERR_KEY_STATE;
            }
            region->valid = false;
            return VRDMA_VERR_NONE;
        default:
            return VRDMA_VERR_ACCESS; // only verbs invalidate it (IBA o10-37.2.26)
    }
}

vrdma_vendor_err change_key(QueuePair& qp, const SendWqe& wqe) noexcept {
    switch (wqe.opcode) {
        case VRDMA_SQ_BIND_MW:
            return bind_window(qp.slice.gate(), wqe.rkey, qp.pd, &qp, wqe.bind);
        case VRDMA_SQ_LOCAL_INV:
            return invalidate(qp, wqe.rkey);
        case VRDMA_SQ_REG_MR:
            return register_fast(qp, wqe.rkey, wqe.reg);
        default:
            return VRDMA_VERR_OPCODE;
    }
}

void unbind(MemoryRegion& window) noexcept {
    if (window.owner != nullptr) {
        window.owner->windows.remove(window);
    }
    if (window.region != nullptr) {
        --window.region->windows;
    }
    window.owner = nullptr;
    window.region = nullptr;
    window.valid = false;
}

void unbind_windows(QueuePair& qp) noexcept {
    while (MemoryRegion* const window = qp.windows.front()) {
        unbind(*window);
    }
}

} // namespace vrdma::hca::soft
