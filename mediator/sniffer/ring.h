// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The frames that a sniffer has recorded, on their way from a poller to the process that writes
// them for a client. They lie in a ring of shared memory. The poller never waits: a frame that
// finds no room is counted and lost.
//
// The process that reads the ring is not trusted. The poller reads one number of it, which says how
// much has been read. A wrong number makes frames overwrite each other or get lost, and nothing
// else.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "mediator/base/mapping.h"
#include "mediator/base/unique_fd.h"

namespace vrdma::sniffer {

enum class Direction : std::uint32_t { received = 1, sent = 2 }; // as in pcapng's epb_flags

// Bytes that are recorded of the payload of a message that no packet carries.
inline constexpr std::uint32_t usual_payload = 128;
inline constexpr std::uint32_t most_payload = 4096;

inline constexpr std::size_t longest_frame = 4352; // of those that are recorded

inline constexpr std::size_t ring_bytes = 4 << 20;

// The shared memory begins with it. Each side writes lines of its own.
struct RingHead {
    alignas(64) std::atomic<std::uint64_t> written; // bytes, since the beginning
    std::atomic<std::uint64_t> dropped;             // frames, before the one that was written last
    std::atomic<std::uint32_t> ended;               // nothing is written any more
    alignas(64) std::atomic<std::uint64_t> read;    // bytes, since the beginning
};

// Begins a frame in the ring.
struct alignas(32) Record {
    std::uint32_t size;     // to the next record
    std::uint32_t captured; // bytes of the frame that follow; 0: the rest of the ring is unused
    std::uint64_t original; // bytes of the whole frame
    std::uint64_t time_ns;  // of the monotonic clock
    Direction direction;
};

// The poller's end. The control thread creates it, and destroys it when no poller has it any more.
// The poller writes it for each message, so it has cache lines of its own.
class alignas(64) Ring {
  public:
    // `file` is for the reader.
    struct Created;
    static Result<Created> create(std::uint32_t payload_limit);
    Ring(Ring&&) noexcept = default;
    Ring& operator=(Ring&&) = delete;
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    ~Ring();

    // Of messages that no packet carries.
    std::uint32_t payload_limit() const noexcept { return payload_limit_; }

    // Whether there is room for a frame. If there is none, the frame is counted as dropped.
    bool admit() noexcept;
    // Room for a frame that was admitted.
    std::span<std::byte> reserve(std::size_t frame_bytes) noexcept;
    // The room that was reserved last has been filled, with a frame that would have `original`
    // bytes.
    void commit(std::uint64_t original, Direction direction) noexcept;
    // A frame that is in memory already. It is cut off if it is longer than the longest.
    void record(std::span<const std::byte> frame, Direction direction) noexcept;

    // The number of frames since the beginning, with those that were dropped.
    std::uint64_t frames() const noexcept { return frames_; }
    std::uint64_t dropped() const noexcept { return dropped_; }

  private:
    Ring(Mapping memory, std::uint32_t payload_limit)
        : memory_{std::move(memory)}, payload_limit_{payload_limit} {}

    RingHead& head() const noexcept { return *memory_.as<RingHead>(); }
    Record& at(std::uint64_t position) const noexcept;

    Mapping memory_;
    const std::uint32_t payload_limit_;
    std::uint64_t written_ = 0;
    std::uint64_t read_ = 0; // as it was read last
    std::uint64_t dropped_ = 0;
    std::uint64_t frames_ = 0;
    std::uint32_t reserved_ = 0; // bytes of the frame
};

struct Ring::Created {
    Ring ring;
    UniqueFd file;
};

// The other end, in another process.
class RingReader {
  public:
    // EINVAL: it is no ring.
    static Result<RingReader> open(const UniqueFd& file);

    struct Frame {
        const Record& record;
        std::span<const std::byte> bytes;
    };
    // The next frame, which stays until release().
    std::optional<Frame> next() noexcept;
    // All frames that were taken can be overwritten.
    void release() noexcept { head().read.store(read_, std::memory_order_release); }

    std::uint64_t dropped() const noexcept {
        return head().dropped.load(std::memory_order_relaxed);
    }
    // Whether next() returns nothing any more if it does so now.
    bool ended() const noexcept { return head().ended.load(std::memory_order_acquire) != 0; }

  private:
    explicit RingReader(Mapping memory) : memory_{std::move(memory)} {}
    RingHead& head() const noexcept { return *memory_.as<RingHead>(); }

    Mapping memory_;
    std::uint64_t read_ = 0;
    std::uint64_t written_ = 0; // as it was read last: the poller needs that line, too
};

} // namespace vrdma::sniffer
