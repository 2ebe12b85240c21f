// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Requests to vrdmad's control socket.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>

namespace vrdma::ctl {

struct Problem {
    bool unreachable; // vrdmad did not answer; else it refused
    std::string text; // for people
};
using Answer = tl::expected<nlohmann::json, Problem>;

class Client {
  public:
    explicit Client(std::string socket) : socket_{std::move(socket)} {}

    Answer get(const std::string& path) const { return request("GET", path, {}); }
    Answer put(const std::string& path, const nlohmann::json& body) const {
        return request("PUT", path, body.dump());
    }
    Answer post(const std::string& path) const { return request("POST", path, {}); }
    Answer post(const std::string& path, const nlohmann::json& body) const {
        return request("POST", path, body.dump());
    }
    Answer remove(const std::string& path) const { return request("DELETE", path, {}); }

  private:
    Answer request(const char* method, const std::string& path, const std::string& body) const;

    std::string socket_;
};

// A word of a path: characters that would end it are encoded.
std::string encode(const std::string& word);

} // namespace vrdma::ctl
