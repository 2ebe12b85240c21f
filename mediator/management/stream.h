// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The body of a response that goes on until its client has enough, or nothing more comes.
#pragma once

#include <cstddef>
#include <span>

namespace vrdma::management {

class Stream {
  public:
    Stream() = default;
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    virtual ~Stream() = default;

    // Is called at regular times, and may do a bounded amount of work until the next one.
    virtual void wake() = 0;
    // Fills the room, or a part of it. 0: there is nothing before the next wake(), or at all.
    virtual std::size_t read(std::span<char> room) = 0;
    // Whether nothing more comes. Only after read() has returned 0.
    virtual bool ended() const = 0;
};

} // namespace vrdma::management
