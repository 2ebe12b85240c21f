// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/incoming_state.h"

#include <algorithm>
#include <utility>

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
Result<> IncomingState::finish_image() {
    const auto restored = restore();
    device_.reset();
    return restored;
}

// There is one announcement at most, because each costs time.
Result<> IncomingState::finish_announcement() {
    if (std::exchange(announced_, true)) {
        return fail(std::errc::invalid_argument);
    }
    const auto admitted =
        reader_.content().and_then([this](auto content) { return device_.admit(content); });
    reader_ = StreamReader{max_length_};
    return admitted;
}

Result<> IncomingState::take(std::span<const std::byte> piece) {
    do {
        if (reader_.is_complete()) {
            return fail(std::errc::invalid_argument); // each trial costs as much as a restore
        }
        const auto rest = reader_.take(piece);
        if (!rest) {
            return fail(rest.error());
        }
        piece = *rest;
        if (reader_.is_complete()) {
            const bool announces = reader_.part() == StreamPart::announcement;
            if (const auto done = announces ? finish_announcement() : finish_image(); !done) {
                return done;
            }
        }
    } while (!piece.empty());
    return {};
}

Result<> IncomingState::restore() {
    return reader_.content().and_then([this](auto image) { return device_.restore(image); });
}

} // namespace vrdma
