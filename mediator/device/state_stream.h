// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The stream that carries a device's image to another mediator: a header, and then the image. It
// arrives in pieces of any size, from a virtual machine monitor that is not trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mediator/base/result.h"

namespace vrdma {

// All fields have the machine's byte order, because both ends are x86-64.
struct StreamHeader {
    static constexpr std::uint64_t right_magic = 0x5644'4d52'4456'4552; // any other is refused
    static constexpr std::uint32_t newest_version = 1;

    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t features; // bits that a reader must know; none so far
    std::uint64_t length;   // of the image
    std::uint32_t checksum; // of the image, CRC-32
    std::uint32_t reserved; // zero
};

// Returns the header and the image, ready to be sent.
std::vector<std::byte> to_stream(std::span<const std::byte> image);

class StreamReader {
  public:
    // An image must not be longer than `max_length`. Memory is allocated for bytes that have
    // arrived, and not for the announced length.
    explicit StreamReader(std::uint64_t max_length) : max_length_{max_length} {}

    // Takes the next piece. Fails as soon as an error can be known, and an error is final:
    // EPROTONOSUPPORT if a newer mediator wrote the stream, EFBIG if the image is longer than
    // allowed, ENOMEM, EINVAL for all else.
    Result<> take(std::span<const std::byte> piece);

    // Whether all announced bytes have arrived.
    bool is_complete() const noexcept {
        return header_taken_ && bytes_.size() == sizeof(header_) + header_.length;
    }

    // To be called at the end of the stream. Fails with EINVAL unless all bytes arrived unchanged.
    Result<std::span<const std::byte>> image() const;

  private:
    Result<> take_header();

    std::uint64_t max_length_;
    std::vector<std::byte> bytes_;
    StreamHeader header_{};
    bool header_taken_ = false;
};

} // namespace vrdma
