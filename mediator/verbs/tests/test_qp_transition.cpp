// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>

#include "mediator/verbs/qp_transition.h"

namespace vrdma::verbs {
namespace {

using hca::QpType;

constexpr std::array types{QpType::rc, QpType::uc, QpType::ud};
constexpr auto invalid = std::errc::invalid_argument;

std::errc error(QpType type, ibv_qp_state from, ibv_qp_state to, unsigned mask) {
    const auto result = check_transition(type, from, to, mask | IBV_QP_STATE);
    return result ? std::errc{} : result.error();
}

constexpr unsigned rc_rtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr unsigned rc_rts =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

// What a transition needs, for each type: RC, UC, UD.
struct Transition {
    ibv_qp_state from;
    ibv_qp_state to;
    std::array<unsigned, 3> required;
};

constexpr unsigned init = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr unsigned uc_rtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr std::array required{
    Transition{IBV_QPS_RESET,
               IBV_QPS_INIT,
               {init | IBV_QP_ACCESS_FLAGS, init | IBV_QP_ACCESS_FLAGS, init | IBV_QP_QKEY}},
    Transition{IBV_QPS_INIT, IBV_QPS_RTR, {rc_rtr, uc_rtr, 0}},
    Transition{IBV_QPS_RTR, IBV_QPS_RTS, {rc_rts, IBV_QP_SQ_PSN, IBV_QP_SQ_PSN}},
};

TEST(QpTransition, NeedsEachRequiredAttribute) {
    for (const Transition& step : required) {
        for (std::size_t i = 0; i < types.size(); ++i) {
            const unsigned mask = step.required[i];
            EXPECT_EQ(error(types[i], step.from, step.to, mask), std::errc{});
            for (unsigned bit = 1; bit <= mask; bit <<= 1) {
                if ((mask & bit) != 0) {
                    EXPECT_EQ(error(types[i], step.from, step.to, mask & ~bit), invalid) << bit;
                }
            }
        }
    }
}

TEST(QpTransition, RefusesAttributesOfOtherTransitions) {
    EXPECT_EQ(error(QpType::rc, IBV_QPS_INIT, IBV_QPS_RTR, rc_rtr | IBV_QP_SQ_PSN), invalid);
    EXPECT_EQ(error(QpType::rc, IBV_QPS_INIT, IBV_QPS_RTR, rc_rtr | IBV_QP_QKEY), invalid);
    EXPECT_EQ(error(QpType::uc, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT), invalid);
    EXPECT_EQ(error(QpType::ud, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV), invalid);
    EXPECT_EQ(error(QpType::rc, IBV_QPS_RTS, IBV_QPS_ERR, IBV_QP_ACCESS_FLAGS), invalid);
}

TEST(QpTransition, AllowsOptionalAttributes) {
    EXPECT_EQ(error(QpType::rc, IBV_QPS_INIT, IBV_QPS_RTR, rc_rtr | IBV_QP_ACCESS_FLAGS),
              std::errc{});
    EXPECT_EQ(error(QpType::rc, IBV_QPS_RTS, IBV_QPS_RTS,
                    IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER),
              std::errc{});
    EXPECT_EQ(error(QpType::ud, IBV_QPS_SQE, IBV_QPS_RTS, IBV_QP_CUR_STATE | IBV_QP_QKEY),
              std::errc{});
    EXPECT_EQ(error(QpType::rc, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY), std::errc{});
    EXPECT_EQ(error(QpType::rc, IBV_QPS_SQD, IBV_QPS_SQD, IBV_QP_AV | IBV_QP_TIMEOUT), std::errc{});
}

TEST(QpTransition, EveryStateLeadsToResetAndAllButResetToError) {
    for (const QpType type : types) {
        for (int from = IBV_QPS_RESET; from <= IBV_QPS_ERR; ++from) {
            const auto state = static_cast<ibv_qp_state>(from);
            EXPECT_EQ(error(type, state, IBV_QPS_RESET, 0), std::errc{});
            EXPECT_EQ(error(type, state, IBV_QPS_ERR, 0),
                      state == IBV_QPS_RESET ? invalid : std::errc{});
        }
    }
}

TEST(QpTransition, StatesAreNotSkipped) {
    constexpr unsigned everything = init | IBV_QP_ACCESS_FLAGS | rc_rtr | rc_rts;
    for (const auto& [from, to] : {std::pair{IBV_QPS_RESET, IBV_QPS_RTR},
                                   {IBV_QPS_RESET, IBV_QPS_RTS},
                                   {IBV_QPS_INIT, IBV_QPS_RTS},
                                   {IBV_QPS_RTR, IBV_QPS_INIT},
                                   {IBV_QPS_RTS, IBV_QPS_RTR},
                                   {IBV_QPS_ERR, IBV_QPS_RTS},
                                   {IBV_QPS_INIT, IBV_QPS_SQD},
                                   {IBV_QPS_RTS, IBV_QPS_SQE}}) {
        for (const QpType type : types) {
            EXPECT_EQ(error(type, from, to, everything), invalid) << from << " to " << to;
            EXPECT_EQ(error(type, from, to, 0), invalid) << from << " to " << to;
        }
    }
}

TEST(QpTransition, PathMigrationAndResizingAreNotSupported) {
    for (const unsigned mask :
         {IBV_QP_ALT_PATH, IBV_QP_PATH_MIG_STATE, IBV_QP_CAP, IBV_QP_RATE_LIMIT}) {
        EXPECT_EQ(error(QpType::rc, IBV_QPS_RTS, IBV_QPS_RTS, mask),
                  std::errc::operation_not_supported);
    }
}

TEST(QpTransition, UnknownStatesAndAttributesAreRefused) {
    EXPECT_EQ(check_transition(QpType::rc, IBV_QPS_RTS, 7, IBV_QP_STATE).error(), invalid);
    EXPECT_EQ(error(QpType::rc, IBV_QPS_RTS, IBV_QPS_RTS, 1u << 30), invalid);
    EXPECT_EQ(error(QpType::rc, IBV_QPS_RTS, IBV_QPS_ERR, 1u << 30), invalid);
}

} // namespace
} // namespace vrdma::verbs
