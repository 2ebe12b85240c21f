// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The blocks of a pcapng file (draft-ietf-opsawg-pcapng) with one interface, in the byte order of
// this machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "mediator/sniffer/ring.h"

namespace vrdma::sniffer {

// Appends blocks to a text.
class Pcapng {
  public:
    explicit Pcapng(std::string& out) : out_{out} {}

    // The blocks that begin a file.
    void begin(std::string_view program, std::string_view interface);
    // `time_ns` is since 1970.
    void add(std::span<const std::byte> frame, std::uint64_t original, std::uint64_t time_ns,
             Direction direction);
    // What has happened so far. The last such block of a file counts.
    void add_statistics(std::uint64_t time_ns, std::uint64_t recorded, std::uint64_t dropped);

  private:
    template <typename T>
    void put(const T& value);
    void put_padded(std::string_view bytes);
    void put_option(std::uint16_t code, std::string_view value);
    std::size_t open(std::uint32_t type);
    void close(std::size_t start);

    std::string& out_;
};

} // namespace vrdma::sniffer
