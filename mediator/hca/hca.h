// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The HCA as the verbs layer sees it. It is shaped like hardware: carve() creates a slice for each
// virtual device. The slice gets its doorbell pages, translations and queues, and then moves data
// by itself.
//
// The verbs layer has validated everything that it programs, and owns it: ids are unique and of
// this device, objects exist and are not in use when destroyed, state transitions are legal. The
// slice itself must validate everything that lies in guest memory (WQEs, rings, indices).
//
// All calls come from the control thread and take effect before they return.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mediator/base/gid.h"
#include "mediator/base/pkey.h"
#include "mediator/base/result.h"
#include "mediator/base/types.h"
#include "mediator/hca/blocks.h"
#include "mediator/memory/guest_memory.h"
#include "vrdma/device.h"
#include "vrdma/queue.h"

namespace vrdma::hca {

using vrdma::Gid;

// A key without its tag (VRDMA_KEY_TAG). It identifies the region or window.
constexpr std::uint32_t name_of(Key key) noexcept {
    return VRDMA_GET(~VRDMA_KEY_TAG, key.value);
}

inline constexpr std::uint64_t max_message_size = 1ull << 31;
inline constexpr std::uint32_t max_mtu =
    4096; // of a port: payload bytes of a packet, or of a datagram

// The blocks that make up a buffer of the guest: block_shift is at least VRDMA_PAGE_SHIFT, and the
// buffer begins first_offset bytes into the first block.
struct Translation {
    // The result of an earlier check of all blocks, which the slice then need not repeat. If it is
    // not `unknown`, the blocks make up the buffer and lie in the window.
    enum class Order : std::uint8_t { unknown, adjacent, scattered };

