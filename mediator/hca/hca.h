// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The HCA as the verbs layer sees it, shaped like hardware: a slice is carved for each virtual
// device, gets its doorbell pages, translations and queues, and then moves data by itself.
//
// The verbs layer has validated and owns what it programs: ids are unique and of this device,
// objects exist and are not in use when destroyed, state transitions are legal. What lies in guest
// memory (WQEs, rings, indices) the slice must validate itself.
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

// A key without its tag (VRDMA_KEY_TAG): what its region or window is known by.
constexpr std::uint32_t name_of(Key key) noexcept {
    return VRDMA_GET(~VRDMA_KEY_TAG, key.value);
}

inline constexpr std::uint64_t max_message_size = 1ull << 31;
inline constexpr std::uint32_t max_mtu =
    4096; // of a port: payload bytes of a packet, or of a datagram

// The blocks that make up a buffer of the guest: block_shift is at least VRDMA_PAGE_SHIFT, and the
// buffer begins first_offset bytes into the first block.
struct Translation {
    // What is known of the blocks by whoever has looked at all of them, so that the slice need not:
    // then they make up the buffer, and lie in the window.
    enum class Order : std::uint8_t { unknown, adjacent, scattered };

    Blocks blocks;
    unsigned block_shift = VRDMA_PAGE_SHIFT;
    std::uint64_t first_offset = 0;
    std::uint64_t length = 0;
    Order order = Order::unknown;
    bool touched = false; // of a ring: Slice::touch() has come to its end
};

// Of a ring that is to be made, what one call of Slice::touch() touches at most.
inline constexpr std::uint64_t ring_pages_a_step = 32;

struct EqSpec {
    EqId id;
    Translation pages;
    std::uint32_t depth = 0;
    unsigned vector = 0;
};

// When an event that a guest asked for is due: after so many CQEs or so much time, if not 0.
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
    std::uint32_t fast_pages = 0;   // no memory yet: so many pages at most come by a WQE
    Translation pages;
};

// A region with IBV_ACCESS_ON_DEMAND has no blocks: its pages come later, in leaves of so many.
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
    XrcdId xrcd; // whose QPs it serves, or none
    Cqn cq;      // with an XRC domain
};

enum class QpType : std::uint8_t { rc = 2, uc = 3, ud = 4, xrc_send = 9, xrc_recv = 10 };

struct QpSpec {
    Qpn id;
    QpType type = QpType::rc;
    PdId pd;
    Cqn send_cq;
    Cqn recv_cq;
    Srqn srq;    // in the place of an RQ, or none
    XrcdId xrcd; // xrc_recv, which has nothing else
    Translation pages;
    std::uint32_t sq_depth = 0;
    std::uint32_t rq_depth = 0;
    std::uint8_t sq_stride_shift = 0;
    std::uint8_t rq_stride_shift = 0;
    std::uint32_t max_inline = 0;
    std::uint16_t max_send_sge = 0;
    std::uint16_t max_recv_sge = 0;
    bool signal_all = false;
    bool blocks_own_multicast = false; // what it sends to a group of its own does not come to it
    std::uint32_t doorbell_page = 0;
};

// What the slice itself moves in an object, to be saved beside the spec that the object was created
// with. Plain structs without padding; a restore validates them.
struct EqState {
    std::uint32_t producer = 0;
    std::uint32_t port_down = 0; // 1: of the port, as the guest was told
};

struct CqState {
    std::uint32_t producer = 0;
    std::uint32_t fired = 0;
    std::uint32_t error = 0;  // 1: overrun, or the guest's index was out of range
    std::uint32_t events = 0; // which events wait for room in their event queue
    static constexpr std::uint32_t completion_waits = 1;
    static constexpr std::uint32_t error_waits = 2;
};

struct SrqState {
    std::uint32_t head = 0;
    std::uint32_t limit = 0;  // 0: not armed
    std::uint32_t events = 0; // bit n: async event n (enum ibv_event_type) waits for room
};

// What is bound to a window.
struct MwState {
    std::uint32_t key = 0;    // with its present tag
    std::uint32_t bound = 0;  // 1: the rest is not zero
    std::uint32_t region = 0; // its key
    std::uint32_t owner = 0;  // of type 2: the QP
    std::uint32_t access_flags = 0;
    std::uint32_t reserved = 0;
    std::uint64_t address = 0; // in the region
    std::uint64_t length = 0;
};

