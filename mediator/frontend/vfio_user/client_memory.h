// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Guest memory that a client shares as files: each DMA map is a shared mapping of one at its place
// in the window. The client may do to its files what it likes; see fault_guard.h.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "mediator/base/unique_fd.h"
#include "mediator/memory/fault_guard.h"
#include "mediator/memory/guest_memory.h"

namespace vrdma::vfio_user {

class ClientMemory final : public GuestMemory {
  public:
    // Bounds what a client can take of the mediator's mappings (vm.max_map_count).
    static constexpr std::size_t max_maps = 4096;

    static Result<std::unique_ptr<ClientMemory>> create(std::uint64_t size);
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

    void release(Iova iova, std::uint64_t length) noexcept override;

  private:
    struct Map {
        std::uint64_t length;
        UniqueFd file; // or none
        std::uint64_t offset;
        int protection;
        std::uint64_t page; // bytes: a mapping of huge pages is cut between them
    };

    ClientMemory(std::byte* base, std::uint64_t size, FaultGuard guard)
        : GuestMemory{base, size, &guard.faults()}, guard_{std::move(guard)} {}

    bool overlaps(Iova iova, std::uint64_t length) const;
    // Of a map, the bytes [begin, end) after its start.
    bool show(Iova iova, const Map& map, std::uint64_t begin, std::uint64_t end) const noexcept;
    void show_again(Iova iova, const Map& map, std::uint64_t begin,
                    std::uint64_t end) const noexcept;
    bool hide(Iova iova, std::uint64_t length) const noexcept;

    FaultGuard guard_;
    std::mutex lock_; // maps_: pollers look there after a fault
    std::map<Iova, Map> maps_;
};

} // namespace vrdma::vfio_user