    Blocks blocks;
    unsigned block_shift = VRDMA_PAGE_SHIFT;
    std::uint64_t first_offset = 0;
    std::uint64_t length = 0;
    Order order = Order::unknown;
    bool touched = false; // of a ring: Slice::touch() has touched all of it
};

// The maximum number of pages that one call of Slice::touch() touches.
inline constexpr std::uint64_t ring_pages_a_step = 32;

struct EqSpec {
    EqId id;
    Translation pages;
    std::uint32_t depth = 0;
    unsigned vector = 0;
};

// An event that the guest asked for is due after `count` CQEs or after `period_us`, as far as these
// are not 0.
struct CqModeration {
    std::uint16_t count = 0;
    std::uint16_t period_us = 0;
};

struct CqSpec {
    Cqn id;
    Translation pages;
    std::uint32_t depth = 0;
    EqId eq;
    bool timestamped = false;
    bool ignore_overrun = false;
    CqModeration moderation{};
};

struct MrSpec {
    Key key;
    PdId pd;
    std::uint64_t start = 0; // guest virtual address of the first byte
    std::uint64_t length = 0;
    std::uint32_t access_flags = 0; // enum ibv_access_flags
    bool dma = false;               // addresses are IOVAs, no translation
    std::uint32_t fast_pages = 0;   // no memory yet: a WQE registers at most so many pages
    Translation pages;
};

// A region with IBV_ACCESS_ON_DEMAND has no blocks: its pages come later, in leaves of this many
// pages.
inline constexpr std::uint64_t on_demand_leaf_pages = 512;

struct MwSpec {
    Key key;
    PdId pd;
    std::uint32_t type = 0; // enum ibv_mw_type
};

struct AhSpec {
    AhId id;
    PdId pd;
    vrdma_av av{};
};

struct SrqSpec {
    Srqn id;
    PdId pd;
    Translation pages;
    std::uint32_t depth = 0;
    std::uint8_t stride_shift = 0;
    std::uint16_t max_sge = 0;
    XrcdId xrcd; // the XRC domain whose QPs it serves, or none
    Cqn cq;      // only with an XRC domain
};

enum class QpType : std::uint8_t { rc = 2, uc = 3, ud = 4, xrc_send = 9, xrc_recv = 10 };

struct QpSpec {
    Qpn id;
    QpType type = QpType::rc;
    PdId pd;
    Cqn send_cq;
    Cqn recv_cq;
    Srqn srq;    // instead of an RQ, or none
    XrcdId xrcd; // of xrc_recv, which has no PD, CQs or queues
    Translation pages;
    std::uint32_t sq_depth = 0;
    std::uint32_t rq_depth = 0;
    std::uint8_t sq_stride_shift = 0;
    std::uint8_t rq_stride_shift = 0;
    std::uint32_t max_inline = 0;
    std::uint16_t max_send_sge = 0;
    std::uint16_t max_recv_sge = 0;
    bool signal_all = false;
    bool blocks_own_multicast = false; // it does not receive its own datagrams to a group
    std::uint32_t doorbell_page = 0;
};

// The part of an object's state that the slice itself changes. This part is saved beside the spec
// that the object was created with. Plain structs without padding; a restore validates them.
struct EqState {
    std::uint32_t producer = 0;
    std::uint32_t port_down = 0; // 1: the guest was last told that the port is down
};

struct CqState {
    std::uint32_t producer = 0;
    std::uint32_t fired = 0;
    std::uint32_t error = 0;  // 1: overrun, or the guest's index was out of range
    std::uint32_t events = 0; // the events that wait for room in their event queue
    static constexpr std::uint32_t completion_waits = 1;
    static constexpr std::uint32_t error_waits = 2;
};

struct SrqState {
    std::uint32_t head = 0;
    std::uint32_t limit = 0;  // 0: not armed
    std::uint32_t events = 0; // bit n: async event n (enum ibv_event_type) waits for room
};

// The binding of a window.
struct MwState {
    std::uint32_t key = 0;    // with its present tag
    std::uint32_t bound = 0;  // 1: bound, and the fields below are set
    std::uint32_t region = 0; // the region's key
    std::uint32_t owner = 0;  // of type 2: the QP
    std::uint32_t access_flags = 0;
    std::uint32_t reserved = 0;
    std::uint64_t address = 0; // in the region
    std::uint64_t length = 0;
};

// The registration of a region that was created without memory. Its pages are saved beside it.
struct FastMrState {
    std::uint32_t key = 0; // with its present tag
    std::uint32_t valid = 0;
    std::uint32_t access_flags = 0;
    std::uint32_t block_shift = 0;
    std::uint32_t blocks = 0;
    std::uint32_t reserved = 0;
    std::uint64_t first_offset = 0;
    std::uint64_t start = 0;
    std::uint64_t length = 0;
};

struct QpState {
    vrdma_qp_attr attr{}; // as query_qp returns it
    std::uint32_t doorbell_slot = 0;
    std::uint32_t sq_head = 0; // the next WQE, or an interrupted one that starts again
    std::uint32_t rq_head = 0;
    std::uint32_t events = 0; // bit n: async event n (enum ibv_event_type) waits for room
    std::uint8_t retries_left = 0;
    std::uint8_t rnr_retries_left = 0;
    std::uint8_t sq_started = 0;    // the WQE at sq_head was tried already
    std::uint8_t established = 0;   // a message arrived since RTR
    std::uint8_t last_wqe_due = 0;  // LAST_WQE_REACHED is still to be announced
    std::uint8_t holds_receive = 0; // a WQE of the SRQ, for a message that has not ended
    std::uint16_t held_sges = 0;    // number of SGEs that save_held_receive returns
    std::uint32_t held_cookie = 0;
    std::uint32_t held_srq = 0;  // xrc_recv: the SRQ of that WQE
    std::uint16_t connected = 0; // 1: to a peer that may be on the network; see save_connection()
    std::uint16_t left_to_flush = 0; // WQEs that were in the SQ when the QP left SQE
};

inline constexpr std::size_t max_connection_state = 8192;

// The slice's reports to its device. Poller threads call these functions too, so they must not
// block on the control thread.
class SliceHost {
  public:
    virtual ~SliceHost() = default;
    virtual void raise(unsigned vector) noexcept = 0;
    // The guest broke a rule, and the slice cannot continue. The slice has stopped.
    virtual void fatal(std::string_view why) noexcept = 0;
};

inline constexpr Qpn gsi_qpn{1};

// The QPNs of one function, and QP1, which every function has. The range tells the functions of an
// endport apart.
struct QpnRange {
    std::uint32_t first = 0;
    std::uint32_t last = VRDMA_MULTICAST_QPN;

    constexpr bool contains(Qpn qpn) const noexcept {
        return qpn == gsi_qpn || (qpn.value >= first && qpn.value <= last);
    }
};

// A slice's share of its poller, in proportion to the weights of the poller's slices, and the
// limits that the slice never exceeds. The slice that requests an operation is charged for it: for
// what it sends, writes and reads. It is also charged for the packets that the network sends to it.
struct Share {
    static constexpr std::uint32_t max_weight = 10000;

