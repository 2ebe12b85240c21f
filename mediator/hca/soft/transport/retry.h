// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The times that a requester waits before it sends again.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

namespace vrdma::hca::soft {

// IBA 9.7.5.2.8, table 46: the RNR NAK timer field, in units of 10 us.
inline std::chrono::microseconds rnr_delay(std::uint8_t timer) noexcept {
    static constexpr std::array<std::uint32_t, 32> tens_of_us{
        65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
        48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
        2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
    return std::chrono::microseconds{10} * tens_of_us[timer % tens_of_us.size()];
}

// IBA 9.7.6.1.3: 4.096 us * 2^timeout. 0 means to wait without end. The requester then tries again
// every 134 ms: this costs nothing, and ends the wait when the peer has come.
inline std::chrono::nanoseconds ack_timeout(std::uint8_t timeout) noexcept {
    constexpr std::uint8_t patient = 15; // 134 ms
    constexpr std::uint8_t longest = 31;
    const unsigned exponent = timeout == 0 ? patient : timeout % (longest + 1u);
    return std::chrono::nanoseconds{4096ull << exponent};
}

// The silence of a peer on the network that counts as a retry. The specification allows up to four
// timeouts (IBA 9.7.6.1.3). A short timeout is extended by that, but not beyond 268 ms, because the
// peer may be a program that its host's scheduler keeps waiting.
inline std::chrono::nanoseconds silence_timeout(std::uint8_t timeout) noexcept {
    constexpr std::uint8_t enough = 16; // 268 ms
    const std::chrono::nanoseconds least = ack_timeout(timeout);
    return std::clamp(ack_timeout(enough), least, 4 * least);
}

// The wait for pages that a driver has been asked for: short at first, then longer each time.
inline std::chrono::microseconds page_delay(unsigned waits) noexcept {
    constexpr unsigned longest = 8; // 4 ms
    return std::chrono::microseconds{16u << std::min(waits, longest)};
}

// After so many of these waits, the requester gives up on a peer's pages: after 10 s if it is
// reliable, and after 0.1 s if it may lose messages.
inline constexpr std::uint16_t reliable_page_waits = 2450;
inline constexpr std::uint16_t unreliable_page_waits = 32;

// A slice that moves or rests is frozen for less time than this, and its peers wait for it. Later,
// requests to it are lost as with an unplugged cable. Unreliable QPs have other peers that would
// have to wait as well, and all connections of a VM need its QP1. The connection manager sends most
// messages again, but not the last one of a process that ends.
inline constexpr std::chrono::milliseconds reliable_rest{10000};
inline constexpr std::chrono::milliseconds unreliable_rest{1000};
inline constexpr std::chrono::milliseconds gsi_rest{250};

inline constexpr std::uint8_t timer_of_20_ms = 22;
inline constexpr std::uint8_t timer_of_491_ms = 31;

// The RNR timer of a peer that waits for about so long, but not longer than `longest`.
inline std::uint8_t wait_timer(std::chrono::nanoseconds time,
                               std::uint8_t longest = timer_of_20_ms) noexcept {
    constexpr std::uint8_t shortest = 5; // 60 us
    std::uint8_t timer = shortest;
    while (timer < longest && rnr_delay(timer) < time) {
        ++timer;
    }
    return timer;
}

// The same for a slice that is frozen: an eighth of the time for which it has been.
inline std::uint8_t rest_timer(std::chrono::nanoseconds frozen) noexcept {
    return wait_timer(frozen / 8);
}
// Peers on the network ask less often, since they are told the end of the rest.
inline std::uint8_t network_rest_timer(std::chrono::nanoseconds frozen) noexcept {
    return wait_timer(frozen / 4, timer_of_491_ms);
}

} // namespace vrdma::hca::soft
