// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/service.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "mediator/base/errno.h"
#include "mediator/helper/socket.h"

namespace vrdma::management {
namespace {

using Kind = Question::Kind;

// There is room for the answer to the one question, unless the process does not read it. Then it
// waits for that answer in vain, which is its own fault.
void send(int socket, const Message& message) {
    (void)::send(socket, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

Message message_of(std::uint32_t id, const Reloaded& reloaded) {
    return reloaded.error.empty() ? pack_lines(id, reloaded.changed, reloaded.restart)
                                  : pack_error(id, std::errc::invalid_argument, reloaded.error);
}

} // namespace

Result<std::unique_ptr<Service>> Service::open(UniqueFd process, const Listening& listening,
                                               const Task& task, Mediator& mediator,
                                               EventLoop& loop) {
    std::unique_ptr<Service> service{new Service{std::move(process), listening, task, mediator}};
    auto questions = loop.watch(service->process_->socket.get(),
                                [all = service.get()](std::uint32_t) { all->hear(); });
    if (!questions) {
        return fail(questions.error());
    }
    service->questions_ = std::move(*questions);
    return service;
}

void Service::hear() {
    std::array<std::byte, max_question> bytes; // NOLINT(*-member-init): recv() fills it
    for (int i = 0; i < turn && process_; ++i) {
        const ssize_t size =
            ::recv(process_->socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_TRUNC);
        if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (size <= 0) {
            return end("it has ended");
        }
        const auto length = static_cast<std::size_t>(size);
        const auto asked =
            length <= bytes.size() ? read_question(std::span{bytes}.first(length)) : std::nullopt;
        if (!asked) {
            return end("it sent an invalid message");
        }
        answer(*asked);
    }
}

void Service::answer(const Asked& asked) {
    const Question& question = asked.question;
    switch (question.kind) {
        case Kind::task:
            return give_task(question);
        case Kind::network:
            return give_network(question);
        case Kind::devices:
            return answer(question, &Mediator::devices, records_each<Device>);
        case Kind::counters:
            return answer(question, &Mediator::counters, counters_each);
        case Kind::uplinks:
            return answer(question, &Mediator::uplinks, records_each<Uplink>);
        case Kind::peers:
            return answer(question, &Mediator::peers, records_each<Peer>);
        case Kind::pollers:
            return answer(question, &Mediator::pollers, records_each<Poller>);
        case Kind::activity:
            return answer(question, &Mediator::activity, records_each<Activity>);
        case Kind::log_level:
            return send(process_->socket.get(), pack_lines(question.id, {mediator_.log_level()}));
        case Kind::set_log_level:
            return set_log_level(question);
        case Kind::set_limits:
            return answer(question, mediator_.set_limits(*helper::read(question.name),
                                                         question.share, question.quotas));
        case Kind::set_protocols:
            return answer(question, mediator_.set_protocols(*helper::read(question.name),
                                                            question.protocols));
        case Kind::start_sniffer:
            return start_sniffer(question);
        case Kind::stop_sniffer:
            return answer(question, mediator_.stop_sniffer(*helper::read(question.name)));
        case Kind::reload:
            return reload(question);
        case Kind::create_device:
            return answer(question, mediator_.create_device(asked.settings));
        case Kind::destroy_device:
            return answer(question, mediator_.destroy_device(*helper::read(question.name),
                                                             question.force != 0));
        case Kind::add_uplink:
            return answer(question, mediator_.add_uplink(asked.settings));
        case Kind::remove_uplink:
            return answer(question, mediator_.remove_uplink(*helper::read(question.name)));
    }
}

// What the worker before has begun has ended with it.
void Service::give_task(const Question& question) {
    mediator_.stop_all_sniffers();
    Message message;
    helper::append(message, Answer{question.id, 0, 0, 0});
    helper::append(message, task_);
    give(message, listening_.control);
}

void Service::give_network(const Question& question) {
    if (listening_.network < 0) {
        return send(process_->socket.get(),
                    pack_error(question.id, std::errc::no_such_file_or_directory,
                               "nothing is served to the network"));
    }
    Message message;
    helper::append(message, Answer{question.id, 0, 0, 0});
    give(message, listening_.network);
}

void Service::give(const Message& message, int descriptor) {
    if (const auto sent = helper::send_with(process_->socket.get(), message, descriptor); !sent) {
        log_.warn("a worker cannot begin: {}", describe(sent.error()));
    }
}

template <typename Record>
void Service::answer(const Question& question,
                     std::vector<Record> (Mediator::*ask)(const Range& range) const,
                     std::size_t most) {
    const bool exact = question.exact != 0;
    const Range range{*helper::read(question.name), exact, exact ? 1 : most};
    const std::vector<Record> records = (mediator_.*ask)(range);
    const bool more = !exact && records.size() == most;
    send(process_->socket.get(), pack(question.id, more, records));
}

void Service::set_log_level(const Question& question) {
    const std::string level = *helper::read(question.name);
    if (mediator_.set_log_level(level)) {
        return send(process_->socket.get(), pack_lines(question.id, {mediator_.log_level()}));
    }
    send(process_->socket.get(),
         pack_error(question.id, std::errc::invalid_argument,
                    fmt::format("'{}' is no log level, but these are: trace, debug, "
                                "info, warning, error, critical, off",
                                level)));
}

void Service::answer(const Question& question, const Answered<>& done) {
    send(process_->socket.get(),
         done ? pack_lines(question.id, {})
              : pack_error(question.id, done.error().error, done.error().reason));
}

void Service::answer(const Question& question, const Answered<std::string>& line) {
    send(process_->socket.get(),
         line ? pack_lines(question.id, {*line})
              : pack_error(question.id, line.error().error, line.error().reason));
}

void Service::start_sniffer(const Question& question) {
    const std::string name = *helper::read(question.name);
    const auto file = mediator_.start_sniffer(name, question.payload_limit);
    if (!file) {
        return send(process_->socket.get(),
                    pack_error(question.id, file.error().error, file.error().reason));
    }
    const auto sent =
        helper::send_with(process_->socket.get(), pack_lines(question.id, {}), file->get());
    if (!sent) {
        log_.warn("{}: a sniffer cannot begin: {}", name, describe(sent.error()));
        static_cast<void>(mediator_.stop_sniffer(name));
    }
}

void Service::reload(const Question& question) {
    if (std::exchange(process_->reloads, true)) {
        return send(process_->socket.get(),
                    pack_error(question.id, std::errc::device_or_resource_busy,
                               "the configuration is being read again already"));
    }
    mediator_.reload([id = question.id, process = std::weak_ptr{process_}](const Reloaded& done) {
        if (const auto open = process.lock()) {
            open->reloads = false;
            send(open->socket.get(), message_of(id, done));
        }
    });
}

void Service::end(const char* why) {
    log_.warn("nothing is served there any more: the process that serves it: {}", why);
    questions_ = {};
    process_ = {};
    mediator_.stop_all_sniffers();
    for (const int listening : {listening_.control, listening_.network}) {
        ::shutdown(listening, SHUT_RDWR); // so that nobody connects and waits in vain
    }
}

} // namespace vrdma::management
