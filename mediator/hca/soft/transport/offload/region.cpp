// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/transport/offload/region.h"

#include <sys/mman.h>

#include "mediator/base/errno.h"

namespace vrdma::hca::soft::offload {
namespace {

// libibverbs registers adjacent memory only. This shows a guest's pages side by side, for as long
// as it takes to pin them: a second mapping of each run of pages.
class View {
  public:
    static Result<View> of(const GuestBuffer& pages, std::uint64_t length) {
        const std::uint64_t lead = lead_of(pages);
        const std::uint64_t size = (lead + length + VRDMA_PAGE_SIZE - 1) & ~page_mask;
        void* const room =
            ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED) {
            return fail_errno();
        }
        View view{static_cast<std::byte*>(room), size, lead};
        const auto filled = view.fill(pages, length);
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

    // Only shared mappings can be mapped a second time, and none of a device.
    Result<> fill(const GuestBuffer& pages, std::uint64_t length) {
        std::uint64_t place = 0; // in the view
        for (std::uint64_t offset = 0; offset < length;) {
            const auto run = pages.run(offset, length - offset);
            const std::uint64_t before = reinterpret_cast<std::uintptr_t>(run.data()) & page_mask;
            const std::uint64_t size = (before + run.size() + page_mask) & ~page_mask;
            if (::mremap(run.data() - before, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED,
                         room_ + place) == MAP_FAILED) {
                return fail(std::errc::operation_not_supported);
            }
            place += size;
            offset += run.size();
        }
        return {};
    }

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
                                               unsigned access) {
    const auto first = reinterpret_cast<std::uintptr_t>(pages.at(0));
    if (((first ^ spec.start) & (VRDMA_PAGE_SIZE - 1)) != 0) {
        return fail(std::errc::operation_not_supported);
    }
    if (const auto there = populate(pages, memory); !there) {
        return fail(there.error());
    }
    const auto whole = pages.run(0, spec.length);
    auto mr = [&]() -> Result<host::OwnedMr> {
        if (whole.size() == spec.length) {
            return host::register_memory(*pd, whole.data(), spec.length, spec.start, access);
        }
        const auto view = View::of(pages, spec.length);
        return view ? host::register_memory(*pd, view->begin(), spec.length, spec.start, access)
                    : fail(view.error());
    }();
    if (!mr) {
        return fail(mr.error());
    }
    return std::unique_ptr<Region>{new Region{std::move(pd), std::move(*mr)}};
}

} // namespace vrdma::hca::soft::offload
