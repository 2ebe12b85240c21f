// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The messages between vrdmad and the process that talks to etcd for it (vrdma-directory), by a
// socket of SOCK_SEQPACKET. A message has fixed fields, followed by as many addresses as they say.
// The process reads strangers' input, and a stranger may have taken it over: vrdmad accepts a
// message only if all of its bytes are valid.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>

#include "mediator/directory/entry.h"
#include "mediator/directory/etcd_options.h"
#include "mediator/helper/fields.h"

namespace vrdma::directory {

using helper::Message;
inline constexpr std::size_t max_message = 64 << 10;

// To vrdmad. A worker has begun. It knows neither its task nor any host.
struct Began {
    bool operator==(const Began&) const = default;
};
// A line for the log, of printable characters.
struct Said {
    enum class Level : unsigned char { debug, info, warn };
    static constexpr std::size_t max_size = 500;

    Level level = Level::info;
    std::string text;

    bool operator==(const Said&) const = default;
};
// A host has come, or its entry has changed.
struct Here {
    std::string name;
    Entry entry;

    bool operator==(const Here&) const = default;
};
struct Gone {
    std::string name;

    bool operator==(const Gone&) const = default;
};
// The hosts reported up to here are those of the directory.
struct Complete {
    bool operator==(const Complete&) const = default;
};
using News = std::variant<Began, Said, Here, Gone, Complete>;

// To the process. Its task, which is always the first order.
struct Task {
    EtcdOptions etcd; // 16 endpoints at most
    std::string prefix;
    std::string host; // the name of this host
    wire::fabric::Address address;
};
// The addresses of this host's devices, Entry::max_gids at most.
struct Addresses {
    std::set<Gid> gids;
};
// The entry of this host is gone, and is to be written again.
struct Repeat {};
using Order = std::variant<Task, Addresses, Repeat>;

Message pack(const News& news);
// None if it is not a valid message.
std::optional<News> read_news(std::span<const std::byte> message);

// None if the order is too long.
std::optional<Message> pack(const Order& order);
std::optional<Order> read_order(std::span<const std::byte> message);

} // namespace vrdma::directory
