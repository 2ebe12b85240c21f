// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A virtual device's part of the HCA: what it is created with, what it may use, and its calls.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "mediator/base/pkey.h"
#include "mediator/base/result.h"
#include "mediator/base/types.h"
#include "mediator/hca/address_handle.h"
#include "mediator/hca/completion_queue.h"
#include "mediator/hca/counters.h"
#include "mediator/hca/event_queue.h"
#include "mediator/hca/memory_region.h"
#include "mediator/hca/memory_window.h"
#include "mediator/hca/names.h"
#include "mediator/hca/port.h"
#include "mediator/hca/queue_format.h"
#include "mediator/hca/queue_pair.h"
#include "mediator/hca/share.h"
#include "mediator/hca/shared_receive_queue.h"
#include "mediator/memory/guest_memory.h"
#include "mediator/sniffer/ring.h"
#include "vrdma/device.h"

namespace vrdma::hca {

// The maximum number of pages that one call of Slice::touch() touches.
inline constexpr std::uint64_t ring_pages_a_step = 32;

// The slice's reports to its device. Poller threads call these functions too, so they must not
// block on the control thread.
class SliceHost {
  public:
    virtual ~SliceHost() = default;
    virtual void raise(unsigned vector) noexcept = 0;
    // The guest broke a rule, and the slice cannot continue. The slice has stopped.
    virtual void fatal(std::string_view why) noexcept = 0;
};

struct SliceSpec {
    std::string name; // of the device, unique; for the log
    GuestMemory* memory = nullptr;
    std::span<vrdma_doorbell_page> doorbells;
    // An eventfd that the front end, or the guest itself, signals for each write to the kick page:
    // it wakes the slice's poller, which never reads it.
    int kick_fd = -1;
    QpnRange qpns{};
    // The uplink to peers on other hosts, and the device's Ethernet address there. Empty: no
    // uplink.
    std::string uplink{};
    std::array<std::uint8_t, 6> mac{};
    TrafficClasses traffic_classes{}; // allowed for its packets there, beside 0
    ServiceLevels service_levels{};   // the same
    PKeys pkeys{default_pkey};        // QPs' pkey_index selects one of them
    Share share{};
    std::uint32_t max_qp = 0;
    std::uint32_t max_cq = 0;
    std::uint32_t max_mr = 0;
    QueueFormat format = QueueFormat::vrdma;
    // PVRDMA: requests for events may have been lost while the device was saved. So a restored CQ
    // whose guest has ever asked for an event tells of all entries that the guest has not taken.
    bool loses_requests = false;
};

// Upper bounds of the memory that a slice uses in this process per object, in bytes. The blocks of
// their buffers are shared with their creator.
struct Costs {
    std::uint64_t ucontext = 0; // for its doorbell page
    std::uint64_t eq = 0;
    std::uint64_t cq = 0;
    std::uint64_t mr = 0;
    std::uint64_t on_demand_leaf = 0; // beside 8 bytes per page
    std::uint64_t mw = 0;
    std::uint64_t ah = 0;
    std::uint64_t srq = 0;
    std::uint64_t qp = 0;
    std::uint64_t multicast = 0; // a QP in a group
    std::uint64_t listener = 0;
    std::uint64_t counter_set = 0;
};

// The calls for objects are in a header for each kind of object.
//
// An object's state (EqState and so on) is the part that the slice itself changes. It is saved
// beside the spec that the object was created with. States are plain structs without padding.
// Objects are saved and restored only between freeze() and thaw(); an object is restored when it
// was just created with the spec of the saved one, and the restore validates the state.
class Slice : public SlicePort,
              public Names,
              public EventQueues,
              public CompletionQueues,
              public MemoryRegions,
              public MemoryWindows,
              public AddressHandles,
              public SharedReceiveQueues,
              public QueuePairs,
              public Counters {
  public:
    virtual ~Slice() = default;

    virtual Costs costs() const = 0;
    // Of all of its queues.
    virtual QueueFormat format() const = 0;

    // Applies from now on. Earlier use still counts.
    virtual void set_share(const Share& share) = 0;

    // Slows the slice down to so many bytes per second that it requests, and as many that its peers
    // request of it; 0: no more. Peers wait, and nothing fails. Datagrams and peers on the network
    // that may not be told to wait are not held back.
    virtual void set_pace(std::uint64_t bytes_per_second) = 0;

    // Records the frames of its messages in the ring from now on; nullptr: no more. The ring must
    // outlive the slice, or the next call.
    virtual void set_sniffer(sniffer::Ring* ring) = 0;

    // Touches pages of a ring before it is created, so that they are present when a poller needs
    // them. One call touches at most ring_pages_a_step pages, from `offset` on, and advances
    // `offset`. Returns false after the last page. EFAULT: the guest has no memory there. Creating
    // a ring that was not touched touches all of it at once.
    virtual Result<bool> touch(const Translation& ring, std::uint64_t& offset) = 0;

    // The guest's struct vrdma_status_page.
    virtual Result<> set_status_page(Iova page) = 0;

    // One step of giving back pages of former objects that nobody uses any more. Returns true if
    // there is more to do.
    virtual bool give_back() { return false; }

    // The guest has lost this memory. The slice itself notices when it touches it. Hardware that
    // works for the slice has let it go when this returns.
    virtual void revoke(Iova /*first*/, std::uint64_t /*length*/) {}

    // The device's clock, in ns. It jumps to another value only when a device is restored.
    virtual std::uint64_t clock() const = 0;
    virtual void set_clock(std::uint64_t now) = 0;

    // Between freeze and thaw the slice touches no guest memory and its state does not change.
    // Peers retry, as if the cable of its port were unplugged.
    virtual void freeze() = 0;
    // The frozen slice is going to be saved, or may be. Hardware that works for it by itself, and
    // so may still touch the memory of messages under way, ends its connections.
    virtual void let_go() {}
    // Until the frozen slice is thawed, its peers do not find it here, but where its state has been
    // moved to.
    virtual void give_way() = 0;
    // One step of thawing. Returns true if there are more steps. No object is created or destroyed
    // before the last step.
    virtual bool thaw() = 0;
};

} // namespace vrdma::hca
