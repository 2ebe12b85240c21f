// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What is found ends the process, and says where in which run.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace vrdma::torture {

// Where a thread is; a seed and this name what it does.
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

// A verb's answer: 0 or an errno.
inline void check(int error, const char* what) {
    if (error != 0) {
        fail(what, error);
    }
}

// The peer's process was killed, as the script has it. Thrown where a conversation notices.
struct PeerGone {};

// Set before a peer may die: from then on that it is gone is no failure.
extern std::atomic<bool> peer_may_die;

// The peer does not do its part.
[[noreturn]] void lost_peer(const std::string& what);

} // namespace vrdma::torture
