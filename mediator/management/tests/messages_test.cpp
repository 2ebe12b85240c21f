// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/messages.h"

#include <gtest/gtest.h>

#include "mediator/sniffer/ring.h"

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
    EXPECT_EQ(helper::read(read->question.name), "disk");
}

TEST(Question, IsRefusedUnlessEachByteIsValid) {
    Question kind = question();
    kind.kind = static_cast<Question::Kind>(static_cast<std::uint32_t>(Question::last) + 1);
    Question exact = question();
    exact.exact = 2;
    Question endless = question();
    endless.name.fill('a');
    Question reserved = question();
    reserved.reserved = 1;
    Question behind = question();
    behind.name.back() = 'a';
    for (const Question& wrong : {kind, exact, endless, behind, reserved}) {
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

Setting setting(Setting::Kind kind, std::int64_t number, const std::string& text) {
    Setting setting{};
    helper::write(setting.key, "key");
    setting.kind = kind;
    setting.number = number;
    helper::write(setting.text, text);
    return setting;
}

TEST(Question, HasSettingsOnlyIfItMakesSomething) {
    using Kind = Setting::Kind;
    const Settings all{setting(Kind::text, 0, "a"), setting(Kind::number, -7, ""),
                       setting(Kind::flag, 1, ""), setting(Kind::item, 0, "")};
    EXPECT_FALSE(read_question(pack(question(), all)));
    Question create = question();
    for (const auto kind : {Question::Kind::create_device, Question::Kind::add_uplink}) {
        create.kind = kind;
        const auto read = read_question(pack(create, all));
        ASSERT_TRUE(read);
        ASSERT_EQ(read->settings.size(), all.size());
        EXPECT_EQ(read->settings[1].number, -7);
    }
    EXPECT_FALSE(read_question(pack(create, Settings(max_settings + 1, all.front()))));
    Message one_less = pack(create, all);
    one_less.resize(one_less.size() - sizeof(Setting));
    EXPECT_FALSE(read_question(one_less));
}

TEST(Question, HasNoInvalidSetting) {
    using Kind = Setting::Kind;
    Setting nameless = setting(Kind::text, 0, "a");
    nameless.key = {};
    Setting reserved = setting(Kind::text, 0, "a");
    reserved.reserved = 1;
    Question create = question();
    create.kind = Question::Kind::create_device;
    for (const Setting& wrong :
         {nameless, reserved, setting(Kind::text, 1, "a"), setting(Kind::number, 1, "a"),
          setting(Kind::flag, 2, ""), setting(Kind::text, 0, "a\n"),
          setting(static_cast<Kind>(4), 0, "")}) {
        EXPECT_FALSE(read_question(pack(create, {wrong})));
    }
}

TEST(Question, IsForcedOnlyIfItDestroys) {
    Question forced = question();
    forced.force = 1;
    EXPECT_FALSE(read_question(pack(forced)));
    forced.kind = Question::Kind::destroy_device;
    EXPECT_TRUE(read_question(pack(forced)));
    forced.force = 2;
    EXPECT_FALSE(read_question(pack(forced)));
}

TEST(Question, HasALimitOfPayloadOnlyIfItStartsASniffer) {
    Question start = question();
    start.payload_limit = 1;
    EXPECT_FALSE(read_question(pack(start)));
    start.kind = Question::Kind::start_sniffer;
    for (const std::uint32_t right : {0u, 1u, sniffer::most_payload}) {
        start.payload_limit = right;
        EXPECT_TRUE(read_question(pack(start)));
    }
    start.payload_limit = sniffer::most_payload + 1;
    EXPECT_FALSE(read_question(pack(start)));
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
