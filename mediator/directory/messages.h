// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What vrdmad and the process that talks to etcd for it (vrdma-directory) tell each other, by a
// socket of SOCK_SEQPACKET: messages of fixed fields, and behind them as many addresses as they
// say. The process reads what strangers write, and may be one of them: vrdmad takes no message that
// is not as it has to be, to the last byte.
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

// To vrdmad. It has begun, and knows nothing: neither what it is to do nor who is there.
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
// A host is there, or is as follows from now on.
struct Here {
    std::string name;
    Entry entry;

    bool operator==(const Here&) const = default;
};
struct Gone {
    std::string name;

    bool operator==(const Gone&) const = default;
};
// What was said of hosts up to here is what the directory has.
struct Complete {
    bool operator==(const Complete&) const = default;
};
using News = std::variant<Began, Said, Here, Gone, Complete>;

// To the process. What it is to do: always the first.
struct Task {
    EtcdOptions etcd; // 16 endpoints at most
    std::string prefix;
    std::string host; // this one's name
    wire::fabric::Address address;
};
// The addresses of devices here, Entry::max_gids at most.
struct Addresses {
    std::set<Gid> gids;
};
// The entry of this host is gone.
struct Repeat {};
using Order = std::variant<Task, Addresses, Repeat>;

Message pack(const News& news);
// None if that is no message, or says what cannot be.
std::optional<News> read_news(std::span<const std::byte> message);

// None of what is too long.
std::optional<Message> pack(const Order& order);
std::optional<Order> read_order(std::span<const std::byte> message);

} // namespace vrdma::directory
