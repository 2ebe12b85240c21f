// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/vrdma/vrdma_personality.h"

#include <utility>

#include "mediator/device/vrdma/admin_commands.h"
#include "mediator/memory/shared_words.h"

namespace vrdma {
namespace {

void set_low(Iova& address, std::uint32_t value) {
    address = Iova{(raw(address) & ~0xffffffffull) | value};
}

void set_high(Iova& address, std::uint32_t value) {
    address = Iova{(raw(address) & 0xffffffffull) | std::uint64_t{value} << 32};
}

std::uint32_t low(Iova address) {
    return static_cast<std::uint32_t>(raw(address));
}
std::uint32_t high(Iova address) {
    return static_cast<std::uint32_t>(raw(address) >> 32);
}

} // namespace

// --- registers ---

void VrdmaPersonality::show_identity() {
    show_mac(VRDMA_REG_MAC_LOW, VRDMA_REG_MAC_HIGH);
}

void VrdmaPersonality::show_constants() {
    show(VRDMA_REG_MAGIC, VRDMA_MAGIC);
    show(VRDMA_REG_VERSION, VRDMA_VERSION);
    show_identity();
    show(VRDMA_REG_DOORBELL_PAGES, owner_.type().limits.doorbell_pages);
    show(VRDMA_REG_VECTORS, owner_.type().limits.vectors);
}

void VrdmaPersonality::show_queue_registers() {
    show(VRDMA_REG_ASQ_LOW, low(registers_.admin.submissions));
    show(VRDMA_REG_ASQ_HIGH, high(registers_.admin.submissions));
    show(VRDMA_REG_ACQ_LOW, low(registers_.admin.completions));
    show(VRDMA_REG_ACQ_HIGH, high(registers_.admin.completions));
    show(VRDMA_REG_AQ_DEPTH, registers_.admin.depth);
    show(VRDMA_REG_AQ_VECTOR, registers_.admin.vector);
    show(VRDMA_REG_STATUS_PAGE_LOW, low(registers_.status_page));
    show(VRDMA_REG_STATUS_PAGE_HIGH, high(registers_.status_page));
}

void VrdmaPersonality::show_reset() {
    show(VRDMA_REG_STATUS, 0);
}

void VrdmaPersonality::reset() {
    registers_ = {};
    show_constants();
    show_queue_registers();
    show(VRDMA_REG_CONTROL, 0);
    show(VRDMA_REG_STATUS, VRDMA_STATUS_READY);
}

void VrdmaPersonality::show_enabled() {
    show(VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
    show(VRDMA_REG_STATUS, VRDMA_STATUS_ENABLED);
}

void VrdmaPersonality::show_failed() {
    show(VRDMA_REG_STATUS, VRDMA_STATUS_FATAL);
}

void VrdmaPersonality::write_register(std::uint32_t offset, std::uint32_t value) {
    if (offset == VRDMA_REG_CONTROL) {
        write_control(value);
    } else if (offset == VRDMA_REG_ADMIN_DOORBELL) {
        pending_ = true;
        owner_.service();
    } else if (!owner_.enabled() && !owner_.failed() && write_queue_register(offset, value)) {
        show(offset, value);
    } else {
        owner_.log().debug("write of {:#x} to register {:#x} dropped", value, offset);
    }
}

bool VrdmaPersonality::write_queue_register(std::uint32_t offset, std::uint32_t value) {
    switch (offset) {
        case VRDMA_REG_ASQ_LOW:
            set_low(registers_.admin.submissions, value);
            return true;
        case VRDMA_REG_ASQ_HIGH:
            set_high(registers_.admin.submissions, value);
            return true;
        case VRDMA_REG_ACQ_LOW:
            set_low(registers_.admin.completions, value);
            return true;
        case VRDMA_REG_ACQ_HIGH:
            set_high(registers_.admin.completions, value);
            return true;
        case VRDMA_REG_AQ_DEPTH:
            registers_.admin.depth = value;
            return true;
        case VRDMA_REG_AQ_VECTOR:
            registers_.admin.vector = value;
            return true;
        case VRDMA_REG_STATUS_PAGE_LOW:
            set_low(registers_.status_page, value);
            return true;
        case VRDMA_REG_STATUS_PAGE_HIGH:
            set_high(registers_.status_page, value);
            return true;
        default:
            return false;
    }
}

void VrdmaPersonality::write_control(std::uint32_t value) {
    if ((value & VRDMA_CONTROL_RESET) != 0) {
        owner_.reset();
    } else if (owner_.failed()) {
        return;
    } else if ((value & ~VRDMA_CONTROL_ENABLE) != 0) {
        owner_.fail_device("unknown bits in CONTROL");
    } else {
        owner_.want_enabled((value & VRDMA_CONTROL_ENABLE) != 0);
    }
}

// --- life cycle ---

Result<> VrdmaPersonality::prepare() {
    GuestMemory& memory = owner_.port().memory();
    const Iova status_page = registers_.status_page;
    if (status_page == Iova{0} || raw(status_page) % VRDMA_PAGE_SIZE != 0 ||
        memory.at(status_page, VRDMA_PAGE_SIZE) == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    return AdminQueue::create(memory, registers_.admin, owner_.type().limits.vectors)
        .map([this](const AdminQueue& admin) { admin_ = admin; });
}

Result<> VrdmaPersonality::attach(hca::Slice& slice) {
    return slice.set_status_page(registers_.status_page);
}

void VrdmaPersonality::stop() {
    admin_.reset();
    under_way_.reset();
    pending_ = false;
}

// --- commands ---

void VrdmaPersonality::log_command(const vrdma_admin_cmd& cmd, const vrdma_admin_cpl& cpl) {
    if (VRDMA_GET(VRDMA_ADMIN_OPCODE, cmd.header) == VRDMA_ADMIN_SET_GID &&
        is_of_others(cpl.status)) {
        owner_.log().warn("{}", describe(cmd, cpl));
    } else if (spdlog::should_log(spdlog::level::debug)) {
        owner_.log().debug("{}", describe(cmd, cpl));
    }
}

// A driver that waits for an answer sees by the count that the device is at work.
void VrdmaPersonality::count_step() noexcept {
    auto* const page = reinterpret_cast<vrdma_status_page*>(
        owner_.port().memory().at(registers_.status_page, sizeof(vrdma_status_page)));
    store_relaxed(page->admin_steps, ++admin_steps_);
}

// Puts the command that is under way back into the queue, as if it had not been taken yet.
void VrdmaPersonality::abandon() {
    if (std::exchange(under_way_, std::nullopt)) {
        admin_->put_back();
    }
}

// The one that is under way, or the next one in the queue.
Result<std::optional<VrdmaPersonality::Command>> VrdmaPersonality::next_command() {
    if (under_way_) {
        return under_way_;
    }
    return admin_->take().map([](const std::optional<vrdma_admin_cmd>& cmd) {
        return cmd ? std::optional{Command{*cmd, std::chrono::steady_clock::now()}} : std::nullopt;
    });
}

void VrdmaPersonality::complete(const Command& command, const vrdma_admin_cpl& cpl) {
    under_way_.reset();
    log_command(command.cmd, cpl);
    admin_->complete(cpl);
    count_time(command.taken);
}

Result<Personality::Served> VrdmaPersonality::serve(verbs::Objects& objects) {
    const auto next = next_command();
    if (!next) {
        return fail(next.error());
    }
    if (!*next) {
        pending_ = false;
        return Served::nothing;
    }
    const Command command = **next;
    const auto cpl = run_admin_command(objects, command.cmd);
    owner_.port().note_faults();
    if (!cpl) {
        under_way_ = command;
        return Served::step;
    }
    complete(command, *cpl);
    return Served::command;
}

void VrdmaPersonality::end_turn() {
    raise(admin_->vector());
}

void VrdmaPersonality::raise_all() noexcept {
    for (unsigned vector = 0; vector < owner_.type().limits.vectors; ++vector) {
        raise(vector);
    }
}

// --- state ---

void VrdmaPersonality::save(DeviceState& state) const {
    const auto position = admin_ ? admin_->position() : AdminQueue::Position{};
    state.status = shown(VRDMA_REG_STATUS);
    state.aq_depth = registers_.admin.depth;
    state.aq_vector = registers_.admin.vector;
    state.admin_taken = position.taken;
    state.admin_given = position.given;
    state.admin_pending = pending_;
    state.submissions = raw(registers_.admin.submissions);
    state.completions = raw(registers_.admin.completions);
    state.status_page = raw(registers_.status_page);
}

Result<> VrdmaPersonality::restore(const DeviceState& state, StateReader&) {
    registers_ = {
        {Iova{state.submissions}, Iova{state.completions}, state.aq_depth, state.aq_vector},
        Iova{state.status_page}};
    show_queue_registers();
    return {};
}

Result<> VrdmaPersonality::restore_enabled(const DeviceState& state, verbs::Objects&) {
    admin_->set_position({state.admin_taken, state.admin_given});
    pending_ = state.admin_pending == 1;
    return {};
}

} // namespace vrdma
