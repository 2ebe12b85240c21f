// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The memory of a slice: regions, windows, and pages on demand.
#include "mediator/hca/soft/qp/memory_keys.h"
#include "mediator/hca/soft/soft_slice.h"

namespace vrdma::hca::soft {
namespace {

Result<std::unique_ptr<MemoryRegion>> make_region(const GuestMemory& memory, MrSpec spec) {
    auto region = std::make_unique<MemoryRegion>();
    region->key = spec.key;
    region->pd = spec.pd;
    region->start = spec.start;
    region->length = spec.length;
    region->access_flags = spec.access_flags | MemoryRegion::local_read;
    region->dma = spec.dma;
    if (spec.fast_pages != 0) {
        region->kind = KeyKind::fast_region;
        region->valid = false;
        region->pages = GuestBuffer::reserve(memory, spec.fast_pages);
    } else if ((spec.access_flags & IBV_ACCESS_ON_DEMAND) != 0) {
        region->on_demand = std::make_unique<SparsePages>(memory, spec.pages.first_offset);
    } else if (!spec.dma && spec.length != 0) {
        auto pages = GuestBuffer::map(memory, std::move(spec.pages));
        if (!pages) {
            return fail(pages.error());
        }
        if (pages->length() < spec.length) {
            return fail(std::errc::invalid_argument);
        }
        region->pages = std::move(*pages);
    }
    return region;
}

// Whether it has pages of its own for as long as it lives.
bool has_own_pages(const MrSpec& spec) {
    return !spec.dma && spec.fast_pages == 0 && spec.length != 0 &&
           (spec.access_flags & IBV_ACCESS_ON_DEMAND) == 0;
}

} // namespace

bool SoftSlice::chooses_names() const {
    return core_->member() != nullptr && core_->member()->chooses_names();
}

Result<std::optional<Key>> SoftSlice::name_mr(const MrSpec& spec) {
    if (!chooses_names() || !has_own_pages(spec)) {
        return std::nullopt;
    }
    const auto pages = GuestBuffer::map(core_->memory(), spec.pages);
    if (!pages) {
        return fail(pages.error());
    }
    return core_->member()->name_region(spec, *pages, core_->memory());
}

// Hardware knows no pages that come and go.
Result<> SoftSlice::give_to_network(const MrSpec& spec, MemoryRegion& region) {
    if (!chooses_names() || !has_own_pages(spec)) {
        return chooses_names() && region.on_demand != nullptr
                   ? fail(std::errc::operation_not_supported)
                   : Result<>{};
    }
    auto known = core_->member()->register_region(spec, region.pages, core_->memory());
    if (!known) {
        return fail(known.error());
    }
    region.on_network = std::move(*known);
    return {};
}

Result<> SoftSlice::register_mr(MrSpec spec) {
    auto region = make_region(core_->memory(), spec);
    if (!region) {
        return fail(region.error());
    }
    if (const auto given = give_to_network(spec, **region); !given) {
        return given;
    }
    return on_poller([&](SliceCore& core) { return core.gate().insert(std::move(*region)); });
}

Result<> SoftSlice::reregister_mr(MrSpec spec) {
    if (chooses_names()) {
        return fail(std::errc::operation_not_supported); // hardware would give it another key
    }
    auto region = make_region(core_->memory(), std::move(spec));
    if (!region) {
        return fail(region.error());
    }
    const auto old =
        on_poller([&](SliceCore& core) { return core.gate().replace(std::move(*region)); });
    return old.map([&](const auto& before) { retire(*before); });
}

Result<> SoftSlice::deregister_mr(Key key) {
    const auto region = on_poller([&](SliceCore& core) { return core.gate().remove(key); });
    return region.map([&](const auto& gone) {
        if (gone != nullptr) {
            retire(*gone);
        }
    });
}

// The region cannot be found any more.
void SoftSlice::retire(MemoryRegion& region) {
    if (region.on_network != nullptr) {
        region.on_network->end();
        region.on_network.reset();
    }
    drain();
    unused_.add(std::move(region.pages));
    if (region.on_demand != nullptr) {
        auto removed = region.on_demand->prepare_unmap(0, UINT64_MAX);
        while (region.on_demand->unmap_some(0, UINT64_MAX, removed)) {
        }
        unused_.add(std::move(removed));
    }
}

bool SoftSlice::give_back() {
    return unused_.give_back(core_->memory());
}

void SoftSlice::revoke(Iova first, std::uint64_t length) {
    if (core_->member() != nullptr) {
        core_->member()->revoke(first, length);
    }
}

void SoftSlice::map_pages(Key key, std::uint64_t first, std::span<const Iova> pages,
                          bool writable) {
    auto leaves = SparsePages::prepare(first, pages.size());
    poller_.run([&](Engine&) {
        if (SparsePages* const region = core_->gate().on_demand(key)) {
            region->map(first, pages, writable, leaves);
            core_->gate().faults().mapped({key, first, pages.size()});
        }
    });
}

void SoftSlice::refuse_pages(Key key, std::uint64_t first, std::uint64_t count) {
    poller_.run([&](Engine&) { core_->gate().faults().refused({key, first, count}); });
}

void SoftSlice::unmap_pages(Key key, std::uint64_t first, std::uint64_t count) {
    SparsePages* const region =
        on_poller([&](SliceCore& core) { return core.gate().on_demand(key); });
    if (region == nullptr) {
        return;
    }
    auto removed = region->prepare_unmap(first, count);
    for (bool more = true; more;) { // the poller does other work in between
        poller_.run([&](Engine&) { more = region->unmap_some(first, count, removed); });
    }
    if (!removed.pages.empty() || !removed.leaves.empty()) {
        drain();
        unused_.add(std::move(removed));
    }
}

Result<> SoftSlice::allocate_mw(const MwSpec& spec) {
    if (chooses_names()) {
        return fail(std::errc::operation_not_supported);
    }
    auto window = std::make_unique<MemoryRegion>();
    window->key = spec.key;
    window->pd = spec.pd;
    window->valid = false;
    window->kind = spec.type == IBV_MW_TYPE_1 ? KeyKind::window_1 : KeyKind::window_2;
    return on_poller([&](SliceCore& core) { return core.gate().insert(std::move(window)); });
}

void SoftSlice::deallocate_mw(Key key) {
    static_cast<void>(on_poller([&](SliceCore& core) {
        if (MemoryRegion* const window = core.gate().find_name(key)) {
            unbind(*window);
        }
        return core.gate().remove(key);
    }));
}

} // namespace vrdma::hca::soft
