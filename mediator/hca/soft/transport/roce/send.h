// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Makes packets of the WQEs of a connected QP whose peer is on the network (IBA 9.7.3, 9.8.2).
#pragma once

#include "mediator/hca/soft/transport/roce/connection.h"

namespace vrdma::hca::soft::roce {

Turn send_packets(Connection& connection) noexcept;

} // namespace vrdma::hca::soft::roce
