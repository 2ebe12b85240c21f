// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// libibverbs' functions, in a module of ours that is loaded when an uplink needs it. So vrdmad
// starts on a host without libibverbs. A test has functions of its own in their place. The data
// path is not here: it is in the context that open_device() returns.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace vrdma::hca::host {

// The module's only symbol, `vrdma_libibverbs`. The linker binds the functions to the versions that
// belong to the structs of these headers, as dlsym() could not.
struct Libibverbs {
    decltype(&::ibv_get_device_list) get_device_list;
    decltype(&::ibv_free_device_list) free_device_list;
    decltype(&::ibv_get_device_name) get_device_name;
    decltype(&::ibv_open_device) open_device;
    decltype(&::ibv_close_device) close_device;
    decltype(&::ibv_query_device) query_device;
    int (*query_port)(ibv_context*, std::uint8_t port, ibv_port_attr*);
    // The entries that are in use, of all ports.
    ssize_t (*query_gid_table)(ibv_context*, ibv_gid_entry*, std::size_t room);
    decltype(&::ibv_get_async_event) get_async_event;
    decltype(&::ibv_ack_async_event) ack_async_event;
    decltype(&::ibv_alloc_pd) alloc_pd;
    decltype(&::ibv_dealloc_pd) dealloc_pd;
    ibv_mr* (*reg_mr)(ibv_pd*, void* address, std::size_t length, std::uint64_t iova,
                      unsigned access);
    decltype(&::ibv_dereg_mr) dereg_mr;
    decltype(&::ibv_create_comp_channel) create_comp_channel;
    decltype(&::ibv_destroy_comp_channel) destroy_comp_channel;
    decltype(&::ibv_create_cq) create_cq;
    decltype(&::ibv_destroy_cq) destroy_cq;
    decltype(&::ibv_get_cq_event) get_cq_event;
    decltype(&::ibv_ack_cq_events) ack_cq_events;
    decltype(&::ibv_create_qp) create_qp;
    decltype(&::ibv_modify_qp) modify_qp;
    decltype(&::ibv_destroy_qp) destroy_qp;
    decltype(&::ibv_create_ah) create_ah;
    decltype(&::ibv_destroy_ah) destroy_ah;
};

// Loads the module at the first call. Afterwards it takes no files. The error is for people.
const tl::expected<const Libibverbs*, std::string>& libibverbs();

} // namespace vrdma::hca::host
