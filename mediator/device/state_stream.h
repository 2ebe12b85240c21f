// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device's image on its way to another mediator: a header, and then the image. It comes in pieces
// of any size, from a virtual machine monitor that nobody vouches for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mediator/base/result.h"

namespace vrdma {

// All in the byte order of the machine: both ends are x86-64.
struct StreamHeader {
    static constexpr std::uint64_t right_magic = 0x5644'4d52'4456'4552; // another reads nonsense
    static constexpr std::uint32_t newest_version = 1;

    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t features; // that a reader must know; none so far
    std::uint64_t length;   // of the image
    std::uint32_t checksum; // of the image, CRC-32
    std::uint32_t reserved; // zero
};

// Header and image, as they are to be sent.
std::vector<std::byte> to_stream(std::span<const std::byte> image);

class StreamReader {
  public:
    // An image is no longer than this. Memory is taken for what has come, not for what was said.
    explicit StreamReader(std::uint64_t max_length) : max_length_{max_length} {}

    // The next piece. An error, which is said as soon as it can be known, is final:
    // EPROTONOSUPPORT where a newer mediator wrote it, EFBIG where it is longer than allowed,
    // ENOMEM, EINVAL for all else.
    Result<> take(std::span<const std::byte> piece);

    // All has come that was announced.
    bool is_complete() const noexcept {
        return header_taken_ && bytes_.size() == sizeof(header_) + header_.length;
    }

    // When nothing follows: EINVAL unless all came unharmed.
    Result<std::span<const std::byte>> image() const;

  private:
    Result<> take_header();

    std::uint64_t max_length_;
    std::vector<std::byte> bytes_;
    StreamHeader header_{};
    bool header_taken_ = false;
};

} // namespace vrdma
