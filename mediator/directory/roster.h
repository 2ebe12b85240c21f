// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The hosts of the directory, as they come, change and go. The thread reads them once and then
// watches them. Whenever the watch ends, it reads them again. Until then, the known hosts stay
// known. Runs on its own thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "mediator/base/event_fd.h"
#include "mediator/base/log.h"
#include "mediator/directory/entry.h"
#include "mediator/directory/etcd.h"

namespace vrdma::directory {

struct RosterOptions {
    std::string name; // for the log
    EtcdOptions etcd;
    std::string prefix;
};

class Roster {
  public:
    static constexpr std::chrono::milliseconds first_pause{100}; // between attempts, doubled
    static constexpr std::chrono::milliseconds longest_pause{2000};

    static Result<std::unique_ptr<Roster>> create(RosterOptions options);
    Roster(const Roster&) = delete;
    Roster& operator=(const Roster&) = delete;
    // Waits for the call to etcd that is under way; its answer has a time limit.
    ~Roster();

    // Readable when the hosts have changed since take() was called.
    int fd() const { return news_.fd(); }
    Hosts take();

  private:
    Roster(RosterOptions options, EventFd news);

    void run();
    Etcd::Answer<> follow();
    void read(const Etcd::Range& range);
    void change(const Etcd::Value& value);
    void forget(const std::string& name);
    void publish();

    const RosterOptions options_;
    DeviceLog log_;
    const EventFd news_;
    // Used by the thread only.
    Etcd etcd_;
    Hosts known_;
    std::size_t gids_ = 0; // of all known hosts
    bool reached_ = true;

    std::mutex mutex_;
    std::condition_variable end_;
    Hosts hosts_;
    bool ends_ = false;
    std::thread thread_; // starts last
};

} // namespace vrdma::directory
