// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The stream that carries a device to another mediator. It consists of parts: perhaps what the
// device announces (device.h), perhaps what is lasting of its image (sent_ahead.h), and then its
// image, or what is left of it. Each has a header. The stream arrives in pieces of any size, from a
// virtual machine monitor that is not trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mediator/base/result.h"

namespace vrdma {

enum class StreamPart : std::uint32_t { image = 0, announcement = 1, ahead = 2, rest = 3 };

// All fields have the machine's byte order, because both ends are x86-64.
struct StreamHeader {
    static constexpr std::uint64_t right_magic = 0x5644'4d52'4456'4552; // any other is refused
    static constexpr std::uint32_t newest_version = 2; // that of `ahead` and `rest`; others: 1
    static constexpr std::uint64_t max_announcement = 32 << 10; // bytes

    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t features; // bits that a reader must know; none so far
    std::uint64_t length;   // of the content
    std::uint32_t checksum; // of the content, CRC-32
    StreamPart part;
};

// Returns the header and the content, ready to be sent.
std::vector<std::byte> to_stream(std::span<const std::byte> content,
                                 StreamPart part = StreamPart::image);

// Reads one part.
class StreamReader {
  public:
    // No part must be longer than `max_length`. Memory is allocated for bytes that have arrived,
    // and not for the announced length.
    explicit StreamReader(std::uint64_t max_length) : max_length_{max_length} {}

    // Takes the next piece, up to the end of the part. Returns what follows it. Fails as soon as an
    // error can be known, and an error is final: EPROTONOSUPPORT if a newer mediator wrote the
    // stream, EFBIG if the part is longer than allowed, ENOMEM, EINVAL for all else.
    Result<std::span<const std::byte>> take(std::span<const std::byte> piece);

    // Whether all announced bytes have arrived.
    bool is_complete() const noexcept {
        return header_taken_ && bytes_.size() == sizeof(header_) + header_.length;
    }

    // Once the part is complete.
    StreamPart part() const noexcept { return header_.part; }

    // To be called at the end of the part. Fails with EINVAL unless all bytes arrived unchanged.
    Result<std::span<const std::byte>> content() const;

  private:
    Result<> take_header();
    Result<std::span<const std::byte>> fill(std::span<const std::byte> piece, std::size_t size);

    std::uint64_t max_length_;
    std::vector<std::byte> bytes_;
    StreamHeader header_{};
    bool header_taken_ = false;
};

} // namespace vrdma
