// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/sniffer/pcapng.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

namespace vrdma::sniffer {
namespace {

enum Block : std::uint32_t {
    section_header = 0x0a0d0d0a,
    interface_description = 1,
    interface_statistics = 5,
    enhanced_packet = 6,
};

enum Option : std::uint16_t {
    end_of_options = 0,
    comment = 1,
    epb_flags = 2,
    if_name = 2,
    shb_application = 4,
    isb_received = 4,
    isb_dropped = 5,
    if_time_resolution = 9,
};

constexpr std::uint32_t byte_order = 0x1a2b3c4d;
constexpr std::uint16_t major = 1;
constexpr std::uint16_t minor = 0;
constexpr std::uint64_t length_unknown = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint16_t ethernet = 1;
constexpr char nanoseconds = 9;
constexpr unsigned high_shift = 32;
constexpr std::uint32_t the_interface = 0;

std::string_view bytes_of(const auto& value) {
    return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

struct PacketBegin {
    std::uint32_t type;
    std::uint32_t length; // of the block
    std::uint32_t interface;
    std::uint32_t time_high;
    std::uint32_t time_low;
    std::uint32_t captured;
    std::uint32_t original;
};

// What follows the frame and its padding.
struct PacketEnd {
    std::uint16_t flags;
    std::uint16_t flags_size;
    Direction direction;
    std::uint16_t end;
    std::uint16_t end_size;
    std::uint32_t length; // of the block, again
};
static_assert(std::has_unique_object_representations_v<PacketBegin> &&
              std::has_unique_object_representations_v<PacketEnd>);

std::uint32_t length_of(std::span<const std::byte> frame) {
    constexpr std::size_t word = sizeof(std::uint32_t);
    const std::size_t padded = (frame.size() + word - 1) / word * word;
    return static_cast<std::uint32_t>(sizeof(PacketBegin) + padded + sizeof(PacketEnd));
}

} // namespace

template <typename T>
void Pcapng::put(const T& value) {
    static_assert(std::is_integral_v<T>);
    out_ += bytes_of(value);
}

void Pcapng::put_padded(std::string_view bytes) {
    out_ += bytes;
    out_.append(-bytes.size() % sizeof(std::uint32_t), '\0');
}

void Pcapng::put_option(std::uint16_t code, std::string_view value) {
    put(code);
    put(static_cast<std::uint16_t>(value.size()));
    put_padded(value);
}

// Returns where the block begins.
std::size_t Pcapng::open(std::uint32_t type) {
    const std::size_t start = out_.size();
    put(type);
    put(std::uint32_t{0}); // its length, which is not known yet
    return start;
}

void Pcapng::close(std::size_t start) {
    put_option(end_of_options, {});
    const auto length = static_cast<std::uint32_t>(out_.size() - start + sizeof(std::uint32_t));
    put(length);
    std::ranges::copy(bytes_of(length),
                      out_.begin() + static_cast<std::ptrdiff_t>(start + sizeof(std::uint32_t)));
}

void Pcapng::begin(std::string_view program, std::string_view interface) {
    const std::size_t section = open(section_header);
    put(byte_order);
    put(major);
    put(minor);
    put(length_unknown);
    put_option(shb_application, program);
    close(section);

    const std::size_t description = open(interface_description);
    put(ethernet);
    put(std::uint16_t{0});
    put(static_cast<std::uint32_t>(longest_frame));
    put_option(if_name, interface);
    put_option(if_time_resolution, bytes_of(nanoseconds));
    close(description);
}

// There are many of these blocks, so each is written in few pieces.
void Pcapng::add(std::span<const std::byte> frame, std::uint64_t original, std::uint64_t time_ns,
                 Direction direction) {
    const PacketEnd end{epb_flags,       sizeof(PacketEnd::direction), direction, end_of_options, 0,
                        length_of(frame)};
    const PacketBegin begin{enhanced_packet,
                            end.length,
                            the_interface,
                            static_cast<std::uint32_t>(time_ns >> high_shift),
                            static_cast<std::uint32_t>(time_ns),
                            static_cast<std::uint32_t>(frame.size()),
                            static_cast<std::uint32_t>(std::min<std::uint64_t>(
                                original, std::numeric_limits<std::uint32_t>::max()))};
    out_ += bytes_of(begin);
    put_padded({reinterpret_cast<const char*>(frame.data()), frame.size()});
    out_ += bytes_of(end);
}

void Pcapng::add_statistics(std::uint64_t time_ns, std::uint64_t recorded, std::uint64_t dropped) {
    const std::size_t block = open(interface_statistics);
    put(the_interface);
    put(static_cast<std::uint32_t>(time_ns >> high_shift));
    put(static_cast<std::uint32_t>(time_ns));
    if (dropped != 0) {
        put_option(comment,
                   fmt::format("At least {} frames are missing: there were more than the sniffer "
                               "could record",
                               dropped));
    }
    const std::uint64_t received = recorded + dropped;
    put_option(isb_received, bytes_of(received));
    put_option(isb_dropped, bytes_of(dropped));
    close(block);
}

} // namespace vrdma::sniffer