// What is registered in a region that had no memory; its pages are saved beside it.
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
    std::uint32_t sq_head = 0; // the WQE that is next, or was interrupted and starts again
    std::uint32_t rq_head = 0;
    std::uint32_t events = 0; // bit n: async event n (enum ibv_event_type) waits for room
    std::uint8_t retries_left = 0;
    std::uint8_t rnr_retries_left = 0;
    std::uint8_t sq_started = 0;    // the WQE at sq_head was tried already
    std::uint8_t established = 0;   // a message arrived since RTR
    std::uint8_t last_wqe_due = 0;  // LAST_WQE_REACHED is still to be announced
    std::uint8_t holds_receive = 0; // a WQE of the SRQ, for a message that has not ended
    std::uint16_t held_sges = 0;    // how many save_held_receive returns
    std::uint32_t held_cookie = 0;
    std::uint32_t held_srq = 0;      // xrc_recv: whose WQE it is
    std::uint16_t connected = 0;     // 1: to a peer that may be on the network; see SavedConnection
    std::uint16_t left_to_flush = 0; // WQEs that were in the SQ when the QP left SQE
};

// What a message on the network says of itself.
struct MessageState {
    std::uint64_t length = 0;
    std::uint64_t remote_address = 0;
    std::uint64_t compare_add = 0;
    std::uint64_t swap = 0;
    std::uint32_t imm = 0; // network order
    std::uint32_t rkey = 0;
    std::uint32_t srqn = 0;
    std::uint8_t opcode = 0; // enum vrdma_sq_opcode
    std::uint8_t solicited = 0;
    std::uint16_t reserved = 0;
};

// A WQE of which the peer has not acknowledged all.
struct SentState {
    std::uint64_t length = 0;
    std::uint32_t index = 0; // in the send queue
    std::uint32_t first = 0; // its PSNs
    std::uint32_t last = 0;
    std::uint8_t opcode = 0;
    std::uint8_t signaled = 0;
    std::uint8_t askew = 0; // names a word that is not aligned
    std::uint8_t reserved = 0;
};

// A READ or an atomic of the peer's, which it may ask for again.
struct FetchState {
    MessageState message;
    std::uint64_t original = 0; // of an atomic, what was there before
    std::uint32_t first = 0;    // the PSNs of the response
    std::uint32_t last = 0;
    std::uint32_t answered = 0; // packets of it
    std::uint32_t begin = 0;    // of them, the first of what the peer asked for last
    std::uint32_t repeated = 0; // 1: the peer asked again
    std::uint32_t reserved = 0;
};

// With a peer on the network: PSNs, and what is under way.
struct ConnectionState {
    MessageState message; // that comes in
    std::uint64_t offset = 0;
    std::uint32_t oldest = 0; // PSNs of the requester: not acknowledged, next, never sent
    std::uint32_t next = 0;
    std::uint32_t fresh = 0;
    std::uint32_t expected = 0; // PSN of the responder
    std::uint32_t msn = 0;
    std::uint8_t open = 0; // the message has begun
    std::uint8_t told_gap = 0;
    std::uint8_t ack_due = 0;
    std::uint8_t reserved = 0;
    std::uint32_t sent = 0; // how many there are of each
    std::uint32_t fetches = 0;
};

struct SavedConnection {
    ConnectionState state;
    std::vector<SentState> sent;
    std::vector<FetchState> fetches;
};

// What a slice tells its device. Called from poller threads too: must not block on the control
// thread.
class SliceHost {
  public:
    virtual ~SliceHost() = default;
    virtual void raise(unsigned vector) noexcept = 0;
    // The guest broke a rule that leaves the slice no way on. The slice has stopped.
    virtual void fatal(std::string_view why) noexcept = 0;
};

inline constexpr Qpn gsi_qpn{1};

// The QPNs of one function, which tell those of an endport apart, and QP1, which each has.
struct QpnRange {
    std::uint32_t first = 0;
    std::uint32_t last = VRDMA_MULTICAST_QPN;

    constexpr bool contains(Qpn qpn) const noexcept {
        return qpn == gsi_qpn || (qpn.value >= first && qpn.value <= last);
    }
};

// A slice's part of the poller that it shares with others, in proportion to their weights, and
// what it never exceeds. Whoever asks for something is charged: for what it sends, writes and
// reads, and for packets that the network sends it.
struct Share {
    static constexpr std::uint32_t max_weight = 10000;

    std::uint32_t weight = 100;         // 1 to max_weight
    std::uint64_t bytes_per_second = 0; // 0: no limit
    std::uint64_t operations_per_second = 0;

    friend bool operator==(const Share&, const Share&) = default;
};

// DSCPs (RFC 2474).
using TrafficClasses = std::bitset<64>;

