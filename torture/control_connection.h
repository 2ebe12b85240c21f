// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A TCP connection to the other side. The sides use it to exchange names and to wait for each
// other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace vrdma::torture {

class ControlConnection {
  public:
    explicit ControlConnection(int fd) : fd_{fd} {}
    ControlConnection(ControlConnection&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
    ControlConnection(const ControlConnection&) = delete;
    ControlConnection& operator=(const ControlConnection&) = delete;
    ControlConnection& operator=(ControlConnection&&) = delete;
    ~ControlConnection();

    static ControlConnection connect(const std::string& host, const std::string& port);
    static ControlConnection accept(int listener);

    void send(std::span<const std::byte> bytes) const;
    void receive(std::span<std::byte> bytes) const;

    template <typename T>
    void send(const T& value) const {
        static_assert(std::is_trivially_copyable_v<T>);
        send(std::as_bytes(std::span{&value, 1}));
    }
    template <typename T>
    T receive() const {
        static_assert(std::is_trivially_copyable_v<T>);
        T value{};
        receive(std::as_writable_bytes(std::span{&value, 1}));
        return value;
    }
    template <typename T>
    T exchange(const T& mine) const {
        send(mine);
        return receive<T>();
    }

    // Waits for the other side, which must be at the same point of the script.
    void meet(std::uint64_t token) const;

    // Whether the other side has closed it.
    bool closed() const;

  private:
    int fd_;
};

// A socket that listens at a TCP port.
int listen_at(const std::string& port);

} // namespace vrdma::torture
