// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/host/libibverbs.h"

namespace {

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) {
    return ibv_query_port(context, port, attr);
}

ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t room) {
    return ::ibv_query_gid_table(context, entries, room, 0);
}

ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, unsigned access) {
    return ::ibv_reg_mr_iova2(pd, address, length, iova, access);
}

} // namespace

extern "C" {
extern const vrdma::hca::host::Libibverbs vrdma_libibverbs;
const vrdma::hca::host::Libibverbs vrdma_libibverbs{
    .get_device_list = ::ibv_get_device_list,
    .free_device_list = ::ibv_free_device_list,
    .get_device_name = ::ibv_get_device_name,
    .open_device = ::ibv_open_device,
    .close_device = ::ibv_close_device,
    .query_device = ::ibv_query_device,
    .query_port = query_port,
    .query_gid_table = query_gid_table,
    .get_async_event = ::ibv_get_async_event,
    .ack_async_event = ::ibv_ack_async_event,
    .alloc_pd = ::ibv_alloc_pd,
    .dealloc_pd = ::ibv_dealloc_pd,
    .reg_mr = reg_mr,
    .dereg_mr = ::ibv_dereg_mr,
    .create_comp_channel = ::ibv_create_comp_channel,
    .destroy_comp_channel = ::ibv_destroy_comp_channel,
    .create_cq = ::ibv_create_cq,
    .destroy_cq = ::ibv_destroy_cq,
    .get_cq_event = ::ibv_get_cq_event,
    .ack_cq_events = ::ibv_ack_cq_events,
    .create_qp = ::ibv_create_qp,
    .modify_qp = ::ibv_modify_qp,
    .destroy_qp = ::ibv_destroy_qp,
    .create_ah = ::ibv_create_ah,
    .destroy_ah = ::ibv_destroy_ah,
};
}
