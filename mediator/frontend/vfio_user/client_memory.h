// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Guest memory that a client shares as files. Each DMA map is a shared mapping of a file at its
// place in the window. The client may change its files at any time; see fault_guard.h.
//
// When the device touches a hole in a file of tmpfs, the kernel makes the page and charges it to
// vrdmad. So the device has an allowance of such pages. Beyond it, holes are missing memory like
// any other. Holes in a file that cannot be written are missing memory from the start. Huge pages
// come from a pool and are not counted.
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
    // The most mappings of the mediator that a client can take; see map_share.h.
    static constexpr std::size_t max_maps = 4096;
    static constexpr std::uint64_t any_holes = ~std::uint64_t{0};

    // `alarm` is an eventfd. It is signalled when more pages are missing than there can be scratch
    // pages; the device then sees only scratch memory until renew(). It is also signalled when a
    // thread had to wait for the memory, and when the allowance of holes, `most_holes` in bytes, is
    // used up.
    static Result<std::unique_ptr<ClientMemory>> create(std::uint64_t size, int alarm = -1,
                                                        std::size_t most_maps = max_maps,
                                                        std::uint64_t most_holes = any_holes);
    ClientMemory(const ClientMemory&) = delete;
    ClientMemory& operator=(const ClientMemory&) = delete;
    ~ClientMemory() override;

    // protection: PROT_READ, PROT_WRITE or both. Only the client has memory without a file, and the
    // device finds scratch pages there.
    Result<> map(Iova iova, std::uint64_t length, UniqueFd file, std::uint64_t offset,
                 int protection);
    // The range must be exactly that of a map(). After this, nobody touches the memory.
    Result<> unmap(Iova iova, std::uint64_t length);
    // Unmaps all maps of a range, which may have none. The range must not cut one.
    Result<> unmap_range(Iova iova, std::uint64_t length);
    void unmap_all();
    std::size_t most_maps() const noexcept { return most_maps_; }

    // Costs nothing if there is no scratch page in the range.
    void release(Iova iova, std::uint64_t length) noexcept override;
    void renew() noexcept override;
    // Ends with the map that has the first page.
    Result<std::uint64_t> map_again(Iova iova, std::uint64_t length, std::byte* place) override;
    bool overwhelmed() const noexcept { return guard_.overwhelmed(); }
    // How long threads have waited for the memory since the last call.
    std::chrono::nanoseconds take_cost() noexcept { return guard_.take_cost(); }
    std::chrono::nanoseconds cost() const noexcept { return guard_.cost(); }
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

    // Is called when a thread touches a hole. Fills it while the allowance lasts.
    bool fill(std::byte* address) noexcept override;
    bool has_room() noexcept;
    void refuse() noexcept;
    bool is_lost(const std::byte* page) noexcept;
    const Map* find(const std::byte* address) const noexcept;
    void close_holes(Map& map) noexcept;
    void blame_since(Clock::time_point begin) noexcept;

    bool overlaps(Iova iova, std::uint64_t length) const;
    // Maps the bytes [begin, end) of a map, counted from its start.
    Result<> show(Iova iova, const Map& map, std::uint64_t begin, std::uint64_t end) const noexcept;
    void show_again(Iova iova, const Map& map, std::uint64_t begin,
                    std::uint64_t end) const noexcept;
    void give_up_pages(Iova iova, std::uint64_t length) const noexcept;
    bool hide(Iova iova, std::uint64_t length) const noexcept;
    // Like hide(), in pieces.
    bool hide_all(Iova iova, std::uint64_t length) const noexcept;
    // Takes a scratch page away, and shows the memory behind it, if there is any.
    bool uncover(const ScratchPages::Page& page) const noexcept;
    void forget_scratch(Iova iova, std::uint64_t length) noexcept;

    Reservation reservation_;
    FaultGuard guard_;
    const int alarm_;
    const std::size_t most_maps_;
    std::optional<FileHoles> watched_;
    std::atomic<bool> refused_{false};
    // Guards maps_ and account_. Pollers read them after a fault, and the control thread changes
    // them. A holder changes the mappings of one place, or of as many as there are scratch pages.
    // It changes all mappings only while no poller uses the memory. No holder touches the memory.
    InheritingMutex lock_;
    std::map<Iova, Map> maps_;
    HoleAccount account_;
    Clock::time_point counted_{};      // when the files' pages were counted last
    const std::byte* there_ = nullptr; // a page that exists, and yet its touch faulted
    int times_ = 0;                    // this often in a row
};

} // namespace vrdma::vfio_user
