// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The uplink of hosts without RoCE between them: a switch whose cables are connections of
// libfabric. Each peer has a MAC that we choose. The control thread returns it when an address of
// the peer is looked up, so a frame's destination says which peer it is for. When an address moves
// to another peer, the peer that had it gets another MAC, and a sender that has the old one looks
// the address up again. Frames for a peer that is not connected are lost. If a peer takes no more
// frames, only frames to that peer wait.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "mediator/base/unique_fd.h"
#include "mediator/wire/fabric/handover.h"
#include "mediator/wire/uplink.h"

namespace vrdma::wire::fabric {

// A locally administered MAC: 02:76, the turn and the peer's number.
Mac mac_of(unsigned peer, std::uint32_t turn = 0) noexcept;

class FabricUplink final : public Uplink {
  public:
    static Result<std::unique_ptr<FabricUplink>> create(std::shared_ptr<Handover> handover);
    FabricUplink(const FabricUplink&) = delete;
    FabricUplink& operator=(const FabricUplink&) = delete;
    ~FabricUplink() override;

    std::span<std::byte> prepare(const Mac& target, std::uint8_t priority) noexcept override;
    void commit(std::size_t bytes) noexcept override;
    void flush() noexcept override;
    std::span<const std::byte> receive() noexcept override;
    void release() noexcept override;
    int fd() const noexcept override { return epoll_.get(); }
    void woken() noexcept override {}
    std::size_t frame_size() const noexcept override { return max_frame_size; }
    bool knows(const Mac& target) const noexcept override;
    std::size_t copies(const Mac& target) const noexcept override;
    bool wakes_for_room() const noexcept override { return true; }
    bool restless() const noexcept override {
        return found_ || !again_.empty() || !arrived_.empty();
    }

    // The number that stands for the owner of addresses that no peer has.
    static constexpr unsigned nobody = Handover::max_peers;
    Mac present_mac_of(unsigned peer) const noexcept { return mac_of(peer, turns_[peer]); }
    void renew_mac_of(unsigned peer) noexcept;
    // Sets the addresses from which the peer may send, in order. `gids` gets the previous ones.
    void swap_gids(unsigned peer, std::vector<Gid>& gids) noexcept;

  private:
    struct Peer {
        std::vector<Gid> gids;
        std::unique_ptr<Connection> connection;
        std::optional<Gid> last; // the source of its last frame
        bool unflushed = false;
        bool arrived = false;
        bool again = false;
    };

    FabricUplink(std::shared_ptr<Handover> handover, UniqueFd epoll);

    Connection* connected(unsigned peer) noexcept;
    std::span<std::byte> room_for(unsigned peer) noexcept;
    void look() noexcept;
    void look_at(unsigned peer) noexcept;
    void adopt(unsigned peer, Handover::News news) noexcept;
    void part(unsigned peer) noexcept;
    bool admits(Peer& peer, std::span<std::byte> frame) noexcept;
    void notice_arrived(unsigned peer) noexcept;
    void copy_to_all(std::size_t bytes) noexcept;

    std::shared_ptr<Handover> handover_;
    UniqueFd epoll_;
    std::vector<Peer> peers_;
    std::array<std::uint32_t, nobody + 1> turns_{}; // of the peers' MACs, and of nobody's
    unsigned count_ = 0; // one more than the highest peer that ever had a connection
    // Peers that have something to be flushed, to be received, or to be looked at although no fd
    // says so. Each vector has room for all peers.
    std::vector<unsigned> unflushed_;
    std::vector<unsigned> arrived_;
    std::vector<unsigned> again_;
    std::vector<unsigned> looking_at_;
    bool found_ = false; // the last look has found something

    std::optional<unsigned> sends_to_; // the peer of the frame that was prepared
    bool sends_to_all_ = false;
    std::span<const std::byte> received_; // the frame that receive() has returned
    unsigned received_from_ = 0;
    struct alignas(64) Frame {
        std::array<std::byte, max_frame_size> bytes;
    };
    std::unique_ptr<Frame> lost_; // for frames to nobody, or to all
};

} // namespace vrdma::wire::fabric
