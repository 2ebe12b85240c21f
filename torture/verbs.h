// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Owners of verbs objects. Each destroys its object, which must succeed because nothing uses it.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <memory>

#include "torture/failure.h"

namespace vrdma::torture {

template <auto release>
struct Release {
    template <typename T>
    void operator()(T* object) const {
        check(release(object), "destroying an object");
    }
};

template <typename T, auto release>
using Owner = std::unique_ptr<T, Release<release>>;

// These are inline functions in libibverbs' header, so each source file has its own.
inline int close_xrcd(ibv_xrcd* xrcd) {
    return ibv_close_xrcd(xrcd);
}
inline int dealloc_mw(ibv_mw* window) {
    return ibv_dealloc_mw(window);
}

using Context = Owner<ibv_context, ibv_close_device>;
using Pd = Owner<ibv_pd, ibv_dealloc_pd>;
using Mr = Owner<ibv_mr, ibv_dereg_mr>;
using Mw = Owner<ibv_mw, dealloc_mw>;
using Channel = Owner<ibv_comp_channel, ibv_destroy_comp_channel>;
using Cq = Owner<ibv_cq, ibv_destroy_cq>;
using Xrcd = Owner<ibv_xrcd, close_xrcd>;
using Srq = Owner<ibv_srq, ibv_destroy_srq>;
using Qp = Owner<ibv_qp, ibv_destroy_qp>;
using Ah = Owner<ibv_ah, ibv_destroy_ah>;

template <typename T>
T* made(T* object, const char* what) {
    check(object == nullptr ? errno : 0, what);
    return object;
}

} // namespace vrdma::torture
