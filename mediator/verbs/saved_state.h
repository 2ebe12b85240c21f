// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device's saved state is one image: sections of records. A record is a plain struct without
// padding, and some have an array behind it. The section's version changes with the struct. The
// code that reads an image trusts nothing in it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "mediator/base/result.h"

namespace vrdma {

enum class Section : std::uint32_t {
    device = 1,
    ucontexts = 2,
    eqs = 3,
    pds = 4,
    mrs = 5,
    cqs = 6,
    ahs = 7,
    qps = 8,
    gids = 9,
    srqs = 10,
    end = 11,
    mws = 12,
    xrcds = 34,
    multicast = 36,
    counter_sets = 39,
    listeners = 45,
    formats = 46, // of an announcement, as is the next
    usage = 47,
    connections = 48, // no section: it is the engine's, within `qps`
    pvrdma = 49,      // what a device of PVRDMA has of its own, behind `device`
};

struct SectionState {
    std::uint32_t section;
    std::uint32_t version;
    std::uint32_t records;
    std::uint32_t reserved;
};

// Bytes of an image.
struct Extent {
    std::uint64_t at;
    std::uint64_t length;
};

struct SavedState {
    std::vector<std::byte> image;
    // In their order, and apart. Only a command of the guest changes these bytes, so they can be
    // sent before the others.
    std::vector<Extent> lasting;
};

class StateWriter {
  public:
    template <typename T>
    void put(const T& record) {
        put_all(std::span{&record, 1});
    }

    template <typename T>
    void put_all(std::span<const T> records) {
        static_assert(std::has_unique_object_representations_v<T>, "padding would leak");
        const auto bytes = std::as_bytes(records);
        state_.image.insert(state_.image.end(), bytes.begin(), bytes.end());
    }

    void begin(Section section, std::uint32_t version, std::size_t records) {
        put(SectionState{static_cast<std::uint32_t>(section), version,
                         static_cast<std::uint32_t>(records), 0});
    }

    // The bytes that `put` writes are lasting.
    template <typename Put>
    void put_lasting(Put&& put) {
        const std::uint64_t at = state_.image.size();
        put();
        state_.lasting.push_back({at, state_.image.size() - at});
    }

    std::vector<std::byte> take() { return std::move(state_.image); }
    SavedState take_state() { return std::move(state_); }

  private:
    SavedState state_;
};

class StateReader {
  public:
    // `goes_on` is asked after each record. If it returns false, the image is not restored.
    explicit StateReader(std::span<const std::byte> image, std::function<bool()> goes_on = {})
        : rest_{image}, goes_on_{std::move(goes_on)} {}

    bool goes_on() const { return !goes_on_ || goes_on_(); }

    template <typename T>
    Result<T> take() {
        static_assert(std::has_unique_object_representations_v<T>);
        T record;
        if (rest_.size() < sizeof(T)) {
            return fail(std::errc::invalid_argument);
        }
        std::memcpy(&record, rest_.data(), sizeof(T));
        rest_ = rest_.subspan(sizeof(T));
        return record;
    }

    // Returns the bytes in place: they belong to the image.
    Result<std::span<const std::byte>> take_bytes(std::size_t size) {
        if (size > rest_.size()) {
            return fail(std::errc::invalid_argument);
        }
        const auto bytes = rest_.first(size);
        rest_ = rest_.subspan(size);
        return bytes;
    }

    // Refuses an image that is too short for the array, before it allocates memory for the array.
    template <typename T>
    Result<std::vector<T>> take_all(std::size_t count) {
        static_assert(std::has_unique_object_representations_v<T>);
        if (count > rest_.size() / sizeof(T)) {
            return fail(std::errc::invalid_argument);
        }
        const auto bytes = take_bytes(count * sizeof(T));
        std::vector<T> records(count);
        std::ranges::copy(*bytes, std::as_writable_bytes(std::span{records}).begin());
        return records;
    }

    // Returns how many records the section has. It must come next, and in this version.
    Result<std::uint32_t> open(Section section, std::uint32_t version) {
        const auto head = take<SectionState>();
        if (!head || head->section != static_cast<std::uint32_t>(section) ||
            head->version != version || head->reserved != 0) {
            return fail(std::errc::invalid_argument);
        }
        return head->records;
    }

    bool at_end() const { return rest_.empty(); }

  private:
    std::span<const std::byte> rest_;
    std::function<bool()> goes_on_;
};

// Opens a section and restores its records one by one.
template <typename RestoreOne>
Result<> restore_records(StateReader& reader, Section section, std::uint32_t version,
                         RestoreOne restore_one) {
    const auto count = reader.open(section, version);
    if (!count) {
        return fail(count.error());
    }
    for (std::uint32_t i = 0; i < *count; ++i) {
        if (const auto restored = restore_one(reader); !restored) {
            return restored;
        }
        if (!reader.goes_on()) {
            return fail(std::errc::timed_out);
        }
    }
    return {};
}

} // namespace vrdma