// Those of IBA's that RoCE has (A16.5.1), which are Ethernet's priorities.
using ServiceLevels = std::bitset<8>;

struct SliceSpec {
    std::string name; // the device's: for the log, and no other's
    GuestMemory* memory = nullptr;
    std::span<vrdma_doorbell_page> doorbells;
    // An eventfd that the front end, or the guest itself, signals for each write to the kick page:
    // wakes the slice's poller, which never reads it.
    int kick_fd = -1;
    QpnRange qpns{};
    // What the device is bound to for peers elsewhere, and how it is known there; empty: nothing.
    std::string uplink{};
    std::array<std::uint8_t, 6> mac{};
    TrafficClasses traffic_classes{}; // that its packets may have there, beside 0
    ServiceLevels service_levels{};   // the same
    PKeys pkeys{default_pkey};        // the QPs' attributes are indices of it
    Share share{};
    std::uint32_t max_qp = 0;
    std::uint32_t max_cq = 0;
    std::uint32_t max_mr = 0;
};

// What a slice keeps of objects in this process's memory, in bytes each, at most. The blocks of
// their buffers are shared with whoever made them.
struct Costs {
    std::uint64_t ucontext = 0; // for its doorbell page
    std::uint64_t eq = 0;
    std::uint64_t cq = 0;
    std::uint64_t mr = 0;
    std::uint64_t on_demand_leaf = 0; // beside 8 bytes a page
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

    // From now on; what was taken before is not forgotten.
    virtual void set_share(const Share& share) = 0;

    // Touches pages of a ring that is to be made, so that they are there before a poller needs
    // them: some, from `offset` on, which moves. False: these were the last. EFAULT where the guest
    // has no memory. One call touches ring_pages_a_step at most. Creating a ring that was not
    // touched touches all of it at once.
    virtual Result<bool> touch(const Translation& ring, std::uint64_t& offset) = 0;

    // The guest's struct vrdma_status_page.
    virtual Result<> set_status_page(Iova page) = 0;

    // An empty GID (all zero) clears the entry. EACCES: the uplink is not for that VLAN of a
    // guest's.
    virtual Result<> set_gid(std::uint32_t index, std::uint8_t type, const Gid& gid,
                             std::uint16_t vlan) = 0;

    // Its port's: enum ibv_mtu.
    virtual std::uint8_t max_mtu() const = 0;
    // Whether its uplink has a carrier; without an uplink it needs none. The async event queue is
    // told of each change, and begins with a port that is up.
    virtual bool port_up() const = 0;
    // Its uplink's, in Mb/s; 0 where nobody knows it, or there is no uplink.
    virtual std::uint32_t port_mbps() const = 0;

    virtual Result<> create_eq(const EqSpec& spec) = 0;
    virtual void destroy_eq(EqId id) = 0;

    virtual Result<> create_cq(const CqSpec& spec) = 0;
    // Takes another ring, of so many places, for CQEs from now on (see vrdma_cmd_resize_cq). EINVAL
    // if more than that were not taken.
    virtual Result<> resize_cq(Cqn id, const Translation& pages, std::uint32_t depth) = 0;
    virtual Result<> moderate_cq(Cqn id, const CqModeration& moderation) = 0;
    virtual void destroy_cq(Cqn id) = 0;

    virtual Result<> register_mr(MrSpec spec) = 0;
    // In the place of the region with that key; EBUSY while windows are bound to it.
    virtual Result<> reregister_mr(MrSpec spec) = 0;
    // No access through the key after it returns; EBUSY while windows are bound to it.
    virtual Result<> deregister_mr(Key key) = 0;

    virtual Result<> allocate_mw(const MwSpec& spec) = 0;
    virtual void deallocate_mw(Key key) = 0;

    // Pages of a region with IBV_ACCESS_ON_DEMAND, from number `first` on; or the answer that there
    // are none, which the messages that wait for them fail by.
    virtual void map_pages(Key key, std::uint64_t first, std::span<const Iova> pages,
                           bool writable) = 0;
    virtual void refuse_pages(Key key, std::uint64_t first, std::uint64_t count) = 0;
    // No access to them after it returns. Leaves that lie in the range are freed.
    virtual void unmap_pages(Key key, std::uint64_t first, std::uint64_t count) = 0;

    virtual Result<> create_ah(const AhSpec& spec) = 0;
    virtual void destroy_ah(AhId id) = 0;

