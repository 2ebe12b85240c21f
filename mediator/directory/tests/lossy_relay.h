// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A relay in front of an etcd. It loses the answer to the first request of one path: it waits until
// etcd has answered, passes the first line of the answer on, and closes the connection. Without
// that line, libcurl would send the request again.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "etcd_server.h"
#include "mediator/base/unique_fd.h"

namespace vrdma::directory {

class LossyRelay {
  public:
    LossyRelay(const Endpoint& server, std::string path)
        : path_{std::move(path)}, server_{loopback(server.port)} {
        const sockaddr_in here = loopback(port_);
        if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&here), sizeof(here)) != 0 ||
            ::listen(listener_.get(), 1) != 0) {
            throw std::runtime_error{"no listener"};
        }
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
    static sockaddr_in loopback(std::uint16_t port) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(port);
        return address;
    }

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
    UniqueFd listener_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    std::atomic<bool> lost_ = false;
    std::thread thread_;
};

} // namespace vrdma::directory
