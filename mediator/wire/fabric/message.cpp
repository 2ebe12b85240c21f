// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/message.h"

#include <endian.h>

#include <cassert>
#include <utility>

#include "mediator/wire/bytes.h"

namespace vrdma::wire::fabric {

std::span<std::byte> MessageWriter::prepare() noexcept {
    constexpr std::size_t most = sizeof(vrdma_fabric_frame) + max_frame_size;
    if (message_.size() - size_ < most) {
        return {};
    }
    return message_.subspan(size_ + sizeof(vrdma_fabric_frame), max_frame_size);
}

void MessageWriter::commit(std::size_t bytes) noexcept {
    assert(bytes <= max_frame_size);
    store(message_, size_, vrdma_fabric_frame{htobe16(static_cast<std::uint16_t>(bytes)), 0});
    size_ += sizeof(vrdma_fabric_frame) + bytes;
}

std::span<std::byte> MessageReader::next() noexcept {
    if (rest_.empty()) {
        return {};
    }
    vrdma_fabric_frame header{};
    std::size_t size = 0;
    if (rest_.size() >= sizeof(header)) {
        header = load<vrdma_fabric_frame>(rest_, 0);
        size = be16toh(header.size);
    }
    if (size < smallest_frame || size > max_frame_size || header.reserved != 0 ||
        size > rest_.size() - sizeof(header)) {
        malformed_ = true;
        rest_ = {};
        return {};
    }
    const auto frame = rest_.subspan(sizeof(header), size);
    rest_ = rest_.subspan(sizeof(header) + size);
    return frame;
}

} // namespace vrdma::wire::fabric
