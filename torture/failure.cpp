// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/failure.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace vrdma::torture {

thread_local Place place;
std::atomic<bool> peer_may_die = false;

void fail(const std::string& what) {
    static_cast<void>(std::fprintf(stderr,
                                   "torture: seed %llu round %u conversation %u step %u (%s): %s\n",
                                   static_cast<unsigned long long>(place.seed), place.round,
                                   place.conversation, place.step, place.doing, what.c_str()));
    ::_exit(EXIT_FAILURE); // not exit(): other threads use objects that destructors would free
}

void fail(const char* what, int error) {
    fail(std::string{what} + ": " + std::strerror(error));
}

void lost_peer(const std::string& what) {
    if (peer_may_die) {
        throw PeerGone{};
    }
    fail(what);
}

} // namespace vrdma::torture
