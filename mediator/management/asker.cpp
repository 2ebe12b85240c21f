// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/asker.h"

#include <poll.h>

#include "mediator/helper/socket.h"

namespace vrdma::management {

Refusal Asker::unreadable() {
    return {std::errc::protocol_error, "vrdmad's answer cannot be read"};
}

Answered<Asker::Lines> Asker::lines(Question question, const std::string& name,
                                    const Settings& settings) {
    if (!helper::write(question.name, name)) {
        return tl::unexpected{Refusal{std::errc::invalid_argument, "the name is too long"}};
    }
    return ask(question, settings).and_then([](const Whole& whole) -> Answered<Lines> {
        const auto lines = read_records<Line>(whole.rest);
        if (!lines) {
            return tl::unexpected{unreadable()};
        }
        Lines split;
        for (const Line& line : *lines) {
            auto& list = split.some.size() < whole.answer.count ? split.some : split.others;
            list.push_back(helper::read(line).value_or(""));
        }
        return split;
    });
}

Answered<UniqueFd> Asker::start_sniffer(const std::string& device, std::uint32_t payload_limit) {
    Question question{};
    question.kind = Question::Kind::start_sniffer;
    question.payload_limit = payload_limit;
    if (!helper::write(question.name, device)) {
        return tl::unexpected{Refusal{std::errc::invalid_argument, "the name is too long"}};
    }
    return ask(question).map([](Whole whole) { return std::move(whole.descriptor); });
}

Answered<Asker::Whole> Asker::ask(Question question, const Settings& settings) {
    question.id = ++last_id_;
    helper::send(socket_, pack(question, settings));
    auto whole = await(question.id);
    if (!whole || whole->answer.error == 0) {
        return whole;
    }
    std::span<const std::byte> rest{whole->rest};
    const auto reason = helper::take<Line>(rest);
    return tl::unexpected{Refusal{static_cast<std::errc>(whole->answer.error),
                                  reason ? helper::read(*reason).value_or("") : ""}};
}

// Answers to questions that were given up are ignored.
Answered<Asker::Whole> Asker::await(std::uint32_t id) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + limit_;
    for (auto now = Clock::now(); now < end; now = Clock::now()) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - now);
        pollfd ready{socket_, POLLIN, 0};
        if (::poll(&ready, 1, static_cast<int>(left.count())) <= 0) {
            continue;
        }
        auto received = helper::receive_with(socket_, max_message);
        if (!received) {
            ended_ = true;
            return tl::unexpected{Refusal{std::errc::no_such_process, "vrdmad has ended"}};
        }
        std::span<const std::byte> rest{received->message};
        const auto answer = helper::take<Answer>(rest);
        if (answer && answer->id == id) {
            return Whole{*answer, {rest.begin(), rest.end()}, std::move(received->descriptor)};
        }
    }
    return tl::unexpected{Refusal{std::errc::timed_out, "vrdmad does not answer"}};
}

} // namespace vrdma::management