    std::uint32_t weight = 100;         // 1 to max_weight
    std::uint64_t bytes_per_second = 0; // 0: no limit
    std::uint64_t operations_per_second = 0;

    friend bool operator==(const Share&, const Share&) = default;
};

// DSCPs (RFC 2474).
using TrafficClasses = std::bitset<64>;

// The service levels that RoCE has (IBA A16.5.1). They are Ethernet's priorities.
using ServiceLevels = std::bitset<8>;

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

class Slice {
  public:
    virtual ~Slice() = default;

    virtual Costs costs() const = 0;

    // Applies from now on. Earlier use still counts.
    virtual void set_share(const Share& share) = 0;

    // Touches pages of a ring before it is created, so that they are present when a poller needs
    // them. One call touches at most ring_pages_a_step pages, from `offset` on, and advances
    // `offset`. Returns false after the last page. EFAULT: the guest has no memory there. Creating
    // a ring that was not touched touches all of it at once.
    virtual Result<bool> touch(const Translation& ring, std::uint64_t& offset) = 0;

    // The guest's struct vrdma_status_page.
    virtual Result<> set_status_page(Iova page) = 0;

    // An empty GID (all zero) clears the entry. EACCES: guests may not use that VLAN of the uplink.
    virtual Result<> set_gid(std::uint32_t index, std::uint8_t type, const Gid& gid,
                             std::uint16_t vlan) = 0;

    // The port's MTU: enum ibv_mtu.
    virtual std::uint8_t max_mtu() const = 0;
    // Whether the slice's uplink has a carrier. Always true without an uplink. Each change is
    // reported to the async event queue; initially, the queue assumes that the port is up.
    virtual bool port_up() const = 0;
    // The uplink's speed in Mb/s. 0 if it is unknown or there is no uplink.
    virtual std::uint32_t port_mbps() const = 0;

    virtual Result<> create_eq(const EqSpec& spec) = 0;
    virtual void destroy_eq(EqId id) = 0;

    virtual Result<> create_cq(const CqSpec& spec) = 0;
    // Writes further CQEs to another ring with `depth` places (see vrdma_cmd_resize_cq). EINVAL if
    // the guest has more than `depth` CQEs left to consume.
    virtual Result<> resize_cq(Cqn id, const Translation& pages, std::uint32_t depth) = 0;
    virtual Result<> moderate_cq(Cqn id, const CqModeration& moderation) = 0;
    virtual void destroy_cq(Cqn id) = 0;

    virtual Result<> register_mr(MrSpec spec) = 0;
    // Replaces the region with that key. EBUSY while windows are bound to it.
    virtual Result<> reregister_mr(MrSpec spec) = 0;
    // After it returns, the key gives no access. EBUSY while windows are bound to it.
    virtual Result<> deregister_mr(Key key) = 0;

    virtual Result<> allocate_mw(const MwSpec& spec) = 0;
    virtual void deallocate_mw(Key key) = 0;

    // map_pages() provides pages of a region with IBV_ACCESS_ON_DEMAND, from page number `first`
    // on. refuse_pages() reports that these pages do not exist: messages that wait for them fail.
    virtual void map_pages(Key key, std::uint64_t first, std::span<const Iova> pages,
                           bool writable) = 0;
    virtual void refuse_pages(Key key, std::uint64_t first, std::uint64_t count) = 0;
    // After it returns, the pages are not accessed. Leaves that lie in the range are freed.
    virtual void unmap_pages(Key key, std::uint64_t first, std::uint64_t count) = 0;

    virtual Result<> create_ah(const AhSpec& spec) = 0;
    virtual void destroy_ah(AhId id) = 0;

    virtual Result<> create_srq(const SrqSpec& spec) = 0;
    // Arms the limit event. 0 disarms it.
    virtual Result<> modify_srq(Srqn id, std::uint32_t limit) = 0;
    // Takes further WQEs from another ring with `depth` places (see vrdma_cmd_resize_srq), and arms
    // the limit if one is given. EINVAL if the WQEs that are left, or an armed limit, exceed
    // `depth`.
    virtual Result<> resize_srq(Srqn id, const Translation& pages, std::uint32_t depth,
                                std::optional<std::uint32_t> limit) = 0;
    virtual Result<std::uint32_t> query_srq(Srqn id) const = 0; // the limit
    virtual void destroy_srq(Srqn id) = 0;

