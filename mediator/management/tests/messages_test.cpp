// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/messages.h"

#include <gtest/gtest.h>

namespace vrdma::management {
namespace {

Question question() {
    Question question{};
    question.kind = Question::Kind::devices;
    helper::write(question.name, "disk");
    return question;
}

TEST(Question, ArrivesAsItWasSent) {
    const auto read = read_question(pack(question()));
    ASSERT_TRUE(read);
    EXPECT_EQ(helper::read(read->name), "disk");
}

TEST(Question, IsRefusedUnlessEachByteIsValid) {
    Question kind = question();
    kind.kind = static_cast<Question::Kind>(static_cast<std::uint32_t>(Question::Kind::reload) + 1);
    Question exact = question();
    exact.exact = 2;
    Question endless = question();
    endless.name.fill('a');
    Question behind = question();
    behind.name.back() = 'a';
    for (const Question& wrong : {kind, exact, endless, behind}) {
        EXPECT_FALSE(read_question(pack(wrong)));
    }
    Message longer = pack(question());
    longer.push_back({});
    EXPECT_FALSE(read_question(longer));
    EXPECT_FALSE(read_question(std::span{longer}.first(longer.size() - 2)));
}

TEST(Question, HasLimitsOnlyIfItSetsThem) {
    Question set = question();
    set.share = {7, 0, 0};
    EXPECT_FALSE(read_question(pack(set)));
    set.share = {};
    set.quotas.back() = 1;
    EXPECT_FALSE(read_question(pack(set)));
    set.kind = Question::Kind::set_limits;
    set.share = {7, 0, 0};
    EXPECT_TRUE(read_question(pack(set)));
    for (const Share& wrong : {Share{}, Share{max_weight + 1, 0, 0}, Share{1, max_rate + 1, 0},
                               Share{1, 0, max_rate + 1}}) {
        set.share = wrong;
        EXPECT_FALSE(read_question(pack(set)));
    }
}

TEST(Question, HasProtocolsOnlyIfItSetsSome) {
    Question set = question();
    set.protocols = roce_v1;
    EXPECT_FALSE(read_question(pack(set)));
    set.kind = Question::Kind::set_protocols;
    for (const std::uint32_t right : {roce_v1, roce_v2, roce_v1 | roce_v2}) {
        set.protocols = right;
        EXPECT_TRUE(read_question(pack(set)));
    }
    for (const std::uint32_t wrong : {0u, 4u, roce_v1 | 4u}) {
        set.protocols = wrong;
        EXPECT_FALSE(read_question(pack(set)));
    }
}

TEST(Answer, HasRoomForLinesOfBothLists) {
    const std::vector<std::string> many(1000, std::string(300, 'x'));
    const Message message = pack_lines(1, many, many);
    EXPECT_LE(message.size(), max_message);
    std::span<const std::byte> rest{message};
    const auto answer = helper::take<Answer>(rest);
    const auto lines = read_records<Line>(rest);
    ASSERT_TRUE(answer && lines);
    EXPECT_EQ(answer->count, lines_each / 2);
    EXPECT_EQ(lines->size(), lines_each);
    EXPECT_EQ(helper::read(lines->front()), std::string(255, 'x'));
}

TEST(Answer, ThatIsNoRecordsIsNotRead) {
    const Message odd(sizeof(Line) + 1);
    EXPECT_FALSE(read_records<Line>(odd));
}

} // namespace
} // namespace vrdma::management
