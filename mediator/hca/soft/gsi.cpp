// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/gsi.h"

#include "mediator/hca/soft/copy.h"
#include "mediator/hca/soft/scratch_watch.h"
#include "mediator/hca/soft/slice_core.h"
#include "vrdma/mad.h"

namespace vrdma::hca::soft {
namespace {

constexpr unsigned qpn_shift = 8; // an id begins with as many bits as a QPN has

void copy_mad(const SpanList& payload, vrdma_mad& mad) noexcept {
    SpanList target{sizeof(mad)};
    target.add(std::as_writable_bytes(std::span{&mad, 1}));
    SpanCursor to{target};
    SpanCursor from{payload};
    copy(to, from);
}

// Zeros if it is not there; delivering it will show that too.
vrdma_mad read_mad(const Request& request) noexcept {
    vrdma_mad mad{};
    if (request.from == nullptr) {
        copy_mad(request.payload, mad);
        return mad;
    }
    GuestMemory& memory = request.from->memory();
    const ScratchWatch watch{memory};
    copy_mad(request.payload, mad);
    if (watch.tripped()) {
        release(memory, request.payload);
        return {};
    }
    return mad;
}

SliceCore* find_by_id(const Fabric& fabric, const GidKey& key, const Request& request,
                      std::uint32_t id) noexcept {
    return fabric.find(key, Qpn{id >> qpn_shift}, request.from);
}

// Who is named, if it is a message that names somebody. Who gives up a request that was not
// answered names nobody (REJ), and its listener finds out by itself.
SliceCore* find_named(const Fabric& fabric, const GidKey& key, const Request& request) noexcept {
    const vrdma_mad mad = read_mad(request);
    if (!vrdma_mad_is_cm(&mad)) {
        return nullptr;
    }
    switch (be16toh(mad.header.attribute)) {
        case VRDMA_CM_REQ:
            return fabric.find_listener(key, be64toh(mad.req.service_id));
        case VRDMA_CM_SIDR_REQ:
            return fabric.find_listener(key, be64toh(mad.sidr_req.service_id));
        case VRDMA_CM_SIDR_REP:
            return find_by_id(fabric, key, request, be32toh(mad.sidr_rep.request_id));
        default:
            return find_by_id(fabric, key, request, be32toh(mad.ids.remote_id));
    }
}

} // namespace

SliceCore* find_gsi(const Fabric& fabric, const GidKey& key, const Request& request) noexcept {
    if (!fabric.is_shared(key)) {
        return fabric.find(key, gsi_qpn, request.from);
    }
    SliceCore* const named = find_named(fabric, key, request);
    return named != nullptr ? named : fabric.find_listener(key, Fabric::anything);
}

} // namespace vrdma::hca::soft