    virtual Result<> create_srq(const SrqSpec& spec) = 0;
    // Arms the limit event, or disarms it: 0.
    virtual Result<> modify_srq(Srqn id, std::uint32_t limit) = 0;
    // Takes WQEs from another ring, of so many places, from now on (see vrdma_cmd_resize_srq), and
    // arms the limit if there is one. EINVAL if more WQEs, or an armed limit, are left than places.
    virtual Result<> resize_srq(Srqn id, const Translation& pages, std::uint32_t depth,
                                std::optional<std::uint32_t> limit) = 0;
    virtual Result<std::uint32_t> query_srq(Srqn id) const = 0; // the limit
    virtual void destroy_srq(Srqn id) = 0;

    // Returns the doorbell slot.
    virtual Result<std::uint32_t> create_qp(const QpSpec& spec) = 0;
    // attr is validated; attr_mask says which fields count.
    virtual Result<> modify_qp(Qpn id, const vrdma_qp_attr& attr) = 0;
    // Everything that modify_qp sets, and the current state, which the slice itself may have moved
    // to SQE or ERR.
    virtual Result<vrdma_qp_attr> query_qp(Qpn id) const = 0;
    virtual void destroy_qp(Qpn id) = 0;

    // The QP is UD, and attached to that group not yet, or already. It is detached before it goes.
    virtual Result<> attach_multicast(Qpn id, const Gid& group) = 0;
    virtual void detach_multicast(Qpn id, const Gid& group) = 0;

    // Of the slices with a GID, this one's QP1 gets the requests for a service.
    virtual void listen(std::uint64_t service) = 0;
    virtual void unlisten(std::uint64_t service) = 0;

    // Pages that objects had and nobody uses any more are given back little by little: this is one
    // step. True: there is more to do.
    virtual bool give_back() { return false; }

    // What its poller has counted since it was carved.
    virtual vrdma_counters counters() const = 0;
    // Of one of its QPs, since that was made.
    virtual Result<vrdma_counters> qp_counters(Qpn id) const = 0;

    // What happens to the QPs that are bound to a set counts there, too. None is bound when the set
    // goes.
    virtual Result<> create_counter_set(CounterSetId id) = 0;
    virtual void destroy_counter_set(CounterSetId id) = 0;
    // From now on, and to none any more if it is none.
    virtual void bind_counter_set(Qpn qp, CounterSetId set) = 0;
    virtual Result<vrdma_counters> set_counters(CounterSetId id) const = 0;
    // Of all sets that there ever were.
    virtual vrdma_counters counters_of_sets() const = 0;

    // The device's clock, in ns. It goes on from another value only where a device is restored.
    virtual std::uint64_t clock() const = 0;
    virtual void set_clock(std::uint64_t now) = 0;

    // Between freeze and thaw the slice touches no guest memory and its state stands still. To its
    // peers it is like a port whose cable is out: they try again.
    virtual void freeze() = 0;
    // A frozen slice's peers find it where its state has gone, and not here, until it is thawed.
    virtual void give_way() = 0;
    // A step of it. True: there is more, before which no object is made or destroyed.
    virtual bool thaw() = 0;

    // Between freeze and thaw only; restore is for objects just created with the saved one's spec.
    virtual EqState save_eq(EqId id) const = 0;
    virtual CqState save_cq(Cqn id) const = 0;
    virtual SrqState save_srq(Srqn id) const = 0;
    virtual FastMrState save_fast_mr(Key key) const = 0;
    virtual std::vector<Iova> save_fast_pages(Key key) const = 0;
    virtual MwState save_mw(Key key) const = 0;
    virtual QpState save_qp(Qpn id) const = 0;
    virtual std::vector<vrdma_sge> save_held_receive(Qpn id) const = 0;
    virtual SavedConnection save_connection(Qpn id) const = 0;
    virtual Result<> restore_eq(EqId id, const EqState& state) = 0;
    virtual Result<> restore_cq(Cqn id, const CqState& state) = 0;
    virtual Result<> restore_srq(Srqn id, const SrqState& state) = 0;
    virtual Result<> restore_fast_mr(Key key, const FastMrState& state,
                                     std::span<const Iova> pages) = 0;
    // After its QP.
    virtual Result<> restore_mw(Key key, const MwState& state) = 0;
    virtual Result<> restore_qp(Qpn id, const QpState& state,
                                std::span<const vrdma_sge> held_receive) = 0;
    // After its QP.
    virtual Result<> restore_connection(Qpn id, const SavedConnection& connection) = 0;
};

class Hca {
  public:
    virtual ~Hca() = default;
    // ENODEV: there is no such uplink.
    virtual Result<std::unique_ptr<Slice>> carve(const SliceSpec& spec, SliceHost& host) = 0;
};

} // namespace vrdma::hca