    // Returns the doorbell slot.
    virtual Result<std::uint32_t> create_qp(const QpSpec& spec) = 0;
    // attr is validated. attr_mask says which fields are set.
    virtual Result<> modify_qp(Qpn id, const vrdma_qp_attr& attr) = 0;
    // Returns everything that modify_qp sets, and the current state, which the slice itself may
    // have moved to SQE or ERR.
    virtual Result<vrdma_qp_attr> query_qp(Qpn id) const = 0;
    virtual void destroy_qp(Qpn id) = 0;

    // The QP is UD. attach_multicast() requires that it is not yet attached to the group, and
    // detach_multicast() that it is. The QP is detached before it is destroyed.
    virtual Result<> attach_multicast(Qpn id, const Gid& group) = 0;
    virtual void detach_multicast(Qpn id, const Gid& group) = 0;

    // Among the slices with the same GID, this slice's QP1 gets the requests for `service`.
    virtual void listen(std::uint64_t service) = 0;
    virtual void unlisten(std::uint64_t service) = 0;

    // One step of giving back pages of former objects that nobody uses any more. Returns true if
    // there is more to do.
    virtual bool give_back() { return false; }

    // The slice's counters since it was carved.
    virtual vrdma_counters counters() const = 0;
    // The counters of one of its QPs since the QP was created.
    virtual Result<vrdma_counters> qp_counters(Qpn id) const = 0;

    // A counter set counts, in addition, the events of the QPs that are bound to it. No QP is bound
    // to a set when the set is destroyed.
    virtual Result<> create_counter_set(CounterSetId id) = 0;
    virtual void destroy_counter_set(CounterSetId id) = 0;
    // Applies from now on. If `set` is none, the QP is bound to no set.
    virtual void bind_counter_set(Qpn qp, CounterSetId set) = 0;
    virtual Result<vrdma_counters> set_counters(CounterSetId id) const = 0;
    // The sums over all sets that ever existed.
    virtual vrdma_counters counters_of_sets() const = 0;

    // The device's clock, in ns. It jumps to another value only when a device is restored.
    virtual std::uint64_t clock() const = 0;
    virtual void set_clock(std::uint64_t now) = 0;

    // Between freeze and thaw the slice touches no guest memory and its state does not change.
    // Peers retry, as if the cable of its port were unplugged.
    virtual void freeze() = 0;
    // Until the frozen slice is thawed, its peers do not find it here, but where its state has been
    // moved to.
    virtual void give_way() = 0;
    // One step of thawing. Returns true if there are more steps. No object is created or destroyed
    // before the last step.
    virtual bool thaw() = 0;

    // Only between freeze and thaw. Restore only objects that were just created with the spec of
    // the saved object.
    virtual EqState save_eq(EqId id) const = 0;
    virtual CqState save_cq(Cqn id) const = 0;
    virtual SrqState save_srq(Srqn id) const = 0;
    virtual FastMrState save_fast_mr(Key key) const = 0;
    virtual std::vector<Iova> save_fast_pages(Key key) const = 0;
    virtual MwState save_mw(Key key) const = 0;
    virtual QpState save_qp(Qpn id) const = 0;
    virtual std::vector<vrdma_sge> save_held_receive(Qpn id) const = 0;
    // The engine's own state of the QP's connection to a peer on the network. Only engines read it.
    // It begins with its version, and has at most max_connection_state bytes.
    virtual std::vector<std::byte> save_connection(Qpn id) const = 0;
    virtual Result<> restore_eq(EqId id, const EqState& state) = 0;
    virtual Result<> restore_cq(Cqn id, const CqState& state) = 0;
    virtual Result<> restore_srq(Srqn id, const SrqState& state) = 0;
    virtual Result<> restore_fast_mr(Key key, const FastMrState& state,
                                     std::span<const Iova> pages) = 0;
    // Called after restore_qp() of its QP.
    virtual Result<> restore_mw(Key key, const MwState& state) = 0;
    virtual Result<> restore_qp(Qpn id, const QpState& state,
                                std::span<const vrdma_sge> held_receive) = 0;
    // Called after restore_qp() of its QP.
    virtual Result<> restore_connection(Qpn id, std::span<const std::byte> state) = 0;
};

class Hca {
  public:
    virtual ~Hca() = default;
    // ENODEV: there is no such uplink.
    virtual Result<std::unique_ptr<Slice>> carve(const SliceSpec& spec, SliceHost& host) = 0;
};

} // namespace vrdma::hca
