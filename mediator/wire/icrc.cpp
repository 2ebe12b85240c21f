// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/icrc.h"

#include <isa-l/crc.h>

#include <cassert>
#include <cstring>

#include "vrdma/roce.h"

namespace vrdma::wire {
namespace {

constexpr std::byte ones{0xff};

std::uint32_t crc32(std::uint32_t before, const std::byte* bytes, std::size_t size) noexcept {
    return crc32_gzip_refl(before, reinterpret_cast<const unsigned char*>(bytes), size);
}

// Fields that routers change count as ones. In IBA, that is true of the whole LRH, which RoCE
// replaces by eight bytes of ones. This is the CRC of these bytes.
constexpr std::uint32_t crc_of_lrh = 0x2144df1c;

constexpr std::size_t max_masked_size = sizeof(vrdma_grh) + sizeof(vrdma_udp) + sizeof(vrdma_bth);

void mask_ipv4(std::byte* header) noexcept {
    header[offsetof(vrdma_ipv4, traffic_class)] = ones;
    header[offsetof(vrdma_ipv4, hop_limit)] = ones;
    std::memset(header + offsetof(vrdma_ipv4, checksum), 0xff, sizeof(vrdma_ipv4::checksum));
}

// Only the version stays of the first word.
void mask_grh(std::byte* header) noexcept {
    header[0] |= std::byte{0x0f};
    std::memset(header + 1, 0xff, sizeof(vrdma_grh::version) - 1);
    header[offsetof(vrdma_grh, hop_limit)] = ones;
}

} // namespace

std::uint32_t icrc(Network network, std::span<const std::byte> bytes) noexcept {
    const std::size_t transport = network_size(network);
    const std::size_t masked_size = transport + sizeof(vrdma_bth);
    assert(bytes.size() >= masked_size);
    std::byte masked[max_masked_size];
    std::memcpy(masked, bytes.data(), masked_size);
    if (network == Network::ipv4) {
        mask_ipv4(masked);
    } else {
        mask_grh(masked);
    }
    if (network != Network::grh) {
        std::byte* const udp = masked + transport - sizeof(vrdma_udp);
        std::memset(udp + offsetof(vrdma_udp, checksum), 0xff, sizeof(vrdma_udp::checksum));
    }
    masked[transport + offsetof(vrdma_bth, target)] = ones; // FECN, BECN and the reserved bits
    const std::uint32_t crc = crc32(crc_of_lrh, masked, masked_size);
    return crc32(crc, bytes.data() + masked_size, bytes.size() - masked_size);
}

} // namespace vrdma::wire
