// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/gsi.h"

#include "mediator/hca/soft/memory/guarded_copy.h"
#include "mediator/hca/soft/slice/slice_core.h"
#include "vrdma/mad.h"

namespace vrdma::hca::soft {
namespace {

constexpr unsigned qpn_shift = 8; // the upper bits of an id are a QPN

void copy_mad(const SpanList& payload, vrdma_mad& mad) noexcept {
    SpanList target{sizeof(mad)};
    target.add(std::as_writable_bytes(std::span{&mad, 1}));
    SpanCursor to{target};
    SpanCursor from{payload};
    copy(to, from);
}

// Returns zeros if the payload is not there. Its delivery will find that, too.
vrdma_mad read_mad(const Request& request) noexcept {
    vrdma_mad mad{};
    if (request.from == nullptr) {
        copy_mad(request.payload, mad);
        return mad;
    }
    GuestMemory& memory = request.from->memory();
    const bool there = guarded(memory, request.payload, [&] { copy_mad(request.payload, mad); });
    return there ? mad : vrdma_mad{};
}

SliceCore* find_by_id(const RoutingTable& routes, const GidKey& key, const Request& request,
                      std::uint32_t id) noexcept {
    return routes.find(key, Qpn{id >> qpn_shift}, request.from);
}

// The slice that a CM message names, if it names one. A requester that gives up an unanswered
// request names nobody (REJ), and the listener finds out by itself.
SliceCore* find_named(const RoutingTable& routes, const GidKey& key,
                      const Request& request) noexcept {
    const vrdma_mad mad = read_mad(request);
    if (!vrdma_mad_is_cm(&mad)) {
        return nullptr;
    }
    switch (be16toh(mad.header.attribute)) {
        case VRDMA_CM_REQ:
            return routes.find_listener(key, be64toh(mad.req.service_id));
        case VRDMA_CM_SIDR_REQ:
            return routes.find_listener(key, be64toh(mad.sidr_req.service_id));
        case VRDMA_CM_SIDR_REP:
            return find_by_id(routes, key, request, be32toh(mad.sidr_rep.request_id));
        default:
            return find_by_id(routes, key, request, be32toh(mad.ids.remote_id));
    }
}

} // namespace

SliceCore* find_gsi(const RoutingTable& routes, const GidKey& key,
                    const Request& request) noexcept {
    if (!routes.is_shared(key)) {
        return routes.find(key, gsi_qpn, request.from);
    }
    SliceCore* const named = find_named(routes, key, request);
    return named != nullptr ? named : routes.find_listener(key, RoutingTable::anything);
}

} // namespace vrdma::hca::soft
