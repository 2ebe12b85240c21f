// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/fabric_uplink.h"

#include <endian.h>
#include <net/ethernet.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cstring>

#include "mediator/wire/bytes.h"
#include "vrdma/roce.h"

namespace vrdma::wire::fabric {
namespace {

constexpr std::uint32_t news = Handover::max_peers; // in an event, instead of a peer's number
constexpr std::array<std::uint8_t, 2> prefix{0x02, 0x76};
constexpr unsigned peer_bits = 11;
constexpr std::uint32_t peer_mask = (1u << peer_bits) - 1;
constexpr std::uint32_t turn_mask = UINT32_MAX >> peer_bits;
static_assert(FabricUplink::nobody <= peer_mask);
constexpr std::size_t mac_size = std::tuple_size_v<Mac>;
constexpr std::size_t type_at = 2 * mac_size;
constexpr std::size_t network_at = type_at + sizeof(std::uint16_t);

bool is_group(const Mac& mac) noexcept {
    return (mac[0] & 1) != 0;
}

bool has_prefix(const Mac& mac) noexcept {
    return std::equal(prefix.begin(), prefix.end(), mac.begin());
}

std::uint32_t number_in(const Mac& mac) noexcept {
    std::uint32_t number = 0;
    std::memcpy(&number, mac.data() + prefix.size(), sizeof(number));
    return be32toh(number);
}

unsigned peer_of(const Mac& mac) noexcept {
    return number_in(mac) & peer_mask;
}

// The source address of a frame, which may contain anything. If the frame is too short, the rest
// stays zero, and no peer has such an address.
Gid source_of(std::span<const std::byte> frame) noexcept {
    Gid gid{};
    const auto copy = [&](auto to, std::size_t at) {
        if (frame.size() >= at + to.size()) {
            std::memcpy(to.data(), frame.data() + at, to.size());
        }
    };
    switch (be16toh(load<std::uint16_t>(frame, type_at))) {
        case ETHERTYPE_IP:
            std::ranges::copy(ipv4_prefix, gid.begin());
            copy(std::span{gid}.subspan(ipv4_prefix.size()),
                 network_at + offsetof(vrdma_ipv4, source));
            break;
        case ETHERTYPE_IPV6:
        case VRDMA_ROCE_ETHERTYPE:
            copy(std::span{gid}, network_at + offsetof(vrdma_grh, source));
            break;
        default:
            break;
    }
    return gid;
}

bool add(int epoll, int fd, std::uint32_t what) noexcept {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = what;
    return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

void insert(std::vector<unsigned>& list, bool& listed, unsigned peer) noexcept {
    if (!listed) {
        listed = true;
        list.push_back(peer); // room is reserved
    }
}

} // namespace

Mac mac_of(unsigned peer, std::uint32_t turn) noexcept {
    Mac mac{prefix[0], prefix[1]};
    const std::uint32_t number = htobe32((turn & turn_mask) << peer_bits | peer);
    std::memcpy(mac.data() + prefix.size(), &number, sizeof(number));
    return mac;
}

FabricUplink::~FabricUplink() = default;

Result<std::unique_ptr<FabricUplink>> FabricUplink::create(std::shared_ptr<Handover> handover) {
    UniqueFd epoll{::epoll_create1(EPOLL_CLOEXEC)};
    if (!epoll || !add(epoll.get(), handover->news_fd(), news)) {
        return fail_errno();
    }
    return std::unique_ptr<FabricUplink>{new FabricUplink{std::move(handover), std::move(epoll)}};
}

FabricUplink::FabricUplink(std::shared_ptr<Handover> handover, UniqueFd epoll)
    : handover_{std::move(handover)},
      epoll_{std::move(epoll)},
      peers_(Handover::max_peers),
      lost_{std::make_unique<Frame>()} {
    for (auto* list : {&unflushed_, &arrived_, &again_, &looking_at_}) {
        list->reserve(Handover::max_peers);
    }
}

bool FabricUplink::knows(const Mac& target) const noexcept {
    return is_group(target) || (has_prefix(target) && peer_of(target) <= nobody &&
                                target == present_mac_of(peer_of(target)));
}

std::size_t FabricUplink::copies(const Mac& target) const noexcept {
    return is_group(target) ? count_ : 1;
}

void FabricUplink::renew_mac_of(unsigned peer) noexcept {
    turns_[peer] = (turns_[peer] + 1) & turn_mask;
}

void FabricUplink::swap_gids(unsigned peer, std::vector<Gid>& gids) noexcept {
    peers_[peer].gids.swap(gids);
    peers_[peer].last.reset();
}

Connection* FabricUplink::connected(unsigned peer) noexcept {
    Connection* const connection = peer < count_ ? peers_[peer].connection.get() : nullptr;
    return connection != nullptr && !connection->failed() ? connection : nullptr;
}

std::span<std::byte> FabricUplink::prepare(const Mac& target, std::uint8_t /*priority*/) noexcept {
    sends_to_.reset();
    sends_to_all_ = is_group(target);
    const unsigned peer = peer_of(target);
    if (sends_to_all_ || !knows(target) || connected(peer) == nullptr) {
        return lost_->bytes;
    }
    sends_to_ = peer;
    return room_for(peer);
}

// A connection without room has polled its queue. Its fd may then report nothing until the
// connection is looked at. A failed connection is looked at as well.
std::span<std::byte> FabricUplink::room_for(unsigned peer) noexcept {
    Connection& connection = *peers_[peer].connection;
    const auto room = connection.prepare();
    notice_arrived(peer);
    if (room.empty() || connection.failed()) {
        insert(again_, peers_[peer].again, peer);
    }
    return room;
}

void FabricUplink::commit(std::size_t bytes) noexcept {
    if (sends_to_) {
        Peer& peer = peers_[*sends_to_];
        peer.connection->commit(bytes);
        insert(unflushed_, peer.unflushed, *sends_to_);
    } else if (sends_to_all_) {
        copy_to_all(bytes);
    }
}

// A peer without room misses the frame, as in any network.
void FabricUplink::copy_to_all(std::size_t bytes) noexcept {
    for (unsigned peer = 0; peer < count_; ++peer) {
        const auto room = connected(peer) != nullptr ? room_for(peer) : std::span<std::byte>{};
        if (!room.empty()) {
            std::memcpy(room.data(), lost_->bytes.data(), bytes);
            peers_[peer].connection->commit(bytes);
            insert(unflushed_, peers_[peer].unflushed, peer);
        }
    }
}

// If libfabric has sent half of a message, the fd tells when the rest can be sent. Nobody needs to
// look before.
void FabricUplink::flush() noexcept {
    for (const unsigned number : unflushed_) {
        Peer& peer = peers_[number];
        peer.unflushed = false;
        if (Connection* const connection = connected(number)) {
            connection->flush();
            if (connection->failed()) {
                insert(again_, peer.again, number);
            }
        }
    }
    unflushed_.clear();
}

std::span<const std::byte> FabricUplink::receive() noexcept {
    if (received_.empty() && arrived_.empty()) {
        look();
    }
    while (received_.empty() && !arrived_.empty()) {
        const unsigned number = arrived_.back();
        Peer& peer = peers_[number];
        Connection* const connection = connected(number);
        const auto frame = connection != nullptr ? connection->receive() : std::span<std::byte>{};
        if (frame.empty()) {
            peer.arrived = false;
            arrived_.pop_back();
            insert(again_, peer.again, number);
        } else if (admits(peer, frame)) {
            received_ = frame;
            received_from_ = number;
        } else {
            connection->release();
        }
    }
    return received_;
}

void FabricUplink::release() noexcept {
    peers_[received_from_].connection->release();
    received_ = {};
}

// A peer is identified by the number that the control thread gave it, whatever its frames say. It
// may send only from its own addresses.
bool FabricUplink::admits(Peer& peer, std::span<std::byte> frame) noexcept {
    const Gid source = source_of(frame);
    if (source != peer.last) {
        if (!std::ranges::binary_search(peer.gids, source)) {
            return false;
        }
        peer.last = source;
    }
    const auto number = static_cast<unsigned>(&peer - peers_.data());
    store(frame, mac_size, present_mac_of(number));
    return true;
}

void FabricUplink::notice_arrived(unsigned peer) noexcept {
    const Connection& connection = *peers_[peer].connection;
    handover_->tell_heard(peer, connection.heard());
    if (connection.has_arrived()) {
        insert(arrived_, peers_[peer].arrived, peer);
    }
}

// No frame is handed out at this time, so connections can end.
void FabricUplink::look() noexcept {
    constexpr int most = 64;
    std::array<epoll_event, most> events;
    const int ready = ::epoll_wait(epoll_.get(), events.data(), most, 0);
    found_ = false;
    looking_at_.swap(again_);
    for (const unsigned peer : looking_at_) {
        peers_[peer].again = false;
        look_at(peer);
    }
    looking_at_.clear();
    for (int i = 0; i < ready; ++i) {
        const std::uint32_t what = events[static_cast<std::size_t>(i)].data.u32;
        if (what == news) {
            handover_->take_news([this](unsigned peer, Handover::News what_is_new) {
                adopt(peer, std::move(what_is_new));
            });
        } else {
            look_at(what);
        }
    }
}

void FabricUplink::look_at(unsigned number) noexcept {
    constexpr int most = 4;
    Connection* const connection = peers_[number].connection.get();
    if (connection == nullptr) {
        return;
    }
    connection->send_sealed();
    bool quiet = false;
    for (int i = 0; i < most && !quiet && !connection->failed(); ++i) {
        const bool found = connection->poll();
        found_ |= found;
        quiet = !found && connection->quiet();
    }
    if (connection->failed()) {
        return part(number);
    }
    notice_arrived(number);
    if (!quiet) {
        insert(again_, peers_[number].again, number);
    }
}

void FabricUplink::adopt(unsigned number, Handover::News what) noexcept {
    Peer& peer = peers_[number];
    if (what.connection != nullptr || what.withdrawn) {
        part(number);
    }
    if (what.connection != nullptr) {
        count_ = std::max(count_, number + 1);
        peer.connection = std::move(what.connection);
        if (!add(epoll_.get(), peer.connection->fd(), number)) {
            peer.connection->fail();
        }
        insert(again_, peer.again, number);
    }
    if (what.say_alive && connected(number) != nullptr) {
        peer.connection->say_alive(); // this may look for room
        insert(again_, peer.again, number);
    }
}

void FabricUplink::part(unsigned number) noexcept {
    Peer& peer = peers_[number];
    if (peer.connection != nullptr) {
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.connection->fd(), nullptr);
        handover_->hand_back(number, std::move(peer.connection));
        peer.last.reset();
    }
}

} // namespace vrdma::wire::fabric
