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

} // namespace

std::vector<std::byte> to_stream(std::span<const std::byte> image) {
    const StreamHeader header{.magic = StreamHeader::right_magic,
                              .version = StreamHeader::newest_version,
                              .features = 0,
                              .length = image.size(),
                              .checksum = checksum(image),
                              .reserved = 0};
    std::vector<std::byte> stream(sizeof(header) + image.size());
    std::memcpy(stream.data(), &header, sizeof(header));
    std::ranges::copy(image, stream.begin() + sizeof(header));
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
    if (header_.length > max_length_) {
        return fail(std::errc::file_too_large);
    }
    if (header_.version == 0 || header_.reserved != 0) {
        return fail(std::errc::invalid_argument);
    }
    header_taken_ = true;
    return {};
}

Result<> StreamReader::take(std::span<const std::byte> piece) {
    const auto kept = with_what_memory_there_is([&]() -> Result<> {
        bytes_.insert(bytes_.end(), piece.begin(), piece.end());
        return {};
    });
    if (!kept) {
        return kept;
    }
    if (!header_taken_ && bytes_.size() >= sizeof(header_)) {
        if (const auto taken = take_header(); !taken) {
            return taken;
        }
        // Exactly, and without copies of what has come.
        const auto reserved = with_what_memory_there_is([&]() -> Result<> {
            bytes_.reserve(sizeof(header_) + header_.length);
            return {};
        });
        if (!reserved) {
            return reserved;
        }
    }
    if (header_taken_ && bytes_.size() > sizeof(header_) + header_.length) {
        return fail(std::errc::invalid_argument);
    }
    return {};
}

Result<std::span<const std::byte>> StreamReader::image() const {
    if (!is_complete()) {
        return fail(std::errc::invalid_argument);
    }
    const auto image = std::span{bytes_}.subspan(sizeof(header_));
    if (checksum(image) != header_.checksum) {
        return fail(std::errc::invalid_argument);
    }
    return image;
}

} // namespace vrdma
