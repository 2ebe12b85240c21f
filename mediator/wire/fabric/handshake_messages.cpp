// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/handshake_messages.h"

#include "mediator/wire/fabric/hello.h"

namespace vrdma::wire::fabric::handshakes {
namespace {

using helper::append;
using helper::printable;
using helper::take;
using helper::take_last;
using helper::Text;

enum class Kind : std::uint32_t {
    began = 1,
    ready,
    wrong,
    say,
    next,
    asks,
    done,
    refused,
    task,
    begin,
    heard,
    admit,
    forget
};

using NameField = Text<VRDMA_FABRIC_NAME_SIZE>;
using PathField = Text<4096>;

// Each message begins with a head. A value that a kind does not use is zero.
struct Head {
    Kind kind;
    std::uint32_t value;
    Id id;
};
struct WrongMessage {
    Head head;
    Text<Wrong::max_size + 5> text;
};
struct NamedMessage { // Asks, Begin
    Head head;
    NameField name;
};
struct DoneMessage {
    Head head;
    NameField name;
    vrdma_fabric_secrets secrets;
};
struct RefusedMessage {
    Head head;
    NameField name;
    Text<Refused::max_size + 1> why;
};
struct TaskMessage {
    Head head;
    PathField certificate;
    PathField private_key;
    PathField ca;
    NameField host;
};

static_assert(sizeof(Head) + Piece::most == max_message);
static_assert(sizeof(TaskMessage) <= max_message);

template <typename T>
Message message_of(const T& fields) {
    Message message;
    append(message, fields);
    return message;
}

Message pack_piece(Kind kind, const Piece& piece) {
    Message message;
    message.reserve(sizeof(Head) + piece.bytes.size());
    append(message, Head{kind, static_cast<std::uint32_t>(piece.bytes.size()), piece.id});
    message.insert(message.end(), piece.bytes.begin(), piece.bytes.end());
    return message;
}

Message pack_one(const Began& /*began*/) {
    return message_of(Head{Kind::began, 0, 0});
}
Message pack_one(const Ready& /*ready*/) {
    return message_of(Head{Kind::ready, 0, 0});
}
Message pack_one(const Wrong& wrong) {
    WrongMessage fields{{Kind::wrong, 0, 0}, {}};
    helper::write(fields.text, printable(wrong.text, Wrong::max_size));
    return message_of(fields);
}
Message pack_one(const Say& say) {
    return pack_piece(Kind::say, say);
}
Message pack_one(const Next& next) {
    return message_of(Head{Kind::next, 0, next.id});
}
Message pack_one(const Asks& asks) {
    NamedMessage fields{{Kind::asks, 0, asks.id}, {}};
    helper::write(fields.name, asks.name);
    return message_of(fields);
}
Message pack_one(const Done& done) {
    DoneMessage fields{{Kind::done, 0, done.id}, {}, done.secrets.get()};
    helper::write(fields.name, done.name);
    Message message = message_of(fields);
    ::explicit_bzero(&fields, sizeof(fields));
    return message;
}
Message pack_one(const Refused& refused) {
    RefusedMessage fields{{Kind::refused, 0, refused.id}, {}, {}};
    helper::write(fields.name, refused.name);
    helper::write(fields.why, printable(refused.why, Refused::max_size));
    return message_of(fields);
}

// Whether the head has no value, as all but a few kinds have none.
bool is_bare(const Head& head) {
    return head.value == 0;
}
bool is_nobodys(const Head& head) {
    return is_bare(head) && head.id == 0;
}

std::optional<std::string> read_name(const NameField& field) {
    auto name = helper::read(field);
    return name && valid_host(*name) ? name : std::nullopt;
}

template <std::size_t size>
std::optional<std::string> read_text(const Text<size>& field, std::size_t most) {
    auto text = helper::read(field);
    const bool good = text && !text->empty() && text->size() <= most && helper::is_printable(*text);
    return good ? text : std::nullopt;
}

std::optional<News> read_wrong(std::span<const std::byte> message) {
    const auto fields = take_last<WrongMessage>(message);
    const auto text = fields && is_nobodys(fields->head) ? read_text(fields->text, Wrong::max_size)
                                                         : std::nullopt;
    return text ? std::optional<News>{Wrong{*text}} : std::nullopt;
}

std::optional<News> read_asks(std::span<const std::byte> message) {
    const auto fields = take_last<NamedMessage>(message);
    const auto name = fields && is_bare(fields->head) ? read_name(fields->name) : std::nullopt;
    return name ? std::optional<News>{Asks{fields->head.id, *name}} : std::nullopt;
}

std::optional<News> read_done(std::span<const std::byte> message) {
    auto fields = take_last<DoneMessage>(message);
    const auto name = fields && is_bare(fields->head) ? read_name(fields->name) : std::nullopt;
    if (!name) {
        return std::nullopt;
    }
    Done done{fields->head.id, *name, Secrets{fields->secrets}};
    ::explicit_bzero(&*fields, sizeof(*fields));
    return done;
}

std::optional<News> read_refused(std::span<const std::byte> message) {
    const auto fields = take_last<RefusedMessage>(message);
    if (!fields || !is_bare(fields->head)) {
        return std::nullopt;
    }
    const auto name = helper::read(fields->name);
    const auto why = read_text(fields->why, Refused::max_size);
    const bool good = name && why && (name->empty() || valid_host(*name));
    return good ? std::optional<News>{Refused{fields->head.id, *name, *why}} : std::nullopt;
}

// `rest` is the message behind the head.
template <typename Kinds, typename One>
std::optional<Kinds> read_piece(const Head& head, std::span<const std::byte> rest) {
    if (rest.empty() || rest.size() != head.value || rest.size() > Piece::most) {
        return std::nullopt;
    }
    return One{{head.id, {rest.begin(), rest.end()}}};
}

std::optional<Message> pack_order(const Task& task) {
    TaskMessage fields{{Kind::task, 0, 0}, {}, {}, {}, {}};
    const bool fits = helper::write(fields.certificate, task.files.certificate) &&
                      helper::write(fields.private_key, task.files.private_key) &&
                      helper::write(fields.ca, task.files.ca) &&
                      helper::write(fields.host, task.host);
    return fits ? std::optional{message_of(fields)} : std::nullopt;
}
std::optional<Message> pack_order(const Begin& begin) {
    NamedMessage fields{{Kind::begin, begin.connects ? 1U : 0U, begin.id}, {}};
    return helper::write(fields.name, begin.peer) ? std::optional{message_of(fields)}
                                                  : std::nullopt;
}
std::optional<Message> pack_order(const Heard& heard) {
    const bool fits = !heard.bytes.empty() && heard.bytes.size() <= Piece::most;
    return fits ? std::optional{pack_piece(Kind::heard, heard)} : std::nullopt;
}
std::optional<Message> pack_order(const Admit& admit) {
    return message_of(Head{Kind::admit, admit.admitted ? 1U : 0U, admit.id});
}
std::optional<Message> pack_order(const Forget& forget) {
    return message_of(Head{Kind::forget, 0, forget.id});
}

std::optional<Order> read_task(std::span<const std::byte> message) {
    const auto fields = take_last<TaskMessage>(message);
    if (!fields || !is_nobodys(fields->head)) {
        return std::nullopt;
    }
    const auto certificate = helper::read(fields->certificate);
    const auto private_key = helper::read(fields->private_key);
    const auto ca = helper::read(fields->ca);
    const auto host = read_name(fields->host);
    if (!certificate || !private_key || !ca || !host) {
        return std::nullopt;
    }
    return Task{{*certificate, *private_key, *ca}, *host};
}

std::optional<Order> read_begin(std::span<const std::byte> message) {
    const auto fields = take_last<NamedMessage>(message);
    const auto peer = fields && fields->head.value <= 1 ? helper::read(fields->name) : std::nullopt;
    if (!peer) {
        return std::nullopt;
    }
    const bool connects = fields->head.value == 1;
    const bool good = connects ? valid_host(*peer) : peer->empty();
    return good ? std::optional<Order>{Begin{fields->head.id, connects, *peer}} : std::nullopt;
}

} // namespace

Message pack(const News& news) {
    return std::visit([](const auto& one) { return pack_one(one); }, news);
}

std::optional<News> read_news(std::span<const std::byte> message) {
    auto rest = message;
    const auto head = take<Head>(rest);
    if (!head) {
        return std::nullopt;
    }
    const bool alone = rest.empty();
    switch (head->kind) {
        case Kind::began:
            return alone && is_nobodys(*head) ? std::optional<News>{Began{}} : std::nullopt;
        case Kind::ready:
            return alone && is_nobodys(*head) ? std::optional<News>{Ready{}} : std::nullopt;
        case Kind::wrong:
            return read_wrong(message);
        case Kind::say:
            return read_piece<News, Say>(*head, rest);
        case Kind::next:
            return alone && is_bare(*head) ? std::optional<News>{Next{head->id}} : std::nullopt;
        case Kind::asks:
            return read_asks(message);
        case Kind::done:
            return read_done(message);
        case Kind::refused:
            return read_refused(message);
        default:
            return std::nullopt;
    }
}

std::optional<Message> pack(const Order& order) {
    return std::visit([](const auto& one) { return pack_order(one); }, order);
}

std::optional<Order> read_order(std::span<const std::byte> message) {
    auto rest = message;
    const auto head = take<Head>(rest);
    if (!head) {
        return std::nullopt;
    }
    const bool alone = rest.empty();
    switch (head->kind) {
        case Kind::task:
            return read_task(message);
        case Kind::begin:
            return read_begin(message);
        case Kind::heard:
            return read_piece<Order, Heard>(*head, rest);
        case Kind::admit:
            return alone && head->value <= 1
                       ? std::optional<Order>{Admit{head->id, head->value == 1}}
                       : std::nullopt;
        case Kind::forget:
            return alone && is_bare(*head) ? std::optional<Order>{Forget{head->id}} : std::nullopt;
        default:
            return std::nullopt;
    }
}

} // namespace vrdma::wire::fabric::handshakes
