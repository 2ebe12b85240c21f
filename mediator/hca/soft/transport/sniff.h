// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Records messages with peers on this host for a slice's sniffer. No packet carries such a message,
// so the packet is made up that would carry all of it: a request, and the response or the NAK that
// answers it. It has the beginning of the payload only. Its PSN counts the frames that the sniffer
// has seen, and an answer has the PSN of its request. What succeeds without a response is not
// acknowledged.
#pragma once

#include <optional>

#include "mediator/hca/soft/slice/queue_pair.h"
#include "mediator/hca/soft/slice/request.h"

namespace vrdma::hca::soft {

// The slice has a sniffer. The connected QP's request was answered.
void sniff_sent(const QueuePair& qp, const Request& request, Ack ack) noexcept;
// The connected QP has executed the request. Nothing is recorded for a packet from the network,
// which was recorded there, and for a message of the same slice, which its sender records.
void sniff_received(const QueuePair& qp, const Request& request, Ack ack) noexcept;

// The same for datagrams. A sender's is recorded when it has been answered.
void sniff_sent_datagram(SliceCore& slice, const Route& route, const Request& request,
                         Ack ack) noexcept;
void sniff_received_datagram(SliceCore& slice, const Route& route, const Request& request) noexcept;

} // namespace vrdma::hca::soft
