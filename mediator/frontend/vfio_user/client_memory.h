// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Guest memory that a client shares as files: each DMA map is a shared mapping of one at its place
// in the window. The client may do to its files what it likes; see fault_guard.h.
#pragma once

#include <map>
#include <memory>

#include "mediator/base/inheriting_mutex.h"
#include "mediator/base/unique_fd.h"
#include "mediator/frontend/vfio_user/reservation.h"
#include "mediator/memory/fault_guard.h"
#include "mediator/memory/guest_memory.h"

namespace vrdma::vfio_user {

class ClientMemory final : public GuestMemory {
  public:
    // What a client can take of the mediator's mappings at most; see map_share.h.
    static constexpr std::size_t max_maps = 4096;

    // The eventfd is signalled when more is missing than scratch pages are put for: then the device
    // sees scratch memory only, until renew(). And when somebody had to wait for the memory.
    static Result<std::unique_ptr<ClientMemory>> create(std::uint64_t size, int alarm = -1,
                                                        std::size_t most_maps = max_maps);
    ClientMemory(const ClientMemory&) = delete;
    ClientMemory& operator=(const ClientMemory&) = delete;
    ~ClientMemory() override = default;

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

  private:
    struct Map {
        std::uint64_t length;
        UniqueFd file; // or none
        std::uint64_t offset;
        int protection;
        std::uint64_t page; // bytes: a mapping of huge pages is cut between them
    };

    ClientMemory(Reservation reservation, std::uint64_t size, FaultGuard guard,
                 std::size_t most_maps)
        : GuestMemory{reservation.base(), size, &guard.faults()},
          reservation_{std::move(reservation)},
          guard_{std::move(guard)},
          most_maps_{most_maps} {}

    bool overlaps(Iova iova, std::uint64_t length) const;
    // Of a map, the bytes [begin, end) after its start.
    bool show(Iova iova, const Map& map, std::uint64_t begin, std::uint64_t end) const noexcept;
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
    const std::size_t most_maps_;
    // maps_: pollers look there after a fault, the control thread changes them. While it is held,
    // what is shown changes in one place, or in as many as there are scratch pages; all of it only
    // while no poller looks.
    InheritingMutex lock_;
    std::map<Iova, Map> maps_;
};

} // namespace vrdma::vfio_user
