// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/incoming_state.h"

#include <algorithm>
#include <utility>

#include "mediator/device/out_of_memory.h"
#include "mediator/device/sent_ahead.h"

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

// There is one of these at most, too. It is checked and kept while the virtual machine still runs.
Result<> IncomingState::finish_ahead() {
    if (ahead_) {
        return fail(std::errc::invalid_argument);
    }
    const auto kept = reader_.content().and_then([this](auto content) {
        return with_what_memory_there_is([&]() -> Result<> {
            ahead_.emplace(content.begin(), content.end());
            return {};
        });
    });
    reader_ = StreamReader{max_length_};
    return kept;
}

Result<> IncomingState::finish_rest() {
    const auto rest = reader_.content();
    if (!rest) {
        return fail(rest.error());
    }
    const auto sent = ahead_ ? std::span<const std::byte>{*ahead_} : std::span<const std::byte>{};
    return with_what_memory_there_is([&]() -> Result<> {
               return whole_image(*rest, sent, max_length_).map([this](auto image) {
                   whole_ = std::move(image);
                   ahead_.reset();
               });
           })
        .and_then([this] { return finish_image(); });
}

Result<> IncomingState::finish_part() {
    switch (reader_.part()) {
        case StreamPart::announcement:
            return finish_announcement();
        case StreamPart::ahead:
            return finish_ahead();
        case StreamPart::rest:
            return finish_rest();
        case StreamPart::image:
            break;
    }
    return finish_image();
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
            if (const auto done = finish_part(); !done) {
                return done;
            }
        }
    } while (!piece.empty());
    return {};
}

Result<std::span<const std::byte>> IncomingState::image() const {
    if (reader_.is_complete() && reader_.part() == StreamPart::rest) {
        return std::span{whole_};
    }
    return reader_.content();
}

Result<> IncomingState::restore() {
    return image().and_then([this](auto image) { return device_.restore(image); });
}

} // namespace vrdma
