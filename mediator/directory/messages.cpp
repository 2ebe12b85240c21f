// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/messages.h"

#include <algorithm>
#include <array>

#include "mediator/wire/fabric/hello.h"
#include "vrdma/fabric.h"

namespace vrdma::directory {
namespace {

using wire::fabric::Address;

enum class Kind : std::uint32_t { began = 1, said, here, gone, complete, task, addresses, repeat };

using helper::append;
using helper::read;
using helper::take;
using helper::take_last;
using helper::Text;
using helper::write;

using Name = Text<VRDMA_FABRIC_NAME_SIZE>;
using Path = Text<4096>;

struct Where {
    Text<Entry::max_host + 1> host;
    Text<Entry::max_service + 1> service;
};

struct BareMessage {
    Kind kind;
};
struct SaidMessage {
    Kind kind;
    std::uint32_t level;
    Text<Said::max_size + 4> text;
};
struct Claim {
    Gid gid;
    std::int64_t since;
};
struct HereMessage { // the claims follow
    Kind kind;
    std::uint32_t claims;
    Name name;
    Where where;
};
struct GoneMessage {
    Kind kind;
    Name name;
};

constexpr std::size_t max_endpoints = 16;
struct EndpointField {
    std::uint16_t port;
    std::uint16_t tls;
    Text<256> host;
};
struct TaskMessage {
    Kind kind;
    std::uint32_t endpoints;
    std::array<EndpointField, max_endpoints> endpoint;
    Path ca_file;
    Path certificate_file;
    Path private_key_file;
    Path prefix;
    Name host;
    Where where;
};
struct AddressesMessage { // the GIDs follow
    Kind kind;
    std::uint32_t gids;
};

static_assert(sizeof(HereMessage) + Entry::max_gids * sizeof(Claim) <= max_message);
static_assert(sizeof(AddressesMessage) + Entry::max_gids * sizeof(Gid) <= max_message);
static_assert(sizeof(TaskMessage) <= max_message);

bool write(Where& where, const Address& address) {
    return write(where.host, address.host) && write(where.service, address.service);
}

std::optional<std::string> read_name(const Name& field) {
    auto name = read(field);
    return name && wire::fabric::valid_host(*name) ? name : std::nullopt;
}

std::optional<Address> read(const Where& where) {
    const auto host = read(where.host);
    const auto service = read(where.service);
    if (!host || !service) {
        return std::nullopt;
    }
    const Address address{*host, *service};
    return wire::fabric::parse_address(text_of(address)) == address ? std::optional{address}
                                                                    : std::nullopt;
}

Message bare(Kind kind) {
    Message message;
    append(message, BareMessage{kind});
    return message;
}

Message pack_one(const Began& /*began*/) {
    return bare(Kind::began);
}
Message pack_one(const Complete& /*complete*/) {
    return bare(Kind::complete);
}
Message pack_one(const Said& said) {
    SaidMessage fields{Kind::said, static_cast<std::uint32_t>(said.level), {}};
    write(fields.text, said.text.substr(0, Said::max_size));
    Message message;
    append(message, fields);
    return message;
}
Message pack_one(const Here& here) {
    HereMessage fields{Kind::here, static_cast<std::uint32_t>(here.entry.claims.size()), {}, {}};
    write(fields.name, here.name);
    write(fields.where, here.entry.address);
    Message message;
    append(message, fields);
    for (const auto& [gid, since] : here.entry.claims) {
        append(message, Claim{gid, since});
    }
    return message;
}
Message pack_one(const Gone& gone) {
    GoneMessage fields{Kind::gone, {}};
    write(fields.name, gone.name);
    Message message;
    append(message, fields);
    return message;
}

std::optional<News> read_said(std::span<const std::byte> message) {
    const auto fields = take_last<SaidMessage>(message);
    const auto text = fields ? read(fields->text) : std::nullopt;
    const bool good = text && fields->level <= static_cast<std::uint32_t>(Said::Level::warn) &&
                      text->size() <= Said::max_size && helper::is_printable(*text);
    return good ? std::optional<News>{Said{static_cast<Said::Level>(fields->level), *text}}
                : std::nullopt;
}

// The claims must be in ascending order of GIDs.
std::optional<Claims> read_claims(std::span<const std::byte> message) {
    Claims claims;
    while (const auto claim = take<Claim>(message)) {
        const bool good =
            valid_gid(claim->gid) && claim->since >= 0 && claim->since <= Entry::last_revision;
        if (!good || (!claims.empty() && claim->gid <= claims.rbegin()->first)) {
            return std::nullopt;
        }
        claims.emplace_hint(claims.end(), claim->gid, claim->since);
    }
    return claims;
}

std::optional<News> read_here(std::span<const std::byte> message) {
    const auto fields = take<HereMessage>(message);
    if (!fields || fields->claims > Entry::max_gids ||
        message.size() != fields->claims * sizeof(Claim)) {
        return std::nullopt;
    }
    const auto name = read_name(fields->name);
    const auto address = read(fields->where);
    auto claims = name && address ? read_claims(message) : std::nullopt;
    return claims ? std::optional<News>{Here{*name, {*address, std::move(*claims)}}} : std::nullopt;
}

std::optional<News> read_gone(std::span<const std::byte> message) {
    const auto fields = take_last<GoneMessage>(message);
    const auto name = fields ? read_name(fields->name) : std::nullopt;
    return name ? std::optional<News>{Gone{*name}} : std::nullopt;
}

std::optional<Message> pack_order(const Task& task) {
    TaskMessage fields{};
    fields.kind = Kind::task;
    bool fits = task.etcd.endpoints.size() <= max_endpoints;
    for (std::size_t i = 0; fits && i < task.etcd.endpoints.size(); ++i) {
        const Endpoint& endpoint = task.etcd.endpoints[i];
        EndpointField& field = fields.endpoint.at(i);
        field.port = endpoint.port;
        field.tls = endpoint.tls ? 1 : 0;
        fits = write(field.host, endpoint.host);
        ++fields.endpoints;
    }
    fits = fits && write(fields.ca_file, task.etcd.ca_file) &&
           write(fields.certificate_file, task.etcd.certificate_file) &&
           write(fields.private_key_file, task.etcd.private_key_file) &&
           write(fields.prefix, task.prefix) && write(fields.host, task.host) &&
           write(fields.where, task.address);
    if (!fits) {
        return std::nullopt;
    }
    Message message;
    append(message, fields);
    return message;
}
std::optional<Message> pack_order(const Addresses& addresses) {
    if (addresses.gids.size() > Entry::max_gids) {
        return std::nullopt;
    }
    Message message;
    append(message,
           AddressesMessage{Kind::addresses, static_cast<std::uint32_t>(addresses.gids.size())});
    for (const Gid& gid : addresses.gids) {
        append(message, gid);
    }
    return message;
}
std::optional<Message> pack_order(const Repeat& /*repeat*/) {
    return bare(Kind::repeat);
}

std::optional<Order> read_task(std::span<const std::byte> message) {
    const auto fields = take_last<TaskMessage>(message);
    if (!fields || fields->endpoints == 0 || fields->endpoints > max_endpoints) {
        return std::nullopt;
    }
    Task task;
    for (std::size_t i = 0; i < fields->endpoints; ++i) {
        const EndpointField& field = fields->endpoint.at(i);
        task.etcd.endpoints.push_back({field.tls != 0, read(field.host).value_or(""), field.port});
    }
    task.etcd.ca_file = read(fields->ca_file).value_or("");
    task.etcd.certificate_file = read(fields->certificate_file).value_or("");
    task.etcd.private_key_file = read(fields->private_key_file).value_or("");
    task.prefix = read(fields->prefix).value_or("");
    task.host = read(fields->host).value_or("");
    const auto address = read(fields->where);
    if (task.host.empty() || !address) {
        return std::nullopt;
    }
    task.address = *address;
    return task;
}

std::optional<Order> read_addresses(std::span<const std::byte> message) {
    const auto fields = take<AddressesMessage>(message);
    if (!fields || message.size() != fields->gids * sizeof(Gid)) {
        return std::nullopt;
    }
    Addresses addresses;
    while (const auto gid = take<Gid>(message)) {
        addresses.gids.insert(*gid);
    }
    return addresses;
}

std::optional<Kind> kind_of(std::span<const std::byte> message) {
    const auto bare = take<BareMessage>(message);
    return bare ? std::optional{bare->kind} : std::nullopt;
}

} // namespace

Message pack(const News& news) {
    return std::visit([](const auto& one) { return pack_one(one); }, news);
}

std::optional<News> read_news(std::span<const std::byte> message) {
    const auto kind = kind_of(message);
    const bool bare = message.size() == sizeof(BareMessage);
    if (kind == Kind::began && bare) {
        return Began{};
    }
    if (kind == Kind::complete && bare) {
        return Complete{};
    }
    if (kind == Kind::said) {
        return read_said(message);
    }
    if (kind == Kind::here) {
        return read_here(message);
    }
    return kind == Kind::gone ? read_gone(message) : std::nullopt;
}

std::optional<Message> pack(const Order& order) {
    return std::visit([](const auto& one) { return pack_order(one); }, order);
}

std::optional<Order> read_order(std::span<const std::byte> message) {
    const auto kind = kind_of(message);
    if (kind == Kind::repeat && message.size() == sizeof(BareMessage)) {
        return Repeat{};
    }
    if (kind == Kind::task) {
        return read_task(message);
    }
    return kind == Kind::addresses ? read_addresses(message) : std::nullopt;
}

} // namespace vrdma::directory
