// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/verbs/qp_transition.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>

namespace vrdma::verbs {
namespace {

enum Types : unsigned {
    rc = 1,
    uc = 2,
    ud = 4,
    send = 8,  // XRC
    recv = 16, // XRC
    connected = rc | uc | send | recv,
    all = connected | ud,
};

struct Rule {
    ibv_qp_state from;
    ibv_qp_state to;
    unsigned types;
    std::uint32_t required;
    std::uint32_t optional;
};

constexpr std::uint32_t identity = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr std::uint32_t path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr std::uint32_t retries = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
constexpr std::uint32_t current = IBV_QP_CUR_STATE;
constexpr std::uint32_t access_flags = IBV_QP_ACCESS_FLAGS;

constexpr std::array rules{
    Rule{IBV_QPS_RESET, IBV_QPS_INIT, connected, identity | access_flags, 0},
    Rule{IBV_QPS_RESET, IBV_QPS_INIT, ud, identity | IBV_QP_QKEY, 0},

    Rule{IBV_QPS_INIT, IBV_QPS_INIT, connected, 0, identity | access_flags},
    Rule{IBV_QPS_INIT, IBV_QPS_INIT, ud, 0, identity | IBV_QP_QKEY},
    Rule{IBV_QPS_INIT, IBV_QPS_RTR, rc | recv,
         path | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, access_flags | IBV_QP_PKEY_INDEX},
    Rule{IBV_QPS_INIT, IBV_QPS_RTR, uc | send, path, access_flags | IBV_QP_PKEY_INDEX},
    Rule{IBV_QPS_INIT, IBV_QPS_RTR, ud, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},

    Rule{IBV_QPS_RTR, IBV_QPS_RTS, rc, IBV_QP_SQ_PSN | retries | IBV_QP_MAX_QP_RD_ATOMIC,
         current | access_flags | IBV_QP_MIN_RNR_TIMER},
    Rule{IBV_QPS_RTR, IBV_QPS_RTS, send, IBV_QP_SQ_PSN | retries | IBV_QP_MAX_QP_RD_ATOMIC,
         current | access_flags},
    Rule{IBV_QPS_RTR, IBV_QPS_RTS, recv, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT,
         current | access_flags | IBV_QP_MIN_RNR_TIMER},
    Rule{IBV_QPS_RTR, IBV_QPS_RTS, uc, IBV_QP_SQ_PSN, current | access_flags},
    Rule{IBV_QPS_RTR, IBV_QPS_RTS, ud, IBV_QP_SQ_PSN, current | IBV_QP_QKEY},

    Rule{IBV_QPS_RTS, IBV_QPS_RTS, rc | recv, 0, current | access_flags | IBV_QP_MIN_RNR_TIMER},
    Rule{IBV_QPS_RTS, IBV_QPS_RTS, uc | send, 0, current | access_flags},
    Rule{IBV_QPS_RTS, IBV_QPS_RTS, ud, 0, current | IBV_QP_QKEY},
    Rule{IBV_QPS_RTS, IBV_QPS_SQD, all, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},

    Rule{IBV_QPS_SQD, IBV_QPS_RTS, rc | recv, 0, current | access_flags | IBV_QP_MIN_RNR_TIMER},
    Rule{IBV_QPS_SQD, IBV_QPS_RTS, uc | send, 0, current | access_flags},
    Rule{IBV_QPS_SQD, IBV_QPS_RTS, ud, 0, current | IBV_QP_QKEY},
    Rule{IBV_QPS_SQD, IBV_QPS_SQD, rc, 0,
         identity | IBV_QP_AV | retries | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
             access_flags | IBV_QP_MIN_RNR_TIMER},
    Rule{IBV_QPS_SQD, IBV_QPS_SQD, send, 0,
         identity | IBV_QP_AV | retries | IBV_QP_MAX_QP_RD_ATOMIC | access_flags},
    Rule{IBV_QPS_SQD, IBV_QPS_SQD, recv, 0,
         identity | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_MAX_DEST_RD_ATOMIC | access_flags |
             IBV_QP_MIN_RNR_TIMER},
    Rule{IBV_QPS_SQD, IBV_QPS_SQD, uc, 0, IBV_QP_AV | access_flags | IBV_QP_PKEY_INDEX},
    Rule{IBV_QPS_SQD, IBV_QPS_SQD, ud, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},

    Rule{IBV_QPS_SQE, IBV_QPS_RTS, uc, 0, current | access_flags},
    Rule{IBV_QPS_SQE, IBV_QPS_RTS, ud, 0, current | IBV_QP_QKEY},
};

constexpr std::uint32_t unsupported =
    IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_CAP | IBV_QP_RATE_LIMIT;

constexpr unsigned type_bit(hca::QpType type) {
    switch (type) {
        case hca::QpType::rc:
            return rc;
        case hca::QpType::uc:
            return uc;
        case hca::QpType::ud:
            return ud;
        case hca::QpType::xrc_send:
            return send;
        case hca::QpType::xrc_recv:
            return recv;
    }
    return 0;
}

// RESET can be reached from every state, and ERR from every state but RESET, both without
// attributes.
constexpr bool always_possible(std::uint8_t from, std::uint8_t to) {
    return to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET);
}

} // namespace

Result<> check_transition(hca::QpType type, std::uint8_t from, std::uint8_t to,
                          std::uint32_t attr_mask) {
    if ((attr_mask & unsupported) != 0) {
        return fail(std::errc::operation_not_supported);
    }
    const std::uint32_t attributes = attr_mask & ~static_cast<std::uint32_t>(IBV_QP_STATE);
    if (always_possible(from, to)) {
        return attributes == 0 ? Result<>{} : fail(std::errc::invalid_argument);
    }
    const auto rule = std::ranges::find_if(rules, [&](const Rule& candidate) {
        return candidate.from == from && candidate.to == to &&
               (candidate.types & type_bit(type)) != 0;
    });
    if (rule == rules.end() || (attributes & rule->required) != rule->required ||
        (attributes & ~(rule->required | rule->optional)) != 0) {
        return fail(std::errc::invalid_argument);
    }
    return {};
}

} // namespace vrdma::verbs
