// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/netlink.h"

#include <linux/rtnetlink.h>
#include <netlink/handlers.h>

#include "mediator/base/errno.h"

namespace vrdma::wire {
namespace {

// The most messages per turn, so that other work of the thread has its turn.
constexpr int most_at_once = 64;

struct Exchange {
    const Netlink::Receiver& receiver;
    int error = 0; // negative, as the kernel reports it
    bool done = false;
};

Exchange& exchange_of(void* argument) {
    return *static_cast<Exchange*>(argument);
}

int take(nl_msg* message, void* argument) {
    const auto& receiver = exchange_of(argument).receiver;
    if (receiver) {
        receiver(nlmsg_hdr(message));
    }
    return NL_OK;
}

int finish(nl_msg* /*message*/, void* argument) {
    exchange_of(argument).done = true;
    return NL_STOP;
}

int fail_with(sockaddr_nl* /*sender*/, nlmsgerr* error, void* argument) {
    exchange_of(argument).error = error->error;
    exchange_of(argument).done = true;
    return NL_STOP;
}

struct FreeCallbacks {
    void operator()(nl_cb* callbacks) const noexcept { nl_cb_put(callbacks); }
};

std::unique_ptr<nl_cb, FreeCallbacks> callbacks_for(Exchange& exchange) {
    std::unique_ptr<nl_cb, FreeCallbacks> callbacks{nl_cb_alloc(NL_CB_DEFAULT)};
    nl_cb_set(callbacks.get(), NL_CB_VALID, NL_CB_CUSTOM, take, &exchange);
    nl_cb_set(callbacks.get(), NL_CB_FINISH, NL_CB_CUSTOM, finish, &exchange);
    nl_cb_set(callbacks.get(), NL_CB_ACK, NL_CB_CUSTOM, finish, &exchange);
    nl_cb_err(callbacks.get(), NL_CB_CUSTOM, fail_with, &exchange);
    return callbacks;
}

} // namespace

Result<Netlink> Netlink::create() {
    std::unique_ptr<nl_sock, Free> socket{nl_socket_alloc()};
    if (!socket || nl_connect(socket.get(), NETLINK_ROUTE) < 0) {
        return fail_errno();
    }
    return Netlink{std::move(socket)};
}

Result<> Netlink::ask(NetlinkMessage& question, const Receiver& receiver) {
    if (nl_send_auto(socket_.get(), question.get()) < 0) {
        return fail_errno();
    }
    Exchange exchange{receiver};
    const auto callbacks = callbacks_for(exchange);
    while (!exchange.done) {
        if (nl_recvmsgs(socket_.get(), callbacks.get()) < 0 && !exchange.done) {
            return fail(std::errc::io_error);
        }
    }
    if (exchange.error != 0) {
        return fail(static_cast<std::errc>(-exchange.error));
    }
    return {};
}

Result<> Netlink::subscribe(int group) {
    nl_socket_disable_seq_check(socket_.get());
    if (nl_socket_set_nonblocking(socket_.get()) < 0 ||
        nl_socket_add_membership(socket_.get(), group) < 0) {
        return fail_errno();
    }
    return {};
}

Result<> Netlink::receive(const Receiver& receiver) {
    Exchange exchange{receiver};
    const auto callbacks = callbacks_for(exchange);
    nl_cb_set(
        callbacks.get(), NL_CB_SEQ_CHECK, NL_CB_CUSTOM, [](nl_msg*, void*) -> int { return NL_OK; },
        nullptr);
    int result = 0;
    for (int received = 0; result >= 0 && received < most_at_once; ++received) {
        result = nl_recvmsgs(socket_.get(), callbacks.get());
    }
    if (result >= 0 || result == -NLE_AGAIN) {
        return {};
    }
    return fail(result == -NLE_NOMEM ? std::errc::no_buffer_space : std::errc::io_error);
}

} // namespace vrdma::wire
