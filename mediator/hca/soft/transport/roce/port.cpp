// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/roce/port.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

#include "mediator/base/memory_cost.h"
#include "mediator/hca/soft/common/hole_count.h"
#include "mediator/hca/soft/slice/engine.h"
#include "mediator/hca/soft/transport/opcode.h"
#include "mediator/hca/soft/transport/roce/acknowledge.h"
#include "mediator/hca/soft/transport/roce/datagram.h"
#include "mediator/hca/soft/transport/roce/path.h"
#include "mediator/hca/soft/transport/roce/recover.h"
#include "mediator/hca/soft/transport/roce/responder.h"
#include "mediator/wire/derived_mac.h"
#include "vrdma/roce.h"

namespace vrdma::hca::soft::roce {
namespace {

// The largest of IBA's five payload sizes whose frame fits.
std::uint32_t largest_mtu(std::size_t frame_size) noexcept {
    constexpr std::uint32_t largest = 4096;
    constexpr std::uint32_t smallest = 256;
    // IPv6, UDP, BTH, and the longest extended headers: XRCETH and AtomicETH; an ICRC.
    constexpr std::size_t headers = 14 + 4 + 40 + 8 + 12 + 4 + 28 + 4;
    std::uint32_t mtu = largest;
    while (mtu > smallest && mtu + headers > frame_size) {
        mtu /= 2;
    }
    return mtu;
}

bool is_response(std::uint8_t opcode) noexcept {
    const std::uint8_t operation = opcode & VRDMA_ROCE_OPERATION;
    return operation >= VRDMA_ROCE_READ_RESPONSE_FIRST &&
           operation <= VRDMA_ROCE_ATOMIC_ACKNOWLEDGE;
}

// Whether more packets of the same message follow.
bool precedes_others(std::uint8_t opcode) noexcept {
    switch (opcode & VRDMA_ROCE_OPERATION) {
        case VRDMA_ROCE_SEND_FIRST:
        case VRDMA_ROCE_SEND_MIDDLE:
        case VRDMA_ROCE_WRITE_FIRST:
        case VRDMA_ROCE_WRITE_MIDDLE:
        case VRDMA_ROCE_READ_RESPONSE_FIRST:
        case VRDMA_ROCE_READ_RESPONSE_MIDDLE:
            return (opcode & VRDMA_ROCE_TRANSPORT) != VRDMA_ROCE_UD && opcode != VRDMA_ROCE_CNP;
        default:
            return false;
    }
}

bool same(const Gid& gid, const std::uint8_t (&other)[16]) noexcept {
    return std::memcmp(gid.data(), other, sizeof(other)) == 0;
}

bool turns_around(const wire::Path& path) noexcept {
    return same_bytes(path.target_mac, LoopbackQueue::address);
}

// Whether the packet comes from the QP's peer, and was sent to the QP's own address.
bool is_from_peer(const QueuePair& qp, const wire::Packet& packet) noexcept {
    const GidKey* own = qp.slice.gid(qp.attr.av.sgid_index);
    return own != nullptr && *own == target_of(packet.path) &&
           same(packet.path.source, qp.attr.av.dgid);
}

bool is_for(const QueuePair& qp, const wire::Packet& packet) noexcept {
    const std::uint8_t opcode = packet.headers.opcode;
    return qp.connection != nullptr && qp.may_receive() &&
           (transport_of(qp.type) == (opcode & VRDMA_ROCE_TRANSPORT) || opcode == VRDMA_ROCE_CNP);
}

// Both versions of RoCE use the same entry.
GidKey neighbour_key(const Gid& gid, std::uint16_t vlan) noexcept {
    return {gid, VRDMA_GID_ROCE_V2, vlan};
}

bool is_marked(const wire::Path& path) noexcept {
    return (path.traffic_class & VRDMA_ECN) == VRDMA_ECN_CONGESTED &&
           path.type == wire::Encapsulation::roce_v2;
}

vrdma_counter counter_of_drop(wire::Drop drop) noexcept {
    return drop == wire::Drop::icrc ? VRDMA_COUNTER_BAD_ICRCS : VRDMA_COUNTER_MALFORMED_PACKETS;
}

// Records a frame that has come to the slice, if there is one.
void sniff(const SliceCore* slice, std::span<const std::byte> frame) noexcept {
    if (slice != nullptr && slice->sniffed()) {
        slice->sniffer()->record(frame, sniffer::Direction::received);
    }
}

} // namespace

Port::Port(Engine& engine, std::string name, std::unique_ptr<wire::Uplink> uplink,
           EventFd unknown_signal)
    : NetworkPort{largest_mtu(uplink->frame_size())},
      engine_{engine},
      name_{std::move(name)},
      uplink_{std::move(uplink)},
      unknown_signal_{std::move(unknown_signal)} {}

Port::~Port() {
    const auto& count = unclaimed().value;
    spdlog::debug(
        "uplink {}: packets for no device here: {} to unknown QPs, {} malformed, "
        "{} with a wrong ICRC, {} P_Key, {} source",
        name_, count[VRDMA_COUNTER_UNKNOWN_QPS], count[VRDMA_COUNTER_MALFORMED_PACKETS],
        count[VRDMA_COUNTER_BAD_ICRCS], count[VRDMA_COUNTER_BAD_PKEYS],
        count[VRDMA_COUNTER_WRONG_SOURCES]);
}

void Port::set_link(bool up, std::uint32_t mbps) noexcept {
    up_ = up;
    mbps_ = mbps != 0 ? mbps : mbps_;
    max_mtu_ = largest_mtu(uplink_->frame_size());
}

void Port::renew(std::unique_ptr<wire::Uplink>& uplink) {
    uplink_.swap(uplink);
    unflushed_ = grown_ = urgent_ = ended_ = false;
    served_join_ = 0;
    mbps_ = 0;
    neighbours_.clear();
    engine_.routes().changed();
    targets_to_offer_ = awaits_target_.size();
}

void Port::set_priorities(const wire::Priorities& priorities) noexcept {
    priorities_ = priorities;
    engine_.routes().changed(); // paths hold the old ones
}

std::unique_ptr<NetworkMember> Port::join(std::uint64_t device) {
    return std::make_unique<Member>(device);
}

void Port::leave(NetworkMember& left) noexcept {
    auto& member = static_cast<Member&>(left);
    answering_.remove(member);
    asking_.remove(member.questions);
}

Result<std::unique_ptr<NetworkConnection>> Port::connect(QueuePair& qp, const QpSpec& spec) {
    return spec.type != QpType::ud ? std::make_unique<Connection>(qp, *this, member_of(qp.slice))
                                   : nullptr;
}

std::uint64_t Port::connection_cost() const noexcept {
    return heap_cost<Connection>();
}

Ack Port::send_datagram(QueuePair& qp, const Request& request, const Route& route) noexcept {
    return roce::send_datagram(*this, qp, request, route);
}

std::span<std::byte> Port::room_for(const wire::Path& path) const noexcept {
    return turns_around(path) ? loopback_.prepare()
                              : uplink_->prepare(path.target_mac, path.priority);
}

std::optional<Draft> Port::draft(const wire::Path& path, std::uint8_t opcode,
                                 std::size_t payload_bytes) noexcept {
    std::span frame = room_for(path);
    if (frame.empty()) {
        return std::nullopt;
    }
    const std::size_t header = wire::header_size(path, opcode);
    bool special = engine_.sniffs();
    if (frame.size() < header + payload_bytes + wire::trailer_size(payload_bytes)) {
        frame = too_long_;
        special = true;
    }
    return Draft{frame, frame.subspan(header, payload_bytes), special};
}

// Returns whether the frame can be sent.
bool Port::send_specially(const SliceCore& slice, const Draft& draft, std::size_t bytes) noexcept {
    if (draft.frame.data() == too_long_.data()) {
        return false;
    }
    if (slice.sniffed()) {
        slice.sniffer()->record(draft.frame.first(bytes), sniffer::Direction::sent);
    }
    return true;
}

void Port::send(const SliceCore& slice, const Draft& draft, const wire::Path& path,
                const wire::Headers& headers) noexcept {
    const std::size_t bytes = writer_.finish(draft.frame, path, headers, draft.payload.size());
    spend(bytes, Account::packet_operations);
    if (draft.special && !send_specially(slice, draft, bytes)) {
        return;
    }
    if (turns_around(path)) {
        return loopback_.commit(bytes);
    }
    uplink_->commit(bytes);
    note_sent(path, headers.opcode);
}

void Port::note_sent(const wire::Path& path, std::uint8_t opcode) noexcept {
    const bool goes_on = precedes_others(opcode);
    urgent_ |= ended_ && !(goes_on && &path == last_path_);
    ended_ = !goes_on;
    last_path_ = &path;
    unflushed_ = grown_ = true;
}

// The packets of a QP's long messages may leave as few frames. A device's turn ends earlier, so
// they wait until the frames are full, but for no longer than a round brings more of them. The
// uplink itself sends full frames.
void Port::flush_in_time() noexcept {
    if (unflushed_ && (urgent_ || ended_ || !grown_)) {
        uplink_->flush();
        unflushed_ = urgent_ = ended_ = false;
    }
    grown_ = false;
}

void Port::await_room(Connection& c) noexcept {
    if (!c.awaits_room.linked) {
        awaits_room_.push_back(c);
    }
}

void Port::await_target(Connection& c) noexcept {
    if (!c.awaits_target.linked) {
        awaits_target_.push_back(c);
    }
}

void Port::answer_soon(Connection& c) noexcept {
    if (!c.answers.linked) {
        c.member.answers.push_back(c);
    }
    if (!c.member.answering.linked) {
        answering_.push_back(c.member);
    }
}

void Port::set_timer(Connection& c) noexcept {
    timers_.cancel(c);
    timers_.set(c, c.out.rto_deadline);
}

void Port::await_due(Connection& c, Clock::time_point due) noexcept {
    paced_.cancel(c.pacing);
    paced_.set(c.pacing, due);
}

void Port::forget(Connection& c) noexcept {
    timers_.cancel(c);
    paced_.cancel(c.pacing);
    c.member.answers.remove(c);
    awaits_room_.remove(c);
    awaits_target_.remove(c);
}

// Whether the path has the Ethernet address of its target, and that address is still valid.
bool Port::has_target(const wire::Path& path) const noexcept {
    if (turns_around(path)) {
        return engine_.routes().knows(target_of(path));
    }
    return !same_bytes(path.target_mac, wire::Mac{}) && uplink_->knows(path.target_mac);
}

bool Port::find_target(SliceCore& slice, wire::Path& path) noexcept {
    if (has_target(path)) {
        return true;
    }
    const auto* const found = neighbours_.find(neighbour_key(path.target, path.vlan.value_or(0)));
    if (found == nullptr || !uplink_->knows(*found)) {
        ask_for(member_of(slice).questions, path);
        return false;
    }
    path.target_mac = *found;
    return true;
}

void Port::look_again(Connection& c) noexcept {
    if (engine_.routes().knows(target_of(c.path))) {
        c.path.target_mac = LoopbackQueue::address;
    } else {
        std::ranges::copy(c.qp.attr.av.dmac, c.path.target_mac.begin());
    }
}

void Port::ask_for(Questions& questions, const wire::Path& path) noexcept {
    const std::uint16_t vlan = path.vlan.value_or(0);
    if (questions.contains(path.target, vlan)) {
        return;
    }
    if (questions.unknown.full()) {
        questions.unknown.pop_front();
    }
    questions.unknown.push_back({questions.device, path.source, path.target, vlan});
    if (!questions.asked.linked) {
        asking_.push_back(questions);
        unknown_signal_.signal();
    }
}

void Port::set_neighbour(const Gid& gid, const std::optional<wire::Mac>& mac, std::uint16_t vlan,
                         std::uint64_t device) {
    const GidKey key = neighbour_key(gid, vlan);
    const bool changed = mac ? neighbours_.set(device, key, *mac) : neighbours_.forget(device, key);
    if (changed) {
        engine_.routes().changed(); // paths hold the old address
    }
    targets_to_offer_ = awaits_target_.size();
    if (!asking_.empty()) {
        unknown_signal_.signal(); // there may be room for more questions now
    }
}

// The connections find out by themselves whether their target is known now.
void Port::offer_targets() noexcept {
    constexpr std::size_t most = 64; // before others have their turn
    for (std::size_t i = std::min(most, targets_to_offer_); i > 0; --i) {
        Connection* const c = awaits_target_.pop_front();
        if (c == nullptr) {
            targets_to_offer_ = 0;
            return;
        }
        --targets_to_offer_;
        engine_.scheduler().wake(c->qp);
        answer_soon(*c);
    }
}

// The slice of a packet is not known before the packet was looked at. So all packets together have
// the turns of two slices.
bool Port::in_turn() const noexcept {
    return cost_ < 2 * engine_.scheduler().turn();
}

template <Port::Sniffed sniffed>
bool Port::receive_some() noexcept {
    bool received = false;
    receiver_ = nullptr;
    for (cost_ = 0; in_turn();) {
        const std::span frame = uplink_->receive();
        if (frame.empty()) {
            break;
        }
        received = true;
        if constexpr (sniffed == Sniffed::yes) {
            sniff_arrival(frame);
        }
        if (receiver_ != nullptr && uplink_->resembles_last() ? take_next(frame)
                                                              : take(frame, Origin::network)) {
            served_join_ = 0; // also if the rest of the frame was dropped
            uplink_->release();
        }
    }
    return received;
}

// Records a frame for each slice that it is addressed to, also if it is going to be dropped. The
// rest of a frame to a group was recorded before.
void Port::sniff_arrival(std::span<const std::byte> frame) const noexcept {
    wire::Packet packet;
    const wire::Drop spoiled = wire::parse(frame, packet);
    if ((spoiled != wire::Drop::none && spoiled != wire::Drop::icrc) || served_join_ != 0) {
        return;
    }
    const bool datagram = (packet.headers.opcode & VRDMA_ROCE_TRANSPORT) == VRDMA_ROCE_UD;
    if (is_multicast(packet.path.target)) {
        sniff_arrival_of_group(frame, packet.path.target);
    } else {
        sniff(datagram ? find_receiver(*this, packet) : find_slice(packet), frame);
    }
}

void Port::sniff_arrival_of_group(std::span<const std::byte> frame,
                                  const Gid& group) const noexcept {
    const RoutingTable& routes = engine_.routes();
    std::uint64_t join = 0;
    while (const auto* const member = routes.next_member(group, join)) {
        join = member->join;
        sniff(member->slice->port() == this ? member->slice : nullptr, frame);
    }
}

bool Port::serve() noexcept {
    const bool received =
        engine_.sniffs() ? receive_some<Sniffed::yes>() : receive_some<Sniffed::no>();
    const bool turned = turn_around();
    const bool answered = answer_some();
    offer_room();
    offer_targets();
    flush_in_time();
    return received || turned || answered;
}

bool Port::turn_around() noexcept {
    const std::size_t frames = loopback_.size(); // they may cause more
    cost_ = 0;
    for (std::size_t i = 0; i < frames && in_turn(); ++i) {
        take(loopback_.front(), Origin::here);
        loopback_.release();
    }
    return frames != 0;
}

// Answers for one connection of each slice in turn.
bool Port::answer_some() noexcept {
    bool answered = false;
    cost_ = 0;
    constexpr unsigned most = 64; // some may have nothing to answer
    for (unsigned i = 0; i < most && !answering_.empty() && in_turn(); ++i) {
        Member* const member = answering_.pop_front();
        answer_next(*member);
        answered = true;
        if (!member->answers.empty() && !member->answering.linked) {
            answering_.push_back(*member);
        }
    }
    return answered;
}

void Port::answer_next(Member& member) noexcept {
    Connection* const c = member.answers.pop_front();
    if (c == nullptr) {
        return;
    }
    HoleCount holes;
    const bool more = answer(*c);
    bill_holes(c->qp.slice, holes);
    if (!more) {
        return;
    }
    if (has_room(*c)) {
        answer_soon(*c);
    } else {
        await_room(*c);
    }
}

bool Port::has_room(const Connection& c) const noexcept {
    return !room_for(c.path).empty();
}

// Connections may wait for different kinds of room.
void Port::offer_room() noexcept {
    constexpr std::size_t most = 16; // before others have their turn
    for (std::size_t i = std::min(most, awaits_room_.size()); i > 0; --i) {
        Connection& c = *awaits_room_.pop_front();
        if (has_room(c)) {
            engine_.scheduler().wake(c.qp);
            answer_soon(c);
        } else {
            await_room(c);
        }
    }
}

bool Port::has_room_to_offer() const noexcept {
    const Connection* c = awaits_room_.front();
    while (c != nullptr && uplink_->wakes_for_room() && !has_room(*c)) {
        c = awaits_room_.after(*c);
    }
    return c != nullptr;
}

// A look for room may find frames, and a look for frames may find room. So the uplink is asked last
// whether it found any.
bool Port::pending() const noexcept {
    return unflushed_ || !loopback_.empty() || !answering_.empty() || targets_to_offer_ != 0 ||
           has_room_to_offer() || !uplink_->receive().empty() || uplink_->restless();
}

void Port::expire(Clock::time_point now) noexcept {
    while (Connection* c = timers_.pop_due(now)) {
        roce::expire(*c, now);
    }
    while (const Pacing* pacing = paced_.pop_due(now)) {
        answer_soon(pacing->connection);
        engine_.scheduler().wake(pacing->connection.qp);
    }
}

// While messages come and go, a timer keeps its deadline: setting it costs more than a check when
// it expires.
void Port::settle_timers() noexcept {
    while (!timers_.empty()) {
        Connection& first = timers_.first();
        if (first.out.sent.empty()) {
            timers_.cancel(first);
        } else if (first.timer.deadline < first.out.rto_deadline) {
            set_timer(first);
        } else {
            return;
        }
    }
}

Clock::time_point Port::deadline() const noexcept {
    constexpr auto next = [](const auto& timers) {
        return timers.empty() ? Clock::time_point::max() : timers.next();
    };
    return std::min(next(timers_), next(paced_));
}

// Whether the packet claims to come from a device here, or from a group, to which the answers would
// go.
bool Port::is_forged(const wire::Path& path) const noexcept {
    return engine_.routes().knows(source_of(path)) || wire::is_group(path.source_mac);
}

bool Port::take(std::span<const std::byte> frame, Origin origin) noexcept {
    receiver_ = nullptr;
    spend(frame.size(), Account::packet_operations);
    const wire::Drop spoiled = reader_.parse(frame);
    return take_packet(spoiled, reader_.packet(), origin);
}

bool Port::take_packet(wire::Drop spoiled, const wire::Packet& packet, Origin origin) noexcept {
    if (spoiled == wire::Drop::other) {
        return true;
    }
    if (spoiled != wire::Drop::none) {
        drop(packet, counter_of_drop(spoiled));
    } else if (origin == Origin::network && is_forged(packet.path)) {
        drop(packet, VRDMA_COUNTER_WRONG_SOURCES);
    } else if ((packet.headers.opcode & VRDMA_ROCE_TRANSPORT) == VRDMA_ROCE_UD) {
        return receive_datagram(*this, packet, served_join_);
    } else {
        dispatch(packet, origin);
    }
    return true;
}

// Takes a frame that has the addresses of the one before, so it is for the same QP, if that has its
// number. Other QPs may be in between.
bool Port::take_next(std::span<const std::byte> frame) noexcept {
    QueuePair& last = *receiver_;
    spend(frame.size(), Account::packet_operations);
    const wire::Drop spoiled = reader_.parse_next(frame);
    const wire::Packet& packet = reader_.packet();
    const bool datagram = (packet.headers.opcode & VRDMA_ROCE_TRANSPORT) == VRDMA_ROCE_UD;
    if (spoiled == wire::Drop::none && !datagram && Qpn{packet.headers.target_qpn} == last.id) {
        deliver(last, packet, Origin::network);
        return true;
    }
    receiver_ = nullptr;
    return take_packet(spoiled, packet, Origin::network);
}

SliceCore* Port::find_slice(const wire::Packet& packet) const noexcept {
    SliceCore* const slice =
        engine_.routes().find(target_of(packet.path), Qpn{packet.headers.target_qpn}, nullptr);
    return slice != nullptr && slice->port() == this ? slice : nullptr;
}

// If a device has the interface's first address, peers use the present one, which the host's stack
// tells them.
bool Port::is_addressed(const SliceCore& slice, const wire::Packet& packet) const noexcept {
    const wire::Mac& mac = packet.path.target_mac;
    return !macs_ || same_bytes(mac, slice.mac()) ||
           (mac == macs_->now && slice.mac() == macs_->first);
}

bool Port::is_addressed_to_group(const wire::Packet& packet) const noexcept {
    return !macs_ || packet.path.target_mac == wire::derived_mac(packet.path.target);
}

void Port::drop(const wire::Packet& packet, vrdma_counter why) noexcept {
    SliceCore* const slice = find_slice(packet);
    if (slice == nullptr) {
        ++unclaimed_.value[why];
    } else if (QueuePair* const qp = slice->qp(Qpn{packet.headers.target_qpn})) {
        qp->count(why);
    } else {
        slice->count(why);
    }
}

void Port::dispatch(const wire::Packet& packet, Origin origin) noexcept {
    const SliceCore* const slice = find_slice(packet);
    QueuePair* const qp = slice != nullptr ? slice->qp(Qpn{packet.headers.target_qpn}) : nullptr;
    if (qp == nullptr || (origin == Origin::network && !is_addressed(*slice, packet))) {
        return drop(packet, VRDMA_COUNTER_UNKNOWN_QPS);
    }
    receiver_ = origin == Origin::network ? qp : nullptr;
    deliver(*qp, packet, origin);
}

void Port::deliver(QueuePair& qp, const wire::Packet& packet, Origin origin) noexcept {
    if (!share_partition(qp.pkey(), packet.headers.pkey)) {
        return qp.count(VRDMA_COUNTER_BAD_PKEYS);
    }
    if (!is_for(qp, packet)) {
        return qp.count(VRDMA_COUNTER_WRONG_STATES);
    }
    receive_connected(qp, packet, origin);
}

void Port::receive_connected(QueuePair& qp, const wire::Packet& packet, Origin origin) noexcept {
    const wire::Headers& headers = packet.headers;
    Connection& c = connection_of(qp);
    c.locate_peer();
    if (!is_from_peer(qp, packet) || (!c.leaves_host() && origin == Origin::network)) {
        return qp.count(VRDMA_COUNTER_WRONG_SOURCES);
    }
    qp.count(VRDMA_COUNTER_RX_PACKETS);
    qp.slice.account().bill_packet(packet.payload.size());
    if (headers.opcode == VRDMA_ROCE_CNP) { // its PSN has no meaning
        qp.count(VRDMA_COUNTER_HEEDED_NOTICES);
        return c.reaction.heed(engine_.now(), line_rate());
    }
    HoleCount holes;
    if (origin == Origin::here) {
        c.path.target_mac = LoopbackQueue::address;
        receive_from_peer(c, packet);
    } else if (find_target(qp.slice, c.path)) {
        receive_from_peer(c, packet);
    } else {
        const bool awaited = !is_response(headers.opcode) && headers.psn == c.in.expected;
        receive_by_its_way(c, packet, awaited);
    }
    bill_holes(qp.slice, holes);
}

void Port::bill_holes(SliceCore& slice, HoleCount& holes) noexcept {
    if (holes.any()) [[unlikely]] {
        const std::uint64_t met = holes.take();
        slice.account().bill_holes(met);
        spend(met * Account::hole_cost, 0);
    }
}

// The peer's Ethernet address is not known, so the answer goes to the sender of this packet. Only
// the expected PSN shows that this sender is the peer. A sender that could not know the PSN gets
// this answer, but nothing later.
void Port::receive_by_its_way(Connection& c, const wire::Packet& packet, bool awaited) noexcept {
    c.path.target_mac = packet.path.source_mac;
    receive_from_peer(c, packet);
    if (!awaited) {
        c.path.target_mac = {};
    }
}

void Port::receive_from_peer(Connection& c, const wire::Packet& packet) noexcept {
    if (is_marked(packet.path)) {
        c.qp.count(VRDMA_COUNTER_MARKED_PACKETS);
        notice(c);
    } else if (exceeds_pace(c)) {
        notice(c);
    }
    if (is_response(packet.headers.opcode)) {
        receive_response(c, packet);
    } else {
        receive_request(c, packet);
    }
}

} // namespace vrdma::hca::soft::roce
