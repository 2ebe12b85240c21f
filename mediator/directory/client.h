// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdmad's end of the socket to the process that talks to etcd for it. That process is not trusted:
// a message that makes no sense ends the connection. However the connection ends, the known hosts
// stay known. Runs on the control thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "mediator/base/event_loop.h"
#include "mediator/base/log.h"
#include "mediator/directory/entry.h"
#include "mediator/directory/messages.h"

namespace vrdma::directory {

class Client {
  public:
    // The number of messages, with one roster at most, that are handled before others have their
    // turn.
    static constexpr int turn = 64;
    static constexpr std::chrono::milliseconds retry{100};
    // The time for the process to remove this host from the directory.
    static constexpr std::chrono::seconds end_limit{10};
    // The time for a worker to begin, before the log says that none does.
    static constexpr std::chrono::seconds begin_limit{5};

    using OnHosts = std::function<void(const Hosts& hosts)>;

    // `name` is for the log.
    static Result<std::unique_ptr<Client>> open(const std::string& name, UniqueFd socket,
                                                const Task& task, EventLoop& loop, OnHosts on_hosts,
                                                std::chrono::milliseconds timeout = begin_limit);
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    ~Client();

    // The addresses of this host's devices.
    void set(std::set<Gid> gids);
    // The entry of this host is gone, whoever removed it. It is to be written again.
    void repeat();

  private:
    Client(const std::string& name, UniqueFd socket, Message task, EventLoop& loop,
           OnHosts on_hosts);

    void hear();
    bool hear(const News& news);
    bool hear(Began began);
    bool hear(const Said& said);
    bool hear(const Here& here);
    bool hear(const Gone& gone);
    bool hear(Complete complete);
    void forget(const std::string& name);
    void tell();
    bool tell(bool& wanted, const Message& message);
    void end(const std::string& why);

    DeviceLog log_;
    UniqueFd socket_; // none: the connection has ended
    const Message task_;
    EventLoop& loop_;
    const OnHosts on_hosts_;
    EventLoop::Watch messages_;
    EventLoop::Timer again_;
    EventLoop::Timer begins_;

    Hosts hosts_;          // when the roster was last complete
    Hosts coming_;         // as the process has reported so far
    std::size_t gids_ = 0; // of coming_
    bool complete_ = false;

    std::set<Gid> here_;
    bool began_ = false;
    // The orders that the process has not been told yet.
    bool tell_task_ = false;
    bool tell_gids_ = false;
    bool tell_repeat_ = false;
};

} // namespace vrdma::directory
