// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Questions and orders to the kernel's network configuration (rtnetlink(7)), by libnl.
#pragma once

#include <netlink/msg.h>
#include <netlink/netlink.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>

#include "mediator/base/result.h"

namespace vrdma::wire {

// A message that is being written: a header of its type, then attributes.
class NetlinkMessage {
  public:
    template <typename Header>
    NetlinkMessage(int type, int flags, const Header& header)
        : message_{nlmsg_alloc_simple(type, flags | NLM_F_REQUEST)} {
        static_assert(std::is_trivially_copyable_v<Header>);
        nlmsg_append(message_.get(), const_cast<Header*>(&header), sizeof(header), NLMSG_ALIGNTO);
    }

    template <typename T>
    void put(int attribute, const T& value) {
        static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
        put(attribute, &value, sizeof(value));
    }
    void put(int attribute, const void* value, std::size_t size) {
        nla_put(message_.get(), attribute, static_cast<int>(size), value);
    }
    void put_string(int attribute, const char* value) {
        nla_put_string(message_.get(), attribute, value);
    }
    // Attributes that are put between begin() and end() are nested in this one.
    nlattr* begin(int attribute) { return nla_nest_start(message_.get(), attribute); }
    void end(nlattr* attribute) { nla_nest_end(message_.get(), attribute); }

    nl_msg* get() noexcept { return message_.get(); }

  private:
    struct Free {
        void operator()(nl_msg* message) const noexcept { nlmsg_free(message); }
    };
    std::unique_ptr<nl_msg, Free> message_;
};

class Netlink {
  public:
    using Receiver = std::function<void(nlmsghdr*)>;

    static Result<Netlink> create();

    // Sends the question, and gives each answer to the receiver; the error is the kernel's. The
    // kernel answers at once.
    Result<> ask(NetlinkMessage& question, const Receiver& receiver = {});

    // Subscribes to events of a group (RTNLGRP_*). The socket then gets events instead of answers.
    Result<> subscribe(int group);
    int fd() const noexcept { return nl_socket_get_fd(socket_.get()); }
    // Receives the events that are there. If there are more, fd() stays readable. no_buffer_space:
    // some were lost.
    Result<> receive(const Receiver& receiver);

  private:
    struct Free {
        void operator()(nl_sock* socket) const noexcept { nl_socket_free(socket); }
    };
    explicit Netlink(std::unique_ptr<nl_sock, Free> socket) : socket_{std::move(socket)} {}

    std::unique_ptr<nl_sock, Free> socket_;
};

} // namespace vrdma::wire
