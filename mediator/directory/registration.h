// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// This host's entry in the directory, under a lease. The entry exists as long as this object, and
// disappears soon after the host has died. While etcd cannot be reached, the thread tries again and
// again. Runs on its own thread.
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
    std::set<Gid> gids{}; // of this host's devices, at first
    std::chrono::seconds lease{10};
};

class Registration {
  public:
    static constexpr std::chrono::milliseconds first_pause{100}; // between attempts, doubled
    static constexpr std::chrono::milliseconds longest_pause{2000};

    explicit Registration(RegistrationOptions options);
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;
    // Waits for the call to etcd that is under way; its answer has a time limit.
    ~Registration();

    // The addresses of this host's devices, Entry::max_gids at most.
    void set(std::set<Gid> gids);
    // The entry is gone, whoever removed it. It is to be written again.
    void repeat();

  private:
    void run();
    Etcd::Answer<> keep();
    Etcd::Answer<> hold_lease();
    Etcd::Answer<> recall();
    Etcd::Answer<> write(const std::set<Gid>& gids);

    const RegistrationOptions options_;
    DeviceLog log_;
    // Used by the thread only.
    Etcd etcd_;
    std::int64_t lease_ = 0; // 0: none
    Claims claims_;          // as last written
    bool doubted_ = false;   // the answer to the last write was lost

    std::mutex mutex_;
    std::condition_variable changed_;
    std::set<Gid> gids_;
    bool written_ = false; // the current gids_, under the current lease
    bool ends_ = false;
    std::thread thread_; // starts last
};

} // namespace vrdma::directory
