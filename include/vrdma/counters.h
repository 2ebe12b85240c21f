/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The names of enum vrdma_counter for people, as "rdma statistic" has them in a guest and vrdmad's
 * control socket on its host. They are those of mlx5 and rxe where these have the counter. After
 * the name comes its meaning.
 */
#ifndef VRDMA_COUNTERS_H
#define VRDMA_COUNTERS_H

#include "device.h"

/* clang-format off */
#define VRDMA_COUNTER_LIST(each)                                                                   \
	each(VRDMA_COUNTER_TX_BYTES, "tx_bytes", "Bytes of messages sent")                         \
	each(VRDMA_COUNTER_RX_BYTES, "rx_bytes", "Bytes of messages received")                     \
	each(VRDMA_COUNTER_TX_MESSAGES, "tx_messages", "Messages sent")                            \
	each(VRDMA_COUNTER_RX_MESSAGES, "rx_messages", "Messages received")                        \
	each(VRDMA_COUNTER_DROPPED_MESSAGES, "dropped_messages",                                   \
	     "Datagrams and UC messages dropped without a receive")                                \
	each(VRDMA_COUNTER_FLUSHED_WQES, "flushed_wqes", "WQEs flushed")                           \
	each(VRDMA_COUNTER_RNR_NAKS, "rnr_nak_retry_err", "RNR NAKs received")                     \
	each(VRDMA_COUNTER_ACK_TIMEOUTS, "local_ack_timeout_err",                                  \
	     "Messages that a peer did not answer in time")                                        \
	each(VRDMA_COUNTER_RETRIES_EXCEEDED, "retry_exceeded_err",                                 \
	     "WQEs that failed because of ACK timeouts")                                           \
	each(VRDMA_COUNTER_RNR_RETRIES_EXCEEDED, "retry_rnr_exceeded_err",                         \
	     "WQEs that failed because of RNR NAKs")                                               \
	each(VRDMA_COUNTER_REMOTE_ACCESS_ERRORS, "req_remote_access_errors",                       \
	     "WQEs that the memory of the peer refused")                                           \
	each(VRDMA_COUNTER_REMOTE_OP_ERRORS, "req_remote_op_errors",                               \
	     "WQEs that the peer could not execute")                                               \
	each(VRDMA_COUNTER_LOCAL_ERRORS, "local_errors",                                           \
	     "WQEs and receives with an error of their own")                                       \
	each(VRDMA_COUNTER_REFUSED_REQUESTS, "refused_requests", "Requests of peers refused")      \
	each(VRDMA_COUNTER_CQ_OVERRUNS, "cq_overruns", "CQ overruns")                              \
	each(VRDMA_COUNTER_TX_PACKETS, "tx_packets", "Packets sent to other hosts")                \
	each(VRDMA_COUNTER_RX_PACKETS, "rx_packets", "Packets received from other hosts")          \
	each(VRDMA_COUNTER_RETRANSMITS, "retransmits", "Packets sent again")                       \
	each(VRDMA_COUNTER_EARLY_RETRIES, "roce_adp_retrans",                                      \
	     "Retries before the timeout of the QP")                                               \
	each(VRDMA_COUNTER_DUPLICATE_REQUESTS, "duplicate_request", "Requests received again")     \
	each(VRDMA_COUNTER_OUT_OF_SEQUENCE, "out_of_sequence",                                     \
	     "Packets received while packets before them are missing")                             \
	each(VRDMA_COUNTER_SEQUENCE_NAKS, "packet_seq_err", "PSN sequence NAKs received")          \
	each(VRDMA_COUNTER_IMPLIED_NAKS, "implied_nak_seq_err",                                    \
	     "Responses that show that one before them was lost")                                  \
	each(VRDMA_COUNTER_REMOTE_INVALID_REQUESTS, "req_remote_invalid_request",                  \
	     "WQEs that the peer found invalid")                                                   \
	each(VRDMA_COUNTER_SENT_SEQUENCE_NAKS, "send_seq_naks", "PSN sequence NAKs sent")          \
	each(VRDMA_COUNTER_SENT_RNR_NAKS, "send_rnr_err", "RNR NAKs sent")                         \
	each(VRDMA_COUNTER_SENT_ACCESS_NAKS, "resp_remote_access_errors",                          \
	     "Remote access error NAKs sent")                                                      \
	each(VRDMA_COUNTER_SENT_OP_NAKS, "resp_remote_op_errors",                                  \
	     "Remote operational error NAKs sent")                                                 \
	each(VRDMA_COUNTER_SENT_INVALID_NAKS, "resp_remote_invalid_request",                       \
	     "Invalid request NAKs sent")                                                          \
	each(VRDMA_COUNTER_BAD_ICRCS, "rx_icrc_encapsulated", "Packets dropped: bad ICRC")         \
	each(VRDMA_COUNTER_MALFORMED_PACKETS, "rx_malformed", "Packets dropped: malformed")        \
	each(VRDMA_COUNTER_BAD_PKEYS, "rx_bad_pkey", "Packets dropped: wrong P_Key")               \
	each(VRDMA_COUNTER_WRONG_SOURCES, "rx_wrong_source",                                       \
	     "Packets dropped: not from the peer of the QP")                                       \
	each(VRDMA_COUNTER_UNKNOWN_QPS, "rx_unknown_qp", "Packets dropped: unknown QP")            \
	each(VRDMA_COUNTER_WRONG_STATES, "rx_wrong_state",                                         \
	     "Packets dropped: wrong type or state of the QP")                                     \
	each(VRDMA_COUNTER_BAD_QKEYS, "rx_bad_qkey", "Packets dropped: wrong Q_Key")               \
	each(VRDMA_COUNTER_STALE_RESPONSES, "rx_stale_responses",                                  \
	     "Packets dropped: responses that no request waits for")                               \
	each(VRDMA_COUNTER_MARKED_PACKETS, "np_ecn_marked_roce_packets",                           \
	     "Packets received that a router has marked for congestion")                           \
	each(VRDMA_COUNTER_SENT_NOTICES, "np_cnp_sent", "Congestion notifications sent")           \
	each(VRDMA_COUNTER_HEEDED_NOTICES, "rp_cnp_handled", "Congestion notifications heeded")
/* clang-format on */

#endif
