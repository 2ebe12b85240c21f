// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/directory/roster.h"

#include <algorithm>
#include <set>
#include <utility>

#include "mediator/directory/entry_json.h"

namespace vrdma::directory {
namespace {

// A key that anybody may have written, for the log.
std::string printable(std::string_view key) {
    constexpr std::size_t longest = 200;
    std::string text{key.substr(0, longest)};
    std::ranges::replace_if(
        text, [](char c) { return c < ' ' || c > '~'; }, '?');
    return text;
}

} // namespace

Result<std::unique_ptr<Roster>> Roster::create(RosterOptions options) {
    auto news = EventFd::create();
    if (!news) {
        return vrdma::fail(news.error());
    }
    return std::unique_ptr<Roster>{new Roster{std::move(options), std::move(*news)}};
}

Roster::Roster(RosterOptions options, EventFd news)
    : options_{std::move(options)},
      log_{options_.name},
      news_{std::move(news)},
      etcd_{options_.etcd},
      thread_{[this] { run(); }} {}

Roster::~Roster() {
    {
        const std::lock_guard lock{mutex_};
        ends_ = true;
    }
    end_.notify_one();
    etcd_.interrupt();
    thread_.join();
}

Hosts Roster::take() {
    news_.drain();
    const std::lock_guard lock{mutex_};
    return hosts_;
}

void Roster::run() {
    using Clock = std::chrono::steady_clock;
    std::chrono::milliseconds pause = first_pause;
    std::unique_lock lock{mutex_};
    while (!ends_) {
        lock.unlock();
        const auto begun = Clock::now();
        const auto followed = follow();
        const bool lasted = Clock::now() - begun > longest_pause;
        pause = lasted ? first_pause : std::min(2 * pause, longest_pause);
        lock.lock();
        if (!ends_ && followed.has_value() != reached_) {
            reached_ = false;
            log_.warn("the directory cannot be reached: {}", followed.error());
        }
        end_.wait_for(lock, pause, [this] { return ends_; });
    }
}

// Returns when the watch ends. That is no error: if there is one, the next call finds it.
Etcd::Answer<> Roster::follow() {
    const auto range = etcd_.range(key_prefix(options_.prefix));
    if (!range) {
        return tl::unexpected{range.error()};
    }
    if (!std::exchange(reached_, true)) {
        log_.info("the directory can be reached again");
    }
    read(*range);
    const auto watched =
        etcd_.watch(key_prefix(options_.prefix), range->revision + 1,
                    [this](const std::vector<Etcd::Value>& changes) {
                        if (!changes.empty()) {
                            std::ranges::for_each(changes, [this](const auto& to) { change(to); });
                            publish();
                        }
                        return true;
                    });
    if (!watched) {
        log_.debug("the directory is read anew: {}", watched.error());
    }
    return {};
}

void Roster::read(const Etcd::Range& range) {
    std::set<std::string> names;
    for (const Etcd::Value& value : range.values) {
        names.insert(host_of(value.key, options_.prefix).value_or(""));
    }
    for (const auto& [name, entry] : Hosts{known_}) {
        if (!names.contains(name)) {
            forget(name);
        }
    }
    std::ranges::for_each(range.values, [this](const auto& value) { change(value); });
    publish();
}

// An entry that makes no sense counts as absent.
void Roster::change(const Etcd::Value& value) {
    const auto ignore = [&](const std::string& why) {
        log_.warn("the directory's {} is ignored: {}", printable(value.key), why);
    };
    const auto name = host_of(value.key, options_.prefix);
    if (!name) {
        return ignore("it is no host's name");
    }
    if (!value.value) {
        return forget(*name);
    }
    auto entry = parse_entry(*value.value, value.revision);
    if (!entry) {
        forget(*name);
        return ignore(entry.error());
    }
    const auto known = known_.find(*name);
    if (known != known_.end() && *known->second == *entry) {
        return;
    }
    forget(*name);
    if (known_.size() == max_hosts || gids_ + entry->claims.size() > max_gids_of_all) {
        return ignore("there are too many hosts or addresses");
    }
    gids_ += entry->claims.size();
    known_[*name] = std::make_shared<const Entry>(std::move(*entry));
}

void Roster::forget(const std::string& name) {
    if (const auto known = known_.find(name); known != known_.end()) {
        gids_ -= known->second->claims.size();
        known_.erase(known);
    }
}

void Roster::publish() {
    {
        const std::lock_guard lock{mutex_};
        hosts_ = known_;
    }
    news_.signal();
}

} // namespace vrdma::directory
