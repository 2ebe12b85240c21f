// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// This host's entry in the directory, under a lease: it is there for as long as this is, and goes
// soon after a host has died. While etcd is not to be had it is tried again and again. On a thread
// of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "mediator/base/log.h"
#include "mediator/directory/entry.h"
#include "mediator/directory/etcd.h"

namespace vrdma::directory {

struct RegistrationOptions {
    std::string name; // for the log
    EtcdOptions etcd;
    std::string key;
    wire::fabric::Address address;
    std::set<Gid> gids{}; // of devices here, at first
    std::chrono::seconds lease{10};
};

class Registration {
  public:
    static constexpr std::chrono::milliseconds first_pause{100}; // between attempts, doubled
    static constexpr std::chrono::milliseconds longest_pause{2000};

    explicit Registration(RegistrationOptions options);
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;
    // Waits for what is under way with etcd, whose answers have a limit.
    ~Registration();

    // The addresses of devices here, Entry::max_gids at most.
    void set(std::set<Gid> gids);
    // The entry is gone, whoever took it away.
    void repeat();

  private:
    void run();
    Etcd::Answer<> keep();
    Etcd::Answer<> hold_lease();
    Etcd::Answer<> write(const std::set<Gid>& gids);

    const RegistrationOptions options_;
    DeviceLog log_;
    // The thread's.
    Etcd etcd_;
    std::int64_t lease_ = 0; // 0: none
    Claims claims_;          // as they were written last

    std::mutex mutex_;
    std::condition_variable changed_;
    std::set<Gid> gids_;
    bool written_ = false; // as they are, under the lease that holds
    bool ends_ = false;
    std::thread thread_; // the last to begin
};

} // namespace vrdma::directory
