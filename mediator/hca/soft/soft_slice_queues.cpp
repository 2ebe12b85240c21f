// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The rings of a slice: event queues, completion queues and shared receive queues.
#include "mediator/hca/soft/qp/removal.h"
#include "mediator/hca/soft/soft_slice.h"

namespace vrdma::hca::soft {

Result<> SoftSlice::populate(const GuestBuffer& ring, const Translation& pages) const {
    const std::uint64_t end = core_->frozen() || pages.touched ? 0 : ring.length();
    for (std::uint64_t offset = 0; offset < end;) {
        if (const auto there = ring.populate(core_->memory(), offset, UINT64_MAX); !there) {
            return there;
        }
    }
    return {};
}

// If a page is absent, the pages touched before are given back in steps, too.
Result<bool> SoftSlice::touch(const Translation& ring, std::uint64_t& offset) {
    auto buffer = GuestBuffer::map(core_->memory(), ring);
    if (!buffer) {
        return fail(buffer.error());
    }
    if (const auto there = buffer->populate(core_->memory(), offset, ring_pages_a_step); !there) {
        unused_.add(std::move(*buffer));
        return fail(there.error());
    }
    return offset < buffer->length();
}

Result<> SoftSlice::create_eq(const EqSpec& spec) {
    auto eq = EventQueue::create(core_->memory(), core_->format(), core_->host(), spec);
    if (!eq) {
        return fail(eq.error());
    }
    if (const auto populated = populate((*eq)->buffer(), spec.pages); !populated) {
        return populated;
    }
    return on_poller([&](SliceCore& core) { return core.insert(std::move(*eq)); });
}

void SoftSlice::destroy_eq(EqId id) {
    if (const auto eq = on_poller([&](SliceCore& core) { return core.remove(id); })) {
        unused_.add(eq->buffer());
    }
}

Result<> SoftSlice::create_cq(const CqSpec& spec) {
    auto cq = CompletionQueue::create(core_->memory(), core_->format(), core_->eq(spec.eq), spec);
    if (!cq) {
        return fail(cq.error());
    }
    if (const auto populated = populate((*cq)->buffer(), spec.pages); !populated) {
        return populated;
    }
    return on_poller([&](SliceCore& core) { return core.insert(std::move(*cq)); });
}

// Makes the poller call resize(core, ring), which takes the new ring and returns the old one.
template <typename Resize>
Result<> SoftSlice::replace_ring(const Translation& pages, Resize&& resize) {
    auto ring = GuestBuffer::map(core_->memory(), pages);
    if (!ring) {
        return fail(ring.error());
    }
    if (const auto populated = populate(*ring, pages); !populated) {
        return populated;
    }
    auto old =
        on_poller([&](SliceCore& core) -> Result<GuestBuffer> { return resize(core, *ring); });
    if (!old) {
        return fail(old.error());
    }
    unused_.add(std::move(*old));
    return {};
}

Result<> SoftSlice::resize_cq(Cqn id, const Translation& pages, std::uint32_t depth) {
    return replace_ring(pages, [&](SliceCore& core, GuestBuffer& ring) -> Result<GuestBuffer> {
        CompletionQueue* cq = core.cq(id);
        return cq != nullptr ? cq->resize(std::move(ring), depth) : fail(no_such_object);
    });
}

Result<> SoftSlice::moderate_cq(Cqn id, const CqModeration& moderation) {
    return on_poller([&](SliceCore& core) -> Result<> {
        CompletionQueue* cq = core.cq(id);
        if (cq == nullptr) {
            return fail(no_such_object);
        }
        cq->moderate(moderation);
        core.engine().events().hurry(*cq); // waiting events wait by the old rule
        return {};
    });
}

void SoftSlice::arm_cq(Cqn id, bool solicited_only) {
    poller_.run([&](Engine& engine) {
        if (CompletionQueue* cq = core_->cq(id)) {
            cq->arm(solicited_only);
            engine.events().pushed(*cq);
        }
    });
}

void SoftSlice::destroy_cq(Cqn id) {
    if (const auto cq = on_poller([&](SliceCore& core) { return core.remove(id); })) {
        unused_.add(cq->buffer());
    }
}

Result<> SoftSlice::create_srq(const SrqSpec& spec) {
    auto srq = SharedReceiveQueue::create(*core_, core_->cq(spec.cq), spec);
    if (!srq) {
        return fail(srq.error());
    }
    if (const auto populated = populate((*srq)->buffer, spec.pages); !populated) {
        return populated;
    }
    return on_poller([&](SliceCore& core) { return core.insert(std::move(*srq)); });
}

Result<> SoftSlice::modify_srq(Srqn id, std::uint32_t limit) {
    return on_poller([&](SliceCore& core) -> Result<> {
        SharedReceiveQueue* srq = core.srq(id);
        if (srq == nullptr || limit > srq->wqes.depth()) {
            return fail(std::errc::invalid_argument);
        }
        srq->arm(limit);
        return {};
    });
}

Result<> SoftSlice::resize_srq(Srqn id, const Translation& pages, std::uint32_t depth,
                               std::optional<std::uint32_t> limit) {
    return replace_ring(pages, [&](SliceCore& core, GuestBuffer& ring) -> Result<GuestBuffer> {
        SharedReceiveQueue* srq = core.srq(id);
        return srq != nullptr ? srq->resize(std::move(ring), depth, limit) : fail(no_such_object);
    });
}

Result<std::uint32_t> SoftSlice::query_srq(Srqn id) const {
    return on_poller([&](SliceCore& core) -> Result<std::uint32_t> {
        const SharedReceiveQueue* srq = core.srq(id);
        if (srq == nullptr) {
            return fail(no_such_object);
        }
        return srq->limit;
    });
}

void SoftSlice::destroy_srq(Srqn id) {
    if (const auto srq = on_poller([&](SliceCore& core) { return remove(core, id); })) {
        unused_.add(std::move(srq->buffer));
    }
}

} // namespace vrdma::hca::soft
