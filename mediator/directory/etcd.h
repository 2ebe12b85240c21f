// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The part of etcd's API that a directory needs, by its JSON gateway (/v3). Each call waits for its
// answer, for a bounded time. If a call fails, the next one uses the next endpoint. One thread uses
// it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mediator/directory/answers.h"
#include "mediator/directory/etcd_options.h"

namespace vrdma::directory {

class HttpClient;

class Etcd {
  public:
    static constexpr std::chrono::seconds connect_limit{2};
    static constexpr std::chrono::seconds answer_limit{3};
    // watch() ends if nothing happens for this time.
    static constexpr std::chrono::minutes watch_limit{5};
    static constexpr std::size_t max_answer = 64 << 20; // bytes

    template <typename T = void>
    using Answer = directory::Answer<T>;
    using Value = directory::Value;
    using Range = directory::Range;
    using OnChange = WatchReader::OnChange;

    explicit Etcd(EtcdOptions options);
    Etcd(const Etcd&) = delete;
    Etcd& operator=(const Etcd&) = delete;
    ~Etcd();

    Answer<std::int64_t> grant(std::chrono::seconds lease);
    // False if the lease does not exist any more.
    Answer<bool> keep_alive(std::int64_t lease);
    Answer<> revoke(std::int64_t lease);
    // Returns the revision.
    Answer<std::int64_t> put(const std::string& key, const std::string& value, std::int64_t lease);
    // Returns all values whose keys begin with `prefix`.
    Answer<Range> range(const std::string& prefix);
    // Reports changes of these values, from a revision on. Calls on_change with no values as soon
    // as etcd has accepted the watch. Ends with an error, or because the caller wants it to.
    Answer<> watch(const std::string& prefix, std::int64_t from, const OnChange& on_change);
    // Any thread can call this: the watch ends, and so does each that begins later. A call that
    // waits for its answer, and each later one, fails.
    void interrupt();

  private:
    Answer<std::string> call(const std::string& path, const std::string& body);
    tl::unexpected<std::string> fail(const std::string& why);

    const EtcdOptions options_;
    const std::unique_ptr<HttpClient> client_;
    std::size_t current_ = 0; // of the endpoints
};

} // namespace vrdma::directory
