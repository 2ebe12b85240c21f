// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/registration.h"

#include <algorithm>

#include "mediator/directory/entry_json.h"

namespace vrdma::directory {

Registration::Registration(RegistrationOptions options)
    : options_{std::move(options)},
      log_{options_.name},
      etcd_{options_.etcd},
      gids_{options_.gids},
      thread_{[this] { run(); }} {}

Registration::~Registration() {
    {
        const std::lock_guard lock{mutex_};
        ends_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

void Registration::set(std::set<Gid> gids) {
    {
        const std::lock_guard lock{mutex_};
        gids_ = std::move(gids);
        written_ = false;
    }
    changed_.notify_one();
}

void Registration::repeat() {
    {
        const std::lock_guard lock{mutex_};
        written_ = false;
    }
    changed_.notify_one();
}

void Registration::run() {
    std::chrono::milliseconds pause = first_pause;
    bool reached = true;
    std::unique_lock lock{mutex_};
    while (!ends_) {
        lock.unlock();
        const auto kept = keep();
        if (kept.has_value() != reached) {
            reached = kept.has_value();
            if (reached) {
                log_.info("this host is in the directory again");
            } else {
                log_.warn("this host cannot be kept in the directory: {}", kept.error());
            }
        }
        lock.lock();
        if (reached) {
            pause = first_pause;
            changed_.wait_for(lock, options_.lease / 3, [this] { return ends_ || !written_; });
        } else {
            changed_.wait_for(lock, pause, [this] { return ends_; });
            pause = std::min(2 * pause, longest_pause);
        }
    }
    if (reached && lease_ != 0) {
        static_cast<void>(etcd_.revoke(lease_)); // otherwise the lease expires
    }
}

Etcd::Answer<> Registration::keep() {
    if (auto held = hold_lease(); !held) {
        return held;
    }
    std::set<Gid> gids;
    {
        const std::lock_guard lock{mutex_};
        if (written_) {
            return {};
        }
        gids = gids_;
        written_ = true; // unless another thread resets it meanwhile
    }
    auto wrote = write(gids);
    if (!wrote) {
        repeat();
    }
    return wrote;
}

Etcd::Answer<> Registration::hold_lease() {
    if (lease_ != 0) {
        const auto held = etcd_.keep_alive(lease_);
        if (!held) {
            return tl::unexpected{held.error()};
        }
        if (*held) {
            return {};
        }
    }
    const auto granted = etcd_.grant(options_.lease);
    if (!granted) {
        return tl::unexpected{granted.error()};
    }
    lease_ = *granted;
    const std::lock_guard lock{mutex_};
    written_ = false;
    return {};
}

// etcd may have taken the write whose answer was lost. Then other hosts know the claims of that
// write.
Etcd::Answer<> Registration::recall() {
    const auto range = etcd_.range(options_.key);
    if (!range) {
        return tl::unexpected{range.error()};
    }
    for (const auto& found : range->values) {
        if (found.key != options_.key || !found.value) {
            continue; // another key begins with this one
        }
        auto entry = parse_entry(*found.value, found.revision);
        if (entry && entry->address == options_.address) {
            claims_ = std::move(entry->claims);
        }
    }
    doubted_ = false;
    return {};
}

// An address that was claimed before keeps its revision, because another host may have claimed it
// since.
Etcd::Answer<> Registration::write(const std::set<Gid>& gids) {
    if (doubted_) {
        if (auto recalled = recall(); !recalled) {
            return recalled;
        }
    }
    Claims claims;
    for (const Gid& gid : gids) {
        const auto before = claims_.find(gid);
        claims[gid] = before != claims_.end() ? before->second : 0;
    }
    const auto revision = etcd_.put(options_.key, format_entry({options_.address, claims}), lease_);
    if (!revision) {
        doubted_ = true;
        return tl::unexpected{revision.error()};
    }
    for (auto& [gid, since] : claims) {
        since = since == 0 ? *revision : since;
    }
    claims_ = std::move(claims);
    return {};
}

} // namespace vrdma::directory
