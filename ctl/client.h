// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Requests to vrdmad's control socket.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace vrdma::ctl {

struct Problem {
    bool unreachable; // vrdmad did not answer; else it refused
    std::string text; // for people
};
using Answer = tl::expected<nlohmann::json, Problem>;

// For what the kernel refuses to vrdmactl itself. The text has the name of the errno.
Problem problem(int error, const std::string& reason);

class Client {
  public:
    explicit Client(std::string socket) : socket_{std::move(socket)} {}

    const std::string& socket() const { return socket_; }

    Answer get(const std::string& path) const { return request("GET", path, {}); }
    Answer put(const std::string& path, const nlohmann::json& body) const {
        return request("PUT", path, body.dump());
    }
    Answer post(const std::string& path) const { return request("POST", path, {}); }
    Answer post(const std::string& path, const nlohmann::json& body) const {
        return request("POST", path, body.dump());
    }
    Answer remove(const std::string& path) const { return request("DELETE", path, {}); }

    // Reads an answer that goes on.
    class Reader {
      public:
        virtual ~Reader() = default;
        // Returns false if it has enough.
        virtual bool read(std::string_view bytes) = 0;
        // When the descriptor is readable, interrupt() is called, and the rest of the answer has a
        // limited time.
        virtual int interrupt_fd() const = 0;
        virtual void interrupt() = 0;
    };
    // A POST. The problem, unless the answer has come to its end, or the reader had enough.
    std::optional<Problem> stream(const std::string& path, const nlohmann::json& body,
                                  Reader& reader) const;

  private:
    Answer request(const char* method, const std::string& path, const std::string& body) const;

    std::string socket_;
};

// A word of a path: characters that would end it are encoded.
std::string encode(const std::string& word);

} // namespace vrdma::ctl
