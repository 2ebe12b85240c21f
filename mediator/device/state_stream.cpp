// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/state_stream.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>

#include "mediator/device/out_of_memory.h"

namespace vrdma {
namespace {

static_assert(sizeof(StreamHeader) == 32);

std::uint32_t checksum(std::span<const std::byte> bytes) noexcept {
    return crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

std::uint32_t version_of(StreamPart part) noexcept {
    return part == StreamPart::ahead || part == StreamPart::rest ? 2 : 1;
}

} // namespace

std::vector<std::byte> to_stream(std::span<const std::byte> content, StreamPart part) {
    const StreamHeader header{.magic = StreamHeader::right_magic,
                              .version = version_of(part),
                              .features = 0,
                              .length = content.size(),
                              .checksum = checksum(content),
                              .part = part};
    std::vector<std::byte> stream(sizeof(header) + content.size());
    std::memcpy(stream.data(), &header, sizeof(header));
    std::ranges::copy(content, stream.begin() + sizeof(header));
    return stream;
}

Result<> StreamReader::take_header() {
    std::memcpy(&header_, bytes_.data(), sizeof(header_));
    if (header_.magic != StreamHeader::right_magic) {
        return fail(std::errc::invalid_argument);
    }
    if (header_.version > StreamHeader::newest_version || header_.features != 0) {
        return fail(std::errc::protocol_not_supported);
    }
    if (header_.version != version_of(header_.part) || header_.part > StreamPart::rest) {
        return fail(std::errc::invalid_argument);
    }
    const bool announces = header_.part == StreamPart::announcement;
    if (header_.length > (announces ? StreamHeader::max_announcement : max_length_)) {
        return fail(std::errc::file_too_large);
    }
    header_taken_ = true;
    return {};
}

// Takes bytes until there are `size` in all. Returns the others.
Result<std::span<const std::byte>> StreamReader::fill(std::span<const std::byte> piece,
                                                      std::size_t size) {
    const auto taken = piece.first(std::min(piece.size(), size - bytes_.size()));
    return with_what_memory_there_is([&]() -> Result<> {
               bytes_.insert(bytes_.end(), taken.begin(), taken.end());
               return {};
           })
        .map([&] { return piece.subspan(taken.size()); });
}

Result<std::span<const std::byte>> StreamReader::take(std::span<const std::byte> piece) {
    if (!header_taken_) {
        const auto rest = fill(piece, sizeof(header_));
        if (!rest || bytes_.size() < sizeof(header_)) {
            return rest;
        }
        piece = *rest;
        // Exactly, and without copies of what has come.
        const auto reserved = take_header().and_then([&] {
            return with_what_memory_there_is([&]() -> Result<> {
                bytes_.reserve(sizeof(header_) + header_.length);
                return {};
            });
        });
        if (!reserved) {
            return fail(reserved.error());
        }
    }
    return fill(piece, sizeof(header_) + header_.length);
}

Result<std::span<const std::byte>> StreamReader::content() const {
    if (!is_complete()) {
        return fail(std::errc::invalid_argument);
    }
    const auto content = std::span{bytes_}.subspan(sizeof(header_));
    if (checksum(content) != header_.checksum) {
        return fail(std::errc::invalid_argument);
    }
    return content;
}

} // namespace vrdma
