// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The tables of the specification (IBA 11.2.5.2, tables 91 to 94, and annex A14 for XRC), written
// down a second time, transport by transport, and compared with the rules that are enforced.
#include "mediator/verbs/qp_transition.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <string>

#include "mediator/verbs/tests/verbs_test.h"

namespace vrdma::verbs {
namespace {

using hca::QpType;

constexpr std::array types{QpType::rc, QpType::uc, QpType::ud, QpType::xrc_send, QpType::xrc_recv};
constexpr auto unsupported = std::errc::operation_not_supported;

constexpr unsigned cur = IBV_QP_CUR_STATE;
constexpr unsigned notify = IBV_QP_EN_SQD_ASYNC_NOTIFY;
constexpr unsigned access_flags = IBV_QP_ACCESS_FLAGS;
constexpr unsigned pkey = IBV_QP_PKEY_INDEX;
constexpr unsigned port = IBV_QP_PORT;
constexpr unsigned qkey = IBV_QP_QKEY;
constexpr unsigned av = IBV_QP_AV;
constexpr unsigned mtu = IBV_QP_PATH_MTU;
constexpr unsigned timeout = IBV_QP_TIMEOUT;
constexpr unsigned retries = IBV_QP_RETRY_CNT;
constexpr unsigned rnr_retries = IBV_QP_RNR_RETRY;
constexpr unsigned rq_psn = IBV_QP_RQ_PSN;
constexpr unsigned sq_psn = IBV_QP_SQ_PSN;
constexpr unsigned initiated = IBV_QP_MAX_QP_RD_ATOMIC;
constexpr unsigned served = IBV_QP_MAX_DEST_RD_ATOMIC;
constexpr unsigned rnr_timer = IBV_QP_MIN_RNR_TIMER;
constexpr unsigned dest_qpn = IBV_QP_DEST_QPN;

constexpr std::array attributes{cur,    notify,    access_flags, pkey,      port,        qkey,
                                av,     mtu,       timeout,      retries,   rnr_retries, rq_psn,
                                sq_psn, initiated, served,       rnr_timer, dest_qpn};

// The tables also have alternate paths and path migration, which are not supported.
constexpr std::array never{unsigned{IBV_QP_ALT_PATH}, unsigned{IBV_QP_PATH_MIG_STATE},
                           unsigned{IBV_QP_CAP}, unsigned{IBV_QP_RATE_LIMIT}};

struct Row {
    QpType type;
    ibv_qp_state from;
    ibv_qp_state to;
    unsigned required;
    unsigned optional;
};

constexpr std::array table{
    Row{QpType::rc, IBV_QPS_RESET, IBV_QPS_INIT, pkey | port | access_flags, 0},
    Row{QpType::rc, IBV_QPS_INIT, IBV_QPS_INIT, 0, pkey | port | access_flags},
    Row{QpType::rc, IBV_QPS_INIT, IBV_QPS_RTR, av | mtu | dest_qpn | rq_psn | served | rnr_timer,
        pkey | access_flags},
    Row{QpType::rc, IBV_QPS_RTR, IBV_QPS_RTS, sq_psn | timeout | retries | rnr_retries | initiated,
        cur | access_flags | rnr_timer},
    Row{QpType::rc, IBV_QPS_RTS, IBV_QPS_RTS, 0, cur | access_flags | rnr_timer},
    Row{QpType::rc, IBV_QPS_RTS, IBV_QPS_SQD, 0, notify},
    Row{QpType::rc, IBV_QPS_SQD, IBV_QPS_RTS, 0, cur | access_flags | rnr_timer},
    Row{QpType::rc, IBV_QPS_SQD, IBV_QPS_SQD, 0,
        av | pkey | port | timeout | retries | rnr_retries | initiated | served | access_flags |
            rnr_timer},

    Row{QpType::uc, IBV_QPS_RESET, IBV_QPS_INIT, pkey | port | access_flags, 0},
    Row{QpType::uc, IBV_QPS_INIT, IBV_QPS_INIT, 0, pkey | port | access_flags},
    Row{QpType::uc, IBV_QPS_INIT, IBV_QPS_RTR, av | mtu | dest_qpn | rq_psn, pkey | access_flags},
    Row{QpType::uc, IBV_QPS_RTR, IBV_QPS_RTS, sq_psn, cur | access_flags},
    Row{QpType::uc, IBV_QPS_RTS, IBV_QPS_RTS, 0, cur | access_flags},
    Row{QpType::uc, IBV_QPS_RTS, IBV_QPS_SQD, 0, notify},
    Row{QpType::uc, IBV_QPS_SQD, IBV_QPS_RTS, 0, cur | access_flags},
    Row{QpType::uc, IBV_QPS_SQD, IBV_QPS_SQD, 0, av | pkey | access_flags},
    Row{QpType::uc, IBV_QPS_SQE, IBV_QPS_RTS, 0, cur | access_flags},

    Row{QpType::ud, IBV_QPS_RESET, IBV_QPS_INIT, pkey | port | qkey, 0},
    Row{QpType::ud, IBV_QPS_INIT, IBV_QPS_INIT, 0, pkey | port | qkey},
    Row{QpType::ud, IBV_QPS_INIT, IBV_QPS_RTR, 0, pkey | qkey},
    Row{QpType::ud, IBV_QPS_RTR, IBV_QPS_RTS, sq_psn, cur | qkey},
    Row{QpType::ud, IBV_QPS_RTS, IBV_QPS_RTS, 0, cur | qkey},
    Row{QpType::ud, IBV_QPS_RTS, IBV_QPS_SQD, 0, notify},
    Row{QpType::ud, IBV_QPS_SQD, IBV_QPS_RTS, 0, cur | qkey},
    Row{QpType::ud, IBV_QPS_SQD, IBV_QPS_SQD, 0, pkey | qkey},
    Row{QpType::ud, IBV_QPS_SQE, IBV_QPS_RTS, 0, cur | qkey},

    Row{QpType::xrc_send, IBV_QPS_RESET, IBV_QPS_INIT, pkey | port | access_flags, 0},
    Row{QpType::xrc_send, IBV_QPS_INIT, IBV_QPS_INIT, 0, pkey | port | access_flags},
    Row{QpType::xrc_send, IBV_QPS_INIT, IBV_QPS_RTR, av | mtu | dest_qpn | rq_psn,
        pkey | access_flags},
    Row{QpType::xrc_send, IBV_QPS_RTR, IBV_QPS_RTS,
        sq_psn | timeout | retries | rnr_retries | initiated, cur | access_flags},
    Row{QpType::xrc_send, IBV_QPS_RTS, IBV_QPS_RTS, 0, cur | access_flags},
    Row{QpType::xrc_send, IBV_QPS_RTS, IBV_QPS_SQD, 0, notify},
    Row{QpType::xrc_send, IBV_QPS_SQD, IBV_QPS_RTS, 0, cur | access_flags},
    Row{QpType::xrc_send, IBV_QPS_SQD, IBV_QPS_SQD, 0,
        av | pkey | port | timeout | retries | rnr_retries | initiated | access_flags},

    Row{QpType::xrc_recv, IBV_QPS_RESET, IBV_QPS_INIT, pkey | port | access_flags, 0},
    Row{QpType::xrc_recv, IBV_QPS_INIT, IBV_QPS_INIT, 0, pkey | port | access_flags},
    Row{QpType::xrc_recv, IBV_QPS_INIT, IBV_QPS_RTR,
        av | mtu | dest_qpn | rq_psn | served | rnr_timer, pkey | access_flags},
    Row{QpType::xrc_recv, IBV_QPS_RTR, IBV_QPS_RTS, sq_psn | timeout,
        cur | access_flags | rnr_timer},
    Row{QpType::xrc_recv, IBV_QPS_RTS, IBV_QPS_RTS, 0, cur | access_flags | rnr_timer},
    Row{QpType::xrc_recv, IBV_QPS_RTS, IBV_QPS_SQD, 0, notify},
    Row{QpType::xrc_recv, IBV_QPS_SQD, IBV_QPS_RTS, 0, cur | access_flags | rnr_timer},
    Row{QpType::xrc_recv, IBV_QPS_SQD, IBV_QPS_SQD, 0,
        av | pkey | port | timeout | served | access_flags | rnr_timer},
};

std::errc error(QpType type, ibv_qp_state from, ibv_qp_state to, unsigned mask) {
    const auto result = check_transition(type, from, to, mask | IBV_QP_STATE);
    return result ? std::errc{} : result.error();
}

std::errc error(const Row& row, unsigned mask) {
    return error(row.type, row.from, row.to, mask);
}

std::string name(const Row& row) {
    constexpr std::array transports{"RC", "UC", "UD", "XRC send", "XRC receive"};
    const auto place = std::ranges::find(types, row.type) - types.begin();
    return std::string{transports.at(place)} + " from " + std::to_string(row.from) + " to " +
           std::to_string(row.to);
}

// Calls check() for every transition of every state and transport, with its row of the table or
// nullptr.
template <typename Check>
void for_each_transition(Check check) {
    for (const QpType type : types) {
        for (int from = IBV_QPS_RESET; from <= IBV_QPS_ERR; ++from) {
            for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; ++to) {
                const Row any{type, static_cast<ibv_qp_state>(from), static_cast<ibv_qp_state>(to),
                              0, 0};
                const auto row = std::ranges::find_if(table, [&](const Row& each) {
                    return each.type == type && each.from == from && each.to == to;
                });
                SCOPED_TRACE(name(any));
                check(any, row == table.end() ? nullptr : &*row);
            }
        }
    }
}

// Give the required attributes of a row, with and without all optional ones; expect success.
TEST(QpTransition, TakesWhatTheTablesAllow) {
    for (const Row& row : table) {
        SCOPED_TRACE(name(row));
        EXPECT_EQ(error(row, row.required), std::errc{});
        EXPECT_EQ(error(row, row.required | row.optional), std::errc{});
    }
}

// Leave out each attribute that a row requires; expect EINVAL.
TEST(QpTransition, NeedsEachRequiredAttribute) {
    for (const Row& row : table) {
        SCOPED_TRACE(name(row));
        for (const unsigned attribute : attributes) {
            if ((row.required & attribute) != 0) {
                EXPECT_EQ(error(row, row.required & ~attribute), invalid) << attribute;
            }
        }
    }
}

// Add each attribute that a row does not have; expect EINVAL.
TEST(QpTransition, RefusesEachOtherAttribute) {
    for (const Row& row : table) {
        SCOPED_TRACE(name(row));
        for (const unsigned attribute : attributes) {
            if (((row.required | row.optional) & attribute) == 0) {
                EXPECT_EQ(error(row, row.required | attribute), invalid) << attribute;
            }
        }
    }
}

// Try every transition that has no row. Without attributes, RESET can be reached from every state,
// and ERR from every state but RESET. Expect EINVAL for all else.
TEST(QpTransition, RefusesEachOtherTransition) {
    for_each_transition([](const Row& any, const Row* row) {
        if (row != nullptr) {
            return;
        }
        const bool possible =
            any.to == IBV_QPS_RESET || (any.to == IBV_QPS_ERR && any.from != IBV_QPS_RESET);
        EXPECT_EQ(error(any, 0), possible ? std::errc{} : invalid);
        unsigned everything = 0;
        for (const unsigned attribute : attributes) {
            EXPECT_EQ(error(any, attribute), invalid) << attribute;
            everything |= attribute;
        }
        EXPECT_EQ(error(any, everything), invalid);
    });
}

// Ask for path migration, other queue sizes and a rate limit in every transition; expect
// EOPNOTSUPP.
TEST(QpTransition, PathMigrationAndResizingAreNotSupported) {
    for_each_transition([](const Row& any, const Row* row) {
        for (const unsigned attribute : never) {
            EXPECT_EQ(error(any, attribute | (row != nullptr ? row->required : 0)), unsupported);
        }
    });
}

TEST(QpTransition, UnknownStatesAndAttributesAreRefused) {
    for (const QpType type : types) {
        EXPECT_EQ(check_transition(type, IBV_QPS_RTS, 7, IBV_QP_STATE).error(), invalid);
        EXPECT_EQ(error(type, IBV_QPS_RTS, IBV_QPS_RTS, 1u << 30), invalid);
        EXPECT_EQ(error(type, IBV_QPS_RTS, IBV_QPS_ERR, 1u << 30), invalid);
    }
}

} // namespace
} // namespace vrdma::verbs
