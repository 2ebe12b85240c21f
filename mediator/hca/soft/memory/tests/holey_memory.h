// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Guest memory with holes. An access to a hole makes a page.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "mediator/base/mapping.h"
#include "mediator/memory/fault_guard.h"
#include "mediator/memory/file_holes.h"
#include "mediator/memory/guest_memory.h"

namespace vrdma::test {

// A memory file whose holes are filled on access, or count as missing memory.
class HoleyMemory final : public GuestMemory, public FaultGuard::Filler {
  public:
    static constexpr std::uint64_t length = 1 << 30;
    static constexpr std::uint64_t page = FileHoles::page_size;

    static std::unique_ptr<HoleyMemory> create() {
        UniqueFd file{::memfd_create("holey", MFD_CLOEXEC)};
        EXPECT_EQ(::ftruncate(file.get(), length), 0);
        auto mapping = *Mapping::map(file.get(), 0, length, PROT_READ | PROT_WRITE);
        auto guard = *FaultGuard::create(mapping.data(), length);
        return std::unique_ptr<HoleyMemory>{
            new HoleyMemory{std::move(file), std::move(mapping), std::move(guard)}};
    }
    HoleyMemory(const HoleyMemory&) = delete;
    HoleyMemory& operator=(const HoleyMemory&) = delete;
    ~HoleyMemory() override { guard_.fill_by(nullptr); }

    void release(Iova iova, std::uint64_t size) noexcept override {
        std::byte* const begin = at(iova, size);
        guard_.scratch().take_away(begin, begin + size, [this](const ScratchPages::Page& scratch) {
            show(scratch.start, scratch.size());
            return true;
        });
    }

    bool fill(std::byte* address) noexcept override {
        const auto offset = reinterpret_cast<std::uintptr_t>(address) % page;
        return fills && holes_.make(address - offset) == 0;
    }

    bool fills = true;

  private:
    HoleyMemory(UniqueFd file, Mapping mapping, FaultGuard guard)
        : GuestMemory{mapping.data(), length, &guard.faults()},
          file_{std::move(file)},
          mapping_{std::move(mapping)},
          guard_{std::move(guard)} {
        show(mapping_.data(), length);
        guard_.fill_by(this);
    }
    void show(std::byte* start, std::uint64_t size) {
        EXPECT_NE(::mmap(start, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_.get(),
                         start - mapping_.data()),
                  MAP_FAILED);
        EXPECT_TRUE(holes_.watch(start, size));
    }

    UniqueFd file_;
    Mapping mapping_;
    FaultGuard guard_;
    FileHoles holes_ = *FileHoles::open();
};

} // namespace vrdma::test
