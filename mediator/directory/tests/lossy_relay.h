// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A relay in front of an etcd. It loses the answer to the first request of one path: it waits until
// etcd has answered, passes the first line of the answer on, and closes the connection. Without
// that line, libcurl would send the request again.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <string>
#include <string_view>
#include <thread>

#include "etcd_server.h"
#include "loopback.h"

namespace vrdma::directory {

class LossyRelay {
  public:
    LossyRelay(const Endpoint& server, std::string path)
        : path_{std::move(path)}, server_{loopback(server.port)} {
        thread_ = std::thread{[this] { relay_all(); }};
    }
    LossyRelay(const LossyRelay&) = delete;
    LossyRelay& operator=(const LossyRelay&) = delete;
    // Its clients have closed their connections.
    ~LossyRelay() {
        ::shutdown(listener_.get(), SHUT_RDWR);
        thread_.join();
    }

    EtcdOptions options() const { return {{{false, "127.0.0.1", port_}}, {}, {}, {}}; }
    bool lost() const { return lost_; }

  private:
    // One client at a time, as a registration is.
    void relay_all() {
        for (;;) {
            const UniqueFd client{::accept(listener_.get(), nullptr, nullptr)};
            if (!client) {
                return;
            }
            const UniqueFd server{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
            if (::connect(server.get(), reinterpret_cast<const sockaddr*>(&server_),
                          sizeof(server_)) == 0) {
                relay(client.get(), server.get());
            }
        }
    }

    void relay(int client, int server) {
        std::array<pollfd, 2> ends{{{client, POLLIN, 0}, {server, POLLIN, 0}}};
        bool loses = false;
        for (;;) {
            ::poll(ends.data(), ends.size(), -1);
            const bool asks = ends[0].revents != 0;
            std::array<char, 4096> bytes;
            const auto size = ::recv(asks ? client : server, bytes.data(), bytes.size(), 0);
            if (size <= 0) {
                return;
            }
            const std::string_view text{bytes.data(), static_cast<std::size_t>(size)};
            loses = loses || (asks && !lost_ && text.find(path_) != text.npos);
            const bool loses_now = !asks && loses;
            const auto passed = loses_now ? text.find('\n') + 1 : text.size();
            (void)::send(asks ? server : client, text.data(), passed, MSG_NOSIGNAL);
            if (loses_now) {
                lost_ = true;
                return;
            }
        }
    }

    const std::string path_;
    const sockaddr_in server_;
    const std::uint16_t port_ = free_port();
    UniqueFd listener_ = listen_on_loopback(port_);
    std::atomic<bool> lost_ = false;
    std::thread thread_;
};

} // namespace vrdma::directory
