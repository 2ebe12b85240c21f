// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/incoming_state.h"

#include <algorithm>

namespace vrdma {
namespace {

// In bytes, for a type without a limit of memory. 64 Ki QPs of 1 KiB each, and 2^23 blocks, take
// less.
constexpr std::uint64_t longest_of_all = std::uint64_t{512} << 20;

} // namespace

// The limit of memory is enough, because an object takes more memory than its saved state.
std::uint64_t longest_image(const verbs::Limits& limits) {
    return limits.max_memory != 0 ? std::min(limits.max_memory, longest_of_all) : longest_of_all;
}

// Restores the image as a trial, so that the last write of a virtual machine monitor fails if the
// image is wrong. QEMU ignores a restore that fails later, because the guest is about to run then.
Result<> IncomingState::take(std::span<const std::byte> piece) {
    if (reader_.is_complete()) {
        return fail(std::errc::invalid_argument); // each trial costs as much as a restore
    }
    const auto taken = reader_.take(piece);
    if (!taken || !reader_.is_complete()) {
        return taken;
    }
    const auto restored = restore();
    device_.reset();
    return restored;
}

Result<> IncomingState::restore() {
    const auto image = reader_.image();
    return image ? device_.restore(*image) : fail(image.error());
}

} // namespace vrdma
