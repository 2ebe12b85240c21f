// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Guest memory that a client shares as files: each DMA map is a shared mapping of one at its place
// in the window. The client may do to its files what it likes; see fault_guard.h.
//
// What a file of tmpfs does not have is made when the device touches it, and charged to us. So the
// device has an allowance of such pages. Beyond it holes are missing memory like any other, and so
// are they in a file that cannot be written. Huge pages are of a pool, and are not counted.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>

#include "mediator/base/inheriting_mutex.h"
#include "mediator/base/unique_fd.h"
#include "mediator/frontend/vfio_user/hole_account.h"
#include "mediator/frontend/vfio_user/reservation.h"
#include "mediator/memory/fault_guard.h"
#include "mediator/memory/file_holes.h"
#include "mediator/memory/guest_memory.h"

namespace vrdma::vfio_user {

class ClientMemory final : public GuestMemory, private FaultGuard::Filler {
  public:
    // What a client can take of the mediator's mappings at most; see map_share.h.
    static constexpr std::size_t max_maps = 4096;
    static constexpr std::uint64_t any_holes = ~std::uint64_t{0};

    // The eventfd is signalled when more is missing than scratch pages are put for: then the device
    // sees scratch memory only, until renew(). And when somebody had to wait for the memory, or
    // when the allowance of holes, in bytes, is used up.
    static Result<std::unique_ptr<ClientMemory>> create(std::uint64_t size, int alarm = -1,
                                                        std::size_t most_maps = max_maps,
                                                        std::uint64_t most_holes = any_holes);
    ClientMemory(const ClientMemory&) = delete;
    ClientMemory& operator=(const ClientMemory&) = delete;
    ~ClientMemory() override;

    // protection: PROT_READ, PROT_WRITE or both. Memory without a file is the client's alone: the
    // device meets scratch pages there.
    Result<> map(Iova iova, std::uint64_t length, UniqueFd file, std::uint64_t offset,
                 int protection);
    // Of exactly what was mapped. After it nobody touches the memory.
    Result<> unmap(Iova iova, std::uint64_t length);
    void unmap_all();
    std::size_t most_maps() const noexcept { return most_maps_; }

    // Costs nothing where no scratch page stands in the range.
    void release(Iova iova, std::uint64_t length) noexcept override;
    void renew() noexcept override;
    bool overwhelmed() const noexcept { return guard_.overwhelmed(); }
    // For how long that was, since the last call.
    std::chrono::nanoseconds take_cost() noexcept { return guard_.take_cost(); }
    // Whether holes were refused since the last call.
    bool take_refusal() noexcept { return refused_.exchange(false); }

  private:
    using Clock = std::chrono::steady_clock;
    using File = HoleAccount::Files::iterator;

    struct Map {
        std::uint64_t length;
        UniqueFd file; // or none
        std::uint64_t offset;
        int protection;
        std::uint64_t page;          // bytes: a mapping of huge pages is cut between them
        std::optional<File> holes{}; // if they are watched
    };

    ClientMemory(Reservation reservation, std::uint64_t size, FaultGuard guard, int alarm,
                 std::size_t most_maps, std::uint64_t most_holes);

    // A hole that somebody touches. While pages are there to be made, it is filled.
    bool fill(std::byte* address) noexcept override;
    bool has_room() noexcept;
    void refuse() noexcept;
    bool is_lost(const std::byte* page) noexcept;
    const Map* find(const std::byte* address) const noexcept;
    void close_holes(Map& map) noexcept;
    void blame_since(Clock::time_point begin) noexcept;

    bool overlaps(Iova iova, std::uint64_t length) const;
    // Of a map, the bytes [begin, end) after its start.
    Result<> show(Iova iova, const Map& map, std::uint64_t begin, std::uint64_t end) const noexcept;
    void show_again(Iova iova, const Map& map, std::uint64_t begin,
                    std::uint64_t end) const noexcept;
    void give_up_pages(Iova iova, std::uint64_t length) const noexcept;
    bool hide(Iova iova, std::uint64_t length) const noexcept;
    // In pieces.
    bool hide_all(Iova iova, std::uint64_t length) const noexcept;
    // What is behind a scratch page, if anything, is to be seen again.
    bool uncover(const ScratchPages::Page& page) const noexcept;
    void forget_scratch(Iova iova, std::uint64_t length) noexcept;

    Reservation reservation_;
    FaultGuard guard_;
    const int alarm_;
    const std::size_t most_maps_;
    std::optional<FileHoles> watched_;
    std::atomic<bool> refused_{false};
    // maps_ and account_: pollers look there after a fault, the control thread changes them. While
    // it is held, what is shown changes in one place, or in as many as there are scratch pages; all
    // of it only while no poller looks. Nobody who holds it touches the memory.
    InheritingMutex lock_;
    std::map<Iova, Map> maps_;
    HoleAccount account_;
    Clock::time_point counted_{};      // when files were looked at last
    const std::byte* there_ = nullptr; // a page that was there, and yet could not be touched
    int times_ = 0;                    // so often in a row
};

} // namespace vrdma::vfio_user
