// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A failure ends the process, after a message that says where in which run it was found.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace vrdma::torture {

// A thread's position. With the seed, it determines what the thread does.
struct Place {
    std::uint64_t seed = 0;
    unsigned round = 0;
    unsigned conversation = 0;
    unsigned step = 0;
    const char* doing = "start";
};
extern thread_local Place place;

[[noreturn]] void fail(const std::string& what);
// `error` is an errno.
[[noreturn]] void fail(const char* what, int error);

inline void require(bool holds, const char* what) {
    if (!holds) {
        fail(what);
    }
}

// `error` is a verb's result: 0 or an errno.
inline void check(int error, const char* what) {
    if (error != 0) {
        fail(what, error);
    }
}

// The script has killed the peer's process. Thrown where a conversation notices.
struct PeerGone {};

// Set before a peer may die. From then on, its absence is no failure.
extern std::atomic<bool> peer_may_die;

// Fails, or throws PeerGone if the peer may have died.
[[noreturn]] void lost_peer(const std::string& what);

} // namespace vrdma::torture
