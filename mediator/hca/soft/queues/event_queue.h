// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// An event queue: entries for the guest's interrupt handler. An event is noted at its source, and
// the source joins the queue's line. The queue writes the entries of the sources in line when there
// is room. So any number of events waits in bounded memory.
#pragma once

#include "mediator/base/result.h"
#include "mediator/hca/event_queue.h"
#include "mediator/hca/slice.h"
#include "mediator/hca/soft/common/cache_line.h"
#include "mediator/hca/soft/common/event_source.h"
#include "mediator/hca/soft/common/list.h"
#include "mediator/hca/soft/memory/guest_buffer.h"

namespace vrdma::hca::soft {

class alignas(cache_line) EventQueue {
  public:
    static Result<std::unique_ptr<EventQueue>> create(const GuestMemory& memory, QueueFormat format,
                                                      SliceHost& host, const EqSpec& spec);

    EqId id() const noexcept { return id_; }
    const GuestBuffer& buffer() const noexcept { return buffer_; }

    // The source has a pending event.
    void join(EventSource& source) noexcept;
    void leave(EventSource& source) noexcept { line_.remove(source); }
    void dismiss() noexcept; // all sources leave

    // Sets whether the port is up. As soon as there is room, an event reports the state at that
    // time, if it differs from the one that the guest was told last.
    void set_port(bool up) noexcept { port_up_ = up; }

    enum class Delivery : std::uint8_t {
        done,
        more, // to write, and there may be room
        full,
    };
    // Writes some of the waiting events, as far as there is room, and interrupts the guest.
    Delivery deliver() noexcept;

    EqState save() const noexcept;
    Result<> restore(const EqState& state) noexcept;

    ListHook<EventQueue> active; // has something to deliver

  private:
    EventQueue(QueueFormat format, SliceHost& host, const EqSpec& spec, GuestBuffer buffer);

    bool push(std::uint32_t type, std::uint32_t id, std::uint64_t detail = 0) noexcept;
    bool push_pvrdma(std::uint32_t type, std::uint32_t id) noexcept;
    bool push_port() noexcept;
    bool push_pending(EventSource& source) noexcept;

    SliceHost& host_;
    const QueueFormat format_;
    const EventKind kind_;
    const EqId id_;
    const unsigned vector_;
    const std::uint32_t depth_; // a power of two
    const GuestBuffer buffer_;
    std::uint32_t producer_ = 0;
    std::uint32_t raised_ = 0; // the producer index when the vector was raised last
    List<EventSource, &EventSource::line> line_;
    bool port_up_ = true;
    bool port_told_up_ = true;
};

} // namespace vrdma::hca::soft
