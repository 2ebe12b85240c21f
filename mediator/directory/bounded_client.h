// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A client of httplib that limits the length and the number of lines that it reads. The library
// keeps all lines that it has read, and its pattern for the first one takes stack per character.
#pragma once

#include <httplib.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace vrdma::directory {

// A connection that replaces the library's.
class BoundedStream final : public httplib::Stream {
  public:
    // The bytes of consecutive lines, which the library reads one at a time.
    static constexpr std::size_t max_lines = 4096;

    using Limit = std::chrono::milliseconds;

    BoundedStream(socket_t socket, SSL* ssl, Limit read_limit, Limit write_limit)
        : socket_{socket}, ssl_{ssl}, read_limit_{read_limit}, write_limit_{write_limit} {}

    bool is_readable() const override { return pending() || await(POLLIN, read_limit_); }
    bool is_writable() const override { return await(POLLOUT, write_limit_); }

    ssize_t read(char* to, std::size_t size) override {
        lines_ = size == 1 ? lines_ + 1 : 0;
        if (lines_ > max_lines) {
            return -1;
        }
        if (taken_ == filled_) {
            if (const ssize_t filled = fill(); filled <= 0) {
                return filled;
            }
        }
        const std::size_t count = std::min(size, filled_ - taken_);
        std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(taken_), count, to);
        taken_ += count;
        return static_cast<ssize_t>(count);
    }

    ssize_t write(const char* from, std::size_t size) override {
        if (!is_writable()) {
            return -1;
        }
        return ssl_ == nullptr ? ::send(socket_, from, size, MSG_NOSIGNAL)
                               : ::SSL_write(ssl_, from, static_cast<int>(size));
    }

    // Nobody calls these two.
    void get_remote_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
    void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
    socket_t socket() const override { return socket_; }

  private:
    bool pending() const {
        return taken_ != filled_ || (ssl_ != nullptr && ::SSL_pending(ssl_) > 0);
    }

    bool await(short events, Limit limit) const {
        pollfd polled{socket_, events, 0};
        return ::poll(&polled, 1, static_cast<int>(limit.count())) > 0;
    }

    // Returns the number of bytes read; 0 at the end. A TLS record may contain no data.
    ssize_t fill() {
        constexpr int records = 1000;
        for (int i = 0; i < records && is_readable(); ++i) {
            const ssize_t size = receive();
            taken_ = 0;
            filled_ = size > 0 ? static_cast<std::size_t>(size) : 0;
            if (size >= 0 || ssl_ == nullptr ||
                ::SSL_get_error(ssl_, static_cast<int>(size)) != SSL_ERROR_WANT_READ) {
                return size;
            }
        }
        return -1;
    }

    ssize_t receive() {
        return ssl_ == nullptr ? ::recv(socket_, buffer_.data(), buffer_.size(), 0)
                               : ::SSL_read(ssl_, buffer_.data(), static_cast<int>(buffer_.size()));
    }

    const socket_t socket_;
    SSL* const ssl_;
    const Limit read_limit_;
    const Limit write_limit_;
    std::array<char, 4096> buffer_{};
    std::size_t taken_ = 0;
    std::size_t filled_ = 0;
    std::size_t lines_ = 0;
};

// With or without TLS, like the library's client.
template <typename Client>
class BoundedClient final : public Client {
  public:
    using Client::Client;

  private:
    bool process_socket(const typename Client::Socket& socket,
                        std::function<bool(httplib::Stream& stream)> callback) override {
        const auto limit = [](time_t seconds, time_t microseconds) {
            return std::chrono::duration_cast<BoundedStream::Limit>(
                std::chrono::seconds{seconds} + std::chrono::microseconds{microseconds});
        };
        BoundedStream stream{socket.sock, socket.ssl,
                             limit(this->read_timeout_sec_, this->read_timeout_usec_),
                             limit(this->write_timeout_sec_, this->write_timeout_usec_)};
        return callback(stream);
    }
};

} // namespace vrdma::directory
