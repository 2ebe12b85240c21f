// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/offload/region.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "mediator/base/errno.h"
#include "mediator/memory/shared_words.h"

namespace vrdma::hca::soft::offload {
namespace {

// libibverbs registers adjacent memory only, which the kernel can pin. This shows a guest's pages
// side by side in such memory, for as long as it takes to pin them: a second mapping of each run of
// pages.
class View {
  public:
    static Result<View> of(const GuestBuffer& pages, std::uint64_t length, GuestMemory& memory) {
        const std::uint64_t lead = lead_of(pages);
        const std::uint64_t size = (lead + length + VRDMA_PAGE_SIZE - 1) & ~page_mask;
        void* const room =
            ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED) {
            return fail_errno();
        }
        View view{static_cast<std::byte*>(room), size, lead};
        const auto filled = view.fill(pages, length, memory);
        return filled ? Result<View>{std::move(view)} : fail(filled.error());
    }
    View(View&& other) noexcept
        : room_{std::exchange(other.room_, nullptr)}, size_{other.size_}, lead_{other.lead_} {}
    View(const View&) = delete;
    View& operator=(const View&) = delete;
    View& operator=(View&&) = delete;
    ~View() {
        if (room_ != nullptr) {
            ::munmap(room_, size_);
        }
    }

    std::byte* begin() const noexcept { return room_ + lead_; }

  private:
    static constexpr std::uint64_t page_mask = VRDMA_PAGE_SIZE - 1;

    View(std::byte* room, std::uint64_t size, std::uint64_t lead)
        : room_{room}, size_{size}, lead_{lead} {}

    static std::uint64_t lead_of(const GuestBuffer& pages) {
        return reinterpret_cast<std::uintptr_t>(pages.at(0)) & page_mask;
    }

    Result<> fill(const GuestBuffer& pages, std::uint64_t length, GuestMemory& memory) {
        std::uint64_t place = 0; // in the view
        for (std::uint64_t offset = 0; offset < length;) {
            const auto run = pages.run(offset, length - offset);
            const std::uint64_t start =
                static_cast<std::uint64_t>(run.data() - memory.at(Iova{0}, 0));
            const std::uint64_t begin = start & ~page_mask;
            const std::uint64_t end = (start + run.size() + page_mask) & ~page_mask;
            if (const auto shown = show(begin, end, place, memory); !shown) {
                return shown;
            }
            place += end - begin;
            offset += run.size();
        }
        return {};
    }

    Result<> show(std::uint64_t begin, std::uint64_t end, std::uint64_t place,
                  GuestMemory& memory) {
        while (begin != end) {
            const auto mapped = memory.map_again(Iova{begin}, end - begin, room_ + place);
            if (mapped) {
                begin += *mapped;
                place += *mapped;
            } else if (mapped.error() == std::errc::resource_unavailable_try_again &&
                       patience_ != 0) {
                --patience_;
                std::this_thread::sleep_for(moment);
            } else {
                return fail(mapped.error());
            }
        }
        return {};
    }

    // A VM monitor is soon done with its mappings, but no other device waits for one that is not.
    static constexpr std::chrono::milliseconds moment{1};
    unsigned patience_ = 50;
    std::byte* room_;
    std::uint64_t size_;
    std::uint64_t lead_; // bytes of the first page before the buffer
};

// The kernel does not wait for a guest's page, so all of them must be there.
Result<> populate(const GuestBuffer& pages, GuestMemory& memory) {
    for (std::uint64_t offset = 0; offset < pages.length();) {
        if (const auto there = pages.populate(memory, offset, UINT64_MAX); !there) {
            return there;
        }
    }
    return {};
}

} // namespace

Result<std::unique_ptr<Region>> Region::create(SharedPd pd, GuestMemory& memory,
                                               const GuestBuffer& pages, const MrSpec& spec,
                                               unsigned access, Regions& among) {
    const auto first = reinterpret_cast<std::uintptr_t>(pages.at(0));
    if (((first ^ spec.start) & (VRDMA_PAGE_SIZE - 1)) != 0) {
        return fail(std::errc::operation_not_supported);
    }
    if (const auto there = populate(pages, memory); !there) {
        return fail(there.error());
    }
    auto mr = [&]() -> Result<host::OwnedMr> {
        const auto whole = pages.run(0, spec.length);
        if (whole.size() == spec.length && memory.can_be_pinned()) {
            return host::register_memory(*pd, whole.data(), spec.length, spec.start, access);
        }
        const auto view = View::of(pages, spec.length, memory);
        return view ? host::register_memory(*pd, view->begin(), spec.length, spec.start, access)
                    : fail(view.error());
    }();
    if (!mr) {
        return fail(mr.error());
    }
    return std::unique_ptr<Region>{new Region{among, std::move(pd), std::move(*mr), pages,
                                              (access & IBV_ACCESS_LOCAL_WRITE) != 0}};
}

void Region::end() {
    mr_.reset();
    note_writes();
}

void Region::note_writes() const noexcept {
    for (std::uint64_t offset = 0; writable_ && offset < pages_.length();) {
        const auto piece = pages_.run(offset, VRDMA_PAGE_SIZE);
        const auto place = reinterpret_cast<std::uintptr_t>(piece.data()) & (VRDMA_PAGE_SIZE - 1);
        store_same(piece.front());
        offset += std::min<std::uint64_t>(piece.size(), VRDMA_PAGE_SIZE - place);
    }
}

bool Region::is_in(Iova first, std::uint64_t length) const {
    const Translation blocks = pages_.pages();
    const std::uint64_t block = std::uint64_t{1} << blocks.block_shift;
    return std::ranges::any_of(blocks.blocks, [&](Iova iova) {
        return raw(iova) < raw(first) + length && raw(first) < raw(iova) + block;
    });
}

} // namespace vrdma::hca::soft::offload
