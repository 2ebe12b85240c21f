// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/pvrdma/pvrdma_personality.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>

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

template <typename T>
using Bytes = std::array<std::byte, sizeof(T)>;

template <typename T>
Bytes<T> bytes_of(const T& from) noexcept {
    return std::bit_cast<Bytes<T>>(from);
}
template <typename T>
T from_bytes(const Bytes<T>& from) noexcept {
    return std::bit_cast<T>(from);
}

// Behind it come `pages` of struct Page, and `requests` of pvrdma_request. Of a device that is not
// enabled there are none.
struct PvrdmaState {
    static constexpr std::uint32_t version = 1;

    Bytes<pvrdma_shared_region> region;
    std::uint32_t has_region; // 1: its driver has given it
    std::uint32_t region_low; // the last write of SHARED_LOW
    std::uint32_t error;      // registers
    std::uint32_t masked;
    std::uint32_t raised; // interrupts that wait for their vectors
    std::uint32_t events; // the event queue of completions
    std::uint32_t pages;
    std::uint32_t requests; // that wait for the device
};

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
    saved_.reset();
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
    if (const auto known = check_version(*region); !known) {
        return known;
    }
    region_ = *region;
    region_->caps =
        pvrdma::capabilities(owner_.type(), owner_.function_id().identity(), owner_.protocols());
    std::byte* const to =
        memory.at(at + offsetof(pvrdma_shared_region, caps), sizeof(region_->caps));
    std::memcpy(to, &region_->caps, sizeof(region_->caps));
    full_fence(); // before the driver sees that its write is done
    return {};
}

Result<> PvrdmaPersonality::check_version(const pvrdma_shared_region& region) {
    if (region.driver_version < PVRDMA_VERSION_QP_HANDLE) {
        owner_.log().warn("the driver has version {}: {} is the oldest that it works with",
                          region.driver_version, PVRDMA_VERSION_QP_HANDLE);
        return fail(std::errc::protocol_not_supported);
    }
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

// The first event queue gets the async events. A device that is restored has its queues already.
Result<> PvrdmaPersonality::start(verbs::Objects& objects) {
    if (saved_) {
        return {};
    }
    const auto async =
        create_ring(objects, region_->async_events, PVRDMA_VECTOR_ASYNC, hca::EventKind::async);
    if (!async) {
        return fail(async.error());
    }
    return create_ring(objects, region_->completion_events, PVRDMA_VECTOR_COMPLETION,
                       hca::EventKind::completion)
        .map([&](EqId events) {
            events_ = events;
            commands_.emplace(objects, region_->uar_frame, events);
        });
}

void PvrdmaPersonality::stop() {
    saved_.reset();
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

// The driver takes an interrupt of the response vector for the answer to the command under way.
void PvrdmaPersonality::raise_all() noexcept {
    raise(PVRDMA_VECTOR_ASYNC);
    raise(PVRDMA_VECTOR_COMPLETION);
    if (requests_.empty()) {
        raise(PVRDMA_VECTOR_RESPONSE);
    }
}

// --- state ---

void PvrdmaPersonality::save(DeviceState& state) const {
    state.status = VRDMA_STATUS_READY;
    if (owner_.enabled()) {
        state.status = VRDMA_STATUS_ENABLED;
    } else if (owner_.failed()) {
        state.status = VRDMA_STATUS_FATAL;
    }
}

std::optional<verbs::SectionFormat> PvrdmaPersonality::section() const noexcept {
    return verbs::SectionFormat{static_cast<std::uint32_t>(Section::pvrdma), PvrdmaState::version};
}

void PvrdmaPersonality::save_section(StateWriter& writer) const {
    const auto pages = commands_ ? commands_->pages() : std::vector<pvrdma::Commands::Page>{};
    writer.begin(Section::pvrdma, PvrdmaState::version, 1);
    writer.put(PvrdmaState{
        .region = bytes_of(region_.value_or(pvrdma_shared_region{})),
        .has_region = region_ ? 1u : 0u,
        .region_low = region_low_,
        .error = shown(PVRDMA_REG_ERROR),
        .masked = masked_,
        .raised = raised_,
        .events = commands_ ? events_.value : 0,
        .pages = static_cast<std::uint32_t>(pages.size()),
        .requests = static_cast<std::uint32_t>(requests_.size()),
    });
    writer.put_all<pvrdma::Commands::Page>(pages);
    for (const Request& request : requests_) {
        writer.put(bytes_of(request.content));
    }
}

// The driver has tables of these sizes, and takes handles for indices.
Result<> PvrdmaPersonality::check_told(const pvrdma_caps& told) {
    const pvrdma_caps own =
        pvrdma::capabilities(owner_.type(), owner_.function_id().identity(), owner_.protocols());
    if (told.max_qp != own.max_qp || told.max_cq != own.max_cq || told.max_srq != own.max_srq) {
        owner_.log().warn(
            "refuses a device whose driver has room for {} QPs, {} CQs and {} SRQs: here are"
            " {}, {} and {}",
            told.max_qp, told.max_cq, told.max_srq, own.max_qp, own.max_cq, own.max_srq);
        return fail(std::errc::invalid_argument);
    }
    return {};
}

Result<> PvrdmaPersonality::restore(const DeviceState& device, StateReader& reader) {
    const auto records = reader.open(Section::pvrdma, PvrdmaState::version);
    const auto state = reader.take<PvrdmaState>();
    const bool enabled = device.status == VRDMA_STATUS_ENABLED;
    if (!records || *records != 1 || !state || state->has_region > 1 ||
        state->raised >> PVRDMA_VECTORS != 0 || state->requests > max_requests ||
        (enabled ? state->has_region == 0 : state->pages != 0 || state->requests != 0)) {
        return fail(std::errc::invalid_argument);
    }
    auto pages = reader.take_all<pvrdma::Commands::Page>(state->pages);
    const auto requests = reader.take_all<Bytes<pvrdma_request>>(state->requests);
    if (!pages || !requests) {
        return fail(std::errc::invalid_argument);
    }
    if (state->has_region == 1) {
        region_ = from_bytes<pvrdma_shared_region>(state->region);
        const auto fits =
            check_version(*region_).and_then([&] { return check_told(region_->caps); });
        if (!fits) {
            return fits;
        }
    }
    region_low_ = state->region_low;
    raised_ = state->raised;
    masked_ = state->masked;
    show(PVRDMA_REG_MASK, state->masked);
    show(PVRDMA_REG_ERROR, state->error);
    if (enabled) {
        saved_.emplace(Saved{EqId{state->events}, std::move(*pages), {}});
        std::ranges::transform(*requests, std::back_inserter(saved_->requests),
                               from_bytes<pvrdma_request>);
    }
    return {};
}

Result<> PvrdmaPersonality::restore_enabled(const DeviceState&, verbs::Objects& objects) {
    const Saved saved = *std::exchange(saved_, std::nullopt);
    if (objects.eqs.find(saved.events) == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    events_ = saved.events;
    commands_.emplace(objects, region_->uar_frame, events_);
    for (const pvrdma_request& request : saved.requests) {
        requests_.push_back({request, std::chrono::steady_clock::now()});
    }
    return commands_->restore(saved.pages);
}

} // namespace vrdma
