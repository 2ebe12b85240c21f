// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/pvrdma/pvrdma_personality.h"

#include <sys/eventfd.h>

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

#include "mediator/base/errno.h"
#include "mediator/base/gid_text.h"
#include "mediator/device/pvrdma/capabilities.h"
#include "mediator/memory/shared_words.h"
#include "mediator/verbs/guest_copy.h"

namespace vrdma {
namespace {

using verbs::copy_from_guest;

// A slot is a page of its own in all drivers. It is enough that it can be copied.
bool is_slot(const GuestMemory& memory, std::uint64_t slot, std::size_t size) {
    return slot != 0 && slot % sizeof(std::uint64_t) == 0 && memory.at(Iova{slot}, size) != nullptr;
}

template <typename T>
Result<T> copy(GuestMemory& memory, Iova from) {
    T to;
    return copy_from_guest(memory, from, std::as_writable_bytes(std::span{&to, 1})).map([&] {
        return to;
    });
}

} // namespace

// --- registers ---

void PvrdmaPersonality::show_error(const Result<>& result) noexcept {
    show(PVRDMA_REG_ERROR, result ? 0 : static_cast<std::uint32_t>(result.error()));
}

void PvrdmaPersonality::show_identity() {
    show_mac(PVRDMA_REG_MAC_LOW, PVRDMA_REG_MAC_HIGH);
}

void PvrdmaPersonality::show_failed() {
    show_error(fail(std::errc::io_error));
}

void PvrdmaPersonality::reset() {
    region_low_ = 0;
    region_.reset();
    masked_ = ~std::uint32_t{0};
    raised_ = 0;
    show(PVRDMA_REG_VERSION, PVRDMA_VERSION);
    show(PVRDMA_REG_ERROR, 0);
    show(PVRDMA_REG_CAUSE, 0);
    show(PVRDMA_REG_MASK, masked_);
    show_identity();
}

void PvrdmaPersonality::write_register(std::uint32_t offset, std::uint32_t value) {
    switch (offset) {
        case PVRDMA_REG_SHARED_LOW:
            region_low_ = value;
            break;
        case PVRDMA_REG_SHARED_HIGH:
            show_error(take_region(Iova{std::uint64_t{value} << 32 | region_low_}));
            break;
        case PVRDMA_REG_CONTROL:
            write_control(value);
            break;
        case PVRDMA_REG_REQUEST:
            if (const auto taken = take_request(); !taken) {
                show_error(taken);
            }
            break;
        case PVRDMA_REG_MASK:
            set_mask(value);
            break;
        default:
            owner_.log().debug("write of {:#x} to register {:#x} dropped", value, offset);
    }
}

// A driver that begins anew need not have ended before: its kernel may have crashed.
Result<> PvrdmaPersonality::take_region(Iova at) {
    if (owner_.enabled() || owner_.failed() || region_) {
        owner_.reset();
    }
    GuestMemory& memory = owner_.port().memory();
    if (!owner_.port().bus_master()) {
        owner_.log().warn("the driver gave it memory while Bus Master is clear");
        return fail(std::errc::permission_denied);
    }
    const auto region = raw(at) % sizeof(std::uint64_t) == 0
                            ? copy<pvrdma_shared_region>(memory, at)
                            : fail(std::errc::invalid_argument);
    if (!region) {
        return fail(region.error());
    }
    if (region->driver_version < PVRDMA_VERSION_QP_HANDLE) {
        owner_.log().warn("the driver has version {}: {} is the oldest that it works with",
                          region->driver_version, PVRDMA_VERSION_QP_HANDLE);
        return fail(std::errc::protocol_not_supported);
    }
    region_ = *region;
    const pvrdma_caps caps =
        pvrdma::capabilities(owner_.type(), owner_.function_id().identity(), owner_.protocols());
    std::byte* const to = memory.at(at + offsetof(pvrdma_shared_region, caps), sizeof(caps));
    std::memcpy(to, &caps, sizeof(caps));
    full_fence(); // before the driver sees that its write is done
    return {};
}

void PvrdmaPersonality::write_control(std::uint32_t value) {
    switch (value) {
        case PVRDMA_CONTROL_ACTIVATE:
            owner_.want_enabled(true);
            [[fallthrough]];
        case PVRDMA_CONTROL_UNQUIESCE:
            show_error(owner_.enabled() ? Result<>{} : fail(std::errc::io_error));
            break;
        case PVRDMA_CONTROL_RESET:
            owner_.reset();
            break;
        default:
            show_error(fail(std::errc::invalid_argument));
    }
}

// --- life cycle ---

Result<> PvrdmaPersonality::prepare() {
    const GuestMemory& memory = owner_.port().memory();
    if (!region_ || !is_slot(memory, region_->command_slot, sizeof(pvrdma_request)) ||
        !is_slot(memory, region_->response_slot, sizeof(pvrdma_response))) {
        return fail(std::errc::invalid_argument);
    }
    return {};
}

Result<EqId> PvrdmaPersonality::create_ring(verbs::Objects& objects, const pvrdma_event_ring& ring,
                                            unsigned vector, hca::EventKind kind) {
    if (ring.pages < 2 || ring.pages > PVRDMA_MAX_EVENT_PAGES) {
        return fail(std::errc::invalid_argument);
    }
    const std::uint32_t size = hca::event_size(queue_format(), kind);
    const vrdma_cmd_create_eq cmd{
        {ring.directory, ring.pages, PVRDMA_PAGE_SHIFT, PVRDMA_DIRECTORY_LEVELS, 0},
        pvrdma_event_depth(ring.pages, size),
        vector};
    Result<EqId> made = objects.eqs.create(cmd, kind);
    while (!made && made.error() == verbs::comes_again) { // as often as there are pages, at most
        made = objects.eqs.create(cmd, kind);
    }
    return made;
}

// The first event queue gets the async events.
Result<> PvrdmaPersonality::start(verbs::Objects& objects) {
    const auto async =
        create_ring(objects, region_->async_events, PVRDMA_VECTOR_ASYNC, hca::EventKind::async);
    if (!async) {
        return fail(async.error());
    }
    return create_ring(objects, region_->completion_events, PVRDMA_VECTOR_COMPLETION,
                       hca::EventKind::completion)
        .map([&](EqId events) { commands_.emplace(objects, region_->uar_frame, events); });
}

void PvrdmaPersonality::stop() {
    commands_.reset();
    requests_.clear();
}

// --- commands ---

// The slot is the driver's again when its write is done, so the command is copied now.
Result<> PvrdmaPersonality::take_request() {
    if (!commands_) {
        return fail(std::errc::no_such_device);
    }
    if (requests_.size() == max_requests) {
        return fail(std::errc::device_or_resource_busy);
    }
    const auto request = copy<pvrdma_request>(owner_.port().memory(), Iova{region_->command_slot});
    if (!request) {
        return fail(request.error());
    }
    show(PVRDMA_REG_ERROR, 0);
    requests_.push_back({*request, std::chrono::steady_clock::now()});
    owner_.service();
    return {};
}

Result<> PvrdmaPersonality::answer(const pvrdma_response& response) {
    std::byte* const to = owner_.port().memory().at(Iova{region_->response_slot}, sizeof(response));
    if (to == nullptr) {
        return fail(std::errc::bad_address);
    }
    std::memcpy(to, &response, sizeof(response));
    full_fence();
    raise(PVRDMA_VECTOR_RESPONSE);
    return {};
}

void PvrdmaPersonality::log_failure(const pvrdma_request& request,
                                    const pvrdma_response& response) {
    const auto error = static_cast<std::errc>(response.header.error);
    const std::uint32_t command = request.header.command;
    if (command == PVRDMA_CREATE_BIND && is_of_others(response.header.error)) {
        Gid gid;
        std::memcpy(gid.data(), request.create_bind.gid, gid.size());
        owner_.log().warn("set_gid {}: {}", gid_text(gid), describe(error));
    } else {
        owner_.log().debug("command {}: {}", command, describe(error));
    }
}

Result<Personality::Served> PvrdmaPersonality::serve(verbs::Objects&) {
    if (requests_.empty()) {
        return Served::nothing;
    }
    const Request request = requests_.front();
    const auto response = commands_->run(request.content);
    owner_.port().note_faults();
    if (!response) {
        return Served::step;
    }
    requests_.pop_front();
    count_time(request.taken);
    if (response->header.error != 0) {
        log_failure(request.content, *response);
    }
    if (!pvrdma::has_response(request.content.header.command)) {
        show(PVRDMA_REG_ERROR, response->header.error);
        return Served::command;
    }
    return answer(*response).map([] { return Served::command; });
}

// --- doorbells ---

void PvrdmaPersonality::write_doorbell(std::uint64_t offset, std::uint32_t value) {
    if (!commands_) {
        return;
    }
    const std::uint64_t uar = offset / PVRDMA_PAGE_SIZE;
    switch (offset % PVRDMA_PAGE_SIZE) {
        case PVRDMA_UAR_QP:
            return ring_qp(uar, value);
        case PVRDMA_UAR_CQ:
            return ring_cq(uar, value);
        default: // QPs look at an SRQ when a message needs a WQE
            return;
    }
}

// The poller's doorbells are those of vrdma's own driver (vrdma/queue.h).
void PvrdmaPersonality::ring_qp(std::uint64_t uar, std::uint32_t value) {
    const auto* const qp = commands_->find_qp(uar, VRDMA_GET(PVRDMA_UAR_HANDLE, value));
    if (qp == nullptr) {
        return;
    }
    vrdma_doorbell_page& page = owner_.port().doorbells()[qp->ucontext.value];
    store_relaxed(page.slot[qp->slot], std::uint8_t{1});
    store_release(page.line[qp->slot >> VRDMA_DOORBELL_LINE_SHIFT], std::uint8_t{1});
    full_fence();
    static_cast<void>(::eventfd_write(owner_.port().kick_fd(), 1)); // it is full: it is signalled
}

void PvrdmaPersonality::ring_cq(std::uint64_t uar, std::uint32_t value) {
    const std::uint32_t handle = VRDMA_GET(PVRDMA_UAR_HANDLE, value);
    const bool any = (value & PVRDMA_UAR_CQ_ARM) != 0;
    if ((any || (value & PVRDMA_UAR_CQ_ARM_SOLICITED) != 0) && commands_->has_cq(uar, handle)) {
        owner_.objects()->resources.slice.arm_cq(Cqn{handle}, !any);
    }
}

// --- interrupts ---

// A vector is noted before its mask is read, and the mask is written before notes are read. So none
// is lost.
void PvrdmaPersonality::raise(unsigned vector) noexcept {
    raised_.fetch_or(std::uint32_t{1} << vector);
    deliver(vector);
}

void PvrdmaPersonality::deliver(unsigned vector) noexcept {
    const std::uint32_t bit = std::uint32_t{1} << vector;
    if ((masked_.load() & bit) == 0 && (raised_.fetch_and(~bit) & bit) != 0) {
        owner_.port().raise(vector);
    }
}

void PvrdmaPersonality::set_mask(std::uint32_t mask) noexcept {
    show(PVRDMA_REG_MASK, mask);
    masked_ = mask;
    for (unsigned vector = 0; vector < PVRDMA_VECTORS; ++vector) {
        deliver(vector);
    }
}

} // namespace vrdma
