// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/sniffer/ring.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "mediator/base/sealed_file.h"

namespace vrdma::sniffer {
namespace {

constexpr std::size_t file_bytes = sizeof(RingHead) + ring_bytes;

constexpr std::size_t record_size(std::size_t captured) {
    return (sizeof(Record) + captured + alignof(Record) - 1) / alignof(Record) * alignof(Record);
}

std::uint64_t now_ns() noexcept {
    return static_cast<std::uint64_t>(
        std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count());
}

// Records lie at multiples of their alignment, so a Record fits the end of the ring.
std::size_t left_before_end(std::uint64_t position) noexcept {
    return ring_bytes - position % ring_bytes;
}

} // namespace

// All pages are there before a poller writes to them.
Result<Ring::Created> Ring::create(std::uint32_t payload_limit) {
    auto file = sealed_file("vrdma-sniffer", file_bytes);
    if (!file) {
        return fail(file.error());
    }
    auto memory = Mapping::map(file->get(), 0, file_bytes, PROT_READ | PROT_WRITE);
    if (!memory) {
        return fail(memory.error());
    }
    std::memset(memory->data(), 0, memory->size());
    return Created{Ring{std::move(*memory), payload_limit}, std::move(*file)};
}

Ring::~Ring() {
    if (memory_.data() != nullptr) {
        head().dropped.store(dropped_, std::memory_order_relaxed);
        head().ended.store(1, std::memory_order_release);
    }
}

Record& Ring::at(std::uint64_t position) const noexcept {
    return *memory_.as<Record>(sizeof(RingHead) + position % ring_bytes);
}

// The end of the ring may be too short for the frame, and stay unused.
bool Ring::admit() noexcept {
    ++frames_;
    const auto fits = [&] {
        return written_ - read_ <= ring_bytes - 2 * record_size(longest_frame);
    };
    if (fits()) [[likely]] {
        return true;
    }
    read_ = head().read.load(std::memory_order_acquire);
    dropped_ += fits() ? 0 : 1;
    return fits();
}

std::span<std::byte> Ring::reserve(std::size_t frame_bytes) noexcept {
    reserved_ = static_cast<std::uint32_t>(frame_bytes);
    const std::size_t left = left_before_end(written_);
    if (record_size(reserved_) > left) {
        at(written_) = {static_cast<std::uint32_t>(left), 0, 0, 0, {}};
        written_ += left;
    }
    return {reinterpret_cast<std::byte*>(&at(written_) + 1), reserved_};
}

void Ring::commit(std::uint64_t original, Direction direction) noexcept {
    const auto size = static_cast<std::uint32_t>(record_size(reserved_));
    at(written_) = {size, reserved_, original, now_ns(), direction};
    written_ += size;
    head().dropped.store(dropped_, std::memory_order_relaxed);
    head().written.store(written_, std::memory_order_release);
}

void Ring::record(std::span<const std::byte> frame, Direction direction) noexcept {
    if (admit()) {
        const std::span room = reserve(std::min(frame.size(), longest_frame));
        std::memcpy(room.data(), frame.data(), room.size());
        commit(frame.size(), direction);
    }
}

Result<RingReader> RingReader::open(const UniqueFd& file) {
    struct stat status {};
    if (::fstat(file.get(), &status) != 0 || status.st_size != static_cast<off_t>(file_bytes)) {
        return fail(std::errc::invalid_argument);
    }
    auto memory = Mapping::map(file.get(), 0, file_bytes, PROT_READ | PROT_WRITE);
    if (!memory) {
        return fail(memory.error());
    }
    return RingReader{std::move(*memory)};
}

std::optional<RingReader::Frame> RingReader::next() noexcept {
    if (read_ == written_) {
        written_ = head().written.load(std::memory_order_acquire);
    }
    while (read_ != written_) {
        const Record& record = *memory_.as<Record>(sizeof(RingHead) + read_ % ring_bytes);
        read_ += record.size;
        if (record.captured != 0) {
            return Frame{record,
                         {reinterpret_cast<const std::byte*>(&record + 1), record.captured}};
        }
    }
    return std::nullopt;
}

} // namespace vrdma::sniffer
