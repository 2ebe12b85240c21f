// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/mdev/migration.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "mediator/base/errno.h"
#include "mediator/device/out_of_memory.h"
#include "vrdma/mdev.h"

namespace vrdma::mdev {
namespace {

// After this many pieces, other devices have their turn.
constexpr int pieces_per_turn = 16;
constexpr std::size_t piece_size = 4096;

constexpr std::chrono::milliseconds pace_interval{100};

} // namespace

Migration::Migration(EventLoop& loop, Device& device, int fd, std::uint64_t max_length)
    : loop_{loop}, device_{device}, fd_{fd}, max_length_{max_length} {}

void Migration::take(std::uint32_t step, std::uint32_t number) {
    const auto taken = with_what_memory_there_is([&] { return run(step); });
    vrdma_mdev_step_done done{number, 0};
    if (!taken) {
        spdlog::warn("{}: step {} of its migration failed: {}", device_.name(), step,
                     describe(taken.error()));
        done.error = static_cast<std::uint32_t>(taken.error());
    }
    ::ioctl(fd_, VRDMA_MDEV_STEP_DONE, &done);
}

Result<> Migration::run(std::uint32_t step) {
    switch (step) {
        case VRDMA_MDEV_STEP_FREEZE:
            end_pacing();
            device_.freeze();
            return {};
        case VRDMA_MDEV_STEP_THAW:
            thaw();
            return {};
        case VRDMA_MDEV_STEP_ANNOUNCE:
            return announce();
        case VRDMA_MDEV_STEP_SAVE:
            return save();
        case VRDMA_MDEV_STEP_LOAD:
            return load();
        case VRDMA_MDEV_STEP_RESTORE:
            return restore();
        default:
            return fail(std::errc::invalid_argument);
    }
}

// A guest that resets its device while it moves goes on moving.
void Migration::forget() {
    if (!announced_) {
        transfer_.reset();
    }
    restored_ = false;
}

void Migration::thaw() {
    forget_announced();
    device_.thaw();
    arrived_ = std::exchange(restored_, false);
}

Result<> Migration::begin() {
    UniqueFd fd{::ioctl(fd_, VRDMA_MDEV_TRANSFER)};
    if (!fd) {
        return fail_errno();
    }
    announced_ = false;
    transfer_ =
        std::make_unique<Transfer>(Transfer{std::move(fd), IncomingState{device_, max_length_}});
    return {};
}

Result<> Migration::watch(std::uint32_t events, void (Migration::*ready)()) {
    transfer_->watch = {};
    auto watch = loop_.watch(
        transfer_->fd.get(), [this, ready](std::uint32_t) { (this->*ready)(); }, events);
    if (!watch) {
        transfer_.reset();
        return fail(watch.error());
    }
    transfer_->watch = std::move(*watch);
    return {};
}

// All of it is in the pipe before the virtual machine goes on. Then the rest goes ahead.
Result<> Migration::announce() {
    return begin().and_then([this]() -> Result<> {
        saving_ = announced_ = true;
        transfer_->stream = to_stream(device_.announce(), StreamPart::announcement);
        while (write_piece(*transfer_)) {
        }
        if (!transfer_->all_written()) {
            forget_announced();
            return fail(std::errc::no_buffer_space);
        }
        begin_pacing();
        return begin_ahead();
    });
}

Result<> Migration::begin_ahead() {
    transfer_->stream.clear();
    transfer_->written = 0;
    if (auto lasting = device_.save_ahead(); !lasting.image.empty()) {
        transfer_->ahead.emplace(std::move(lasting));
        transfer_->stream = to_stream(transfer_->ahead->bytes(), StreamPart::ahead);
    }
    const vrdma_mdev_ahead ahead{transfer_->stream.size(), device_.estimate_rest()};
    if (::ioctl(transfer_->fd.get(), VRDMA_MDEV_TRANSFER_AHEAD, &ahead) != 0) {
        const auto error = fail_errno();
        forget_announced();
        return error;
    }
    return watch(EPOLLOUT, &Migration::go_ahead);
}

// When all is written, only the end of the transfer is awaited.
void Migration::go_ahead() {
    for (int i = 0; i < pieces_per_turn && write_piece(*transfer_); ++i) {
    }
    const bool goes_on = transfer_->outcome.has_value();
    if (!goes_on || (transfer_->all_written() && !watch(0, &Migration::forget_announced))) {
        forget_announced();
    }
}

// None if the virtual machine does not move any more, or if the module is an older one.
std::optional<Pacer::Sample> Migration::sample() const {
    Pacer::Sample sample{Pacer::Clock::now(), {}, 0};
    if (::ioctl(fd_, VRDMA_MDEV_PRECOPY, &sample.module) != 0) {
        return std::nullopt;
    }
    if (const auto counters = device_.counters()) {
        sample.moved =
            counters->value[VRDMA_COUNTER_RX_BYTES] + counters->value[VRDMA_COUNTER_TX_BYTES];
    }
    return sample;
}

void Migration::begin_pacing() {
    if (const auto first = sample()) {
        pacer_.emplace(*first);
        pace_after_a_while();
    }
}

void Migration::pace_after_a_while() {
    pacing_ = loop_.after(pace_interval, [this] {
        if (const auto now = sample()) {
            set_pace(pacer_->pace(*now));
            pace_after_a_while();
        } else {
            end_pacing();
        }
    });
}

// Sets it even if it is the same, because the guest may have reset its device.
void Migration::set_pace(std::uint64_t bytes_per_second) {
    if (std::exchange(pace_, bytes_per_second) != bytes_per_second) {
        spdlog::info("{}: is slowed to {} bytes per second while it moves", device_.name(),
                     bytes_per_second);
    }
    device_.set_pace(bytes_per_second);
}

void Migration::end_pacing() {
    pacing_ = {};
    pacer_.reset();
    if (std::exchange(pace_, 0) != 0) {
        device_.set_pace(0);
    }
}

// The virtual machine stays.
void Migration::forget_announced() {
    end_pacing();
    announced_ = false;
    transfer_.reset();
}

// Goes on with the transfer of the announcement, if that is the one under way.
Result<> Migration::save() {
    const auto begun = begin();
    if (!begun && (!announced_ || begun.error() != std::errc::device_or_resource_busy)) {
        return begun;
    }
    announced_ = false;
    saving_ = true;
    const auto last = last_part();
    spdlog::info("{}: leaves, with {} bytes after {} that went ahead", device_.name(), last.size(),
                 transfer_->written);
    transfer_->stream.insert(transfer_->stream.end(), last.begin(), last.end());
    return watch(EPOLLOUT, &Migration::move);
}

std::vector<std::byte> Migration::last_part() const {
    if (transfer_->ahead) {
        return to_stream(transfer_->ahead->rest_of(device_.save_state()), StreamPart::rest);
    }
    return to_stream(device_.save());
}

Result<> Migration::load() {
    device_.reset();
    return begin().and_then([this] {
        saving_ = false;
        return watch(EPOLLIN, &Migration::move);
    });
}

void Migration::end(Transfer& transfer, std::errc error) {
    transfer.watch = {};
    if (error != std::errc{}) {
        transfer.outcome = fail(error);
    }
    ::ioctl(transfer.fd.get(), VRDMA_MDEV_TRANSFER_END, static_cast<unsigned long>(error));
}

// Returns whether there may be room for more.
bool Migration::write_piece(Transfer& transfer) {
    const auto rest = std::span{transfer.stream}.subspan(transfer.written);
    const ssize_t written =
        ::write(transfer.fd.get(), rest.data(), std::min(rest.size(), piece_size));
    if (written < 0) {
        if (errno != EAGAIN) {
            end(transfer, static_cast<std::errc>(errno));
        }
        return false;
    }
    transfer.written += static_cast<std::size_t>(written);
    return !transfer.all_written();
}

// Returns whether there may be more.
bool Migration::read_piece(Transfer& transfer) {
    std::array<std::byte, piece_size> piece;
    const ssize_t length = ::read(transfer.fd.get(), piece.data(), piece.size());
    if (length < 0) {
        if (errno != EAGAIN) {
            end(transfer, static_cast<std::errc>(errno));
        }
        return false;
    }
    if (length == 0) {
        transfer.watch = {};
        return false;
    }
    const auto taken =
        transfer.state.take(std::span{piece}.first(static_cast<std::size_t>(length)));
    if (!taken) {
        spdlog::warn("{}: refuses the saved state: {}", device_.name(), describe(taken.error()));
        end(transfer, taken.error());
        return false;
    }
    return true;
}

void Migration::move() {
    for (int i = 0; i < pieces_per_turn; ++i) {
        if (!(saving_ ? write_piece(*transfer_) : read_piece(*transfer_))) {
            break;
        }
    }
    if (saving_ && transfer_->all_written()) {
        end(*transfer_, std::errc{});
        device_.give_way();
    }
}

// The loop is bounded: what is left to read is no more than the module's pipe holds.
Result<> Migration::restore() {
    if (transfer_ == nullptr || saving_) {
        return fail(std::errc::invalid_argument);
    }
    const std::unique_ptr<Transfer> transfer = std::move(transfer_);
    while (transfer->outcome && read_piece(*transfer)) {
    }
    if (!transfer->outcome) {
        return transfer->outcome;
    }
    const auto restored = transfer->state.restore();
    restored_ = restored.has_value();
    return restored;
}

} // namespace vrdma::mdev
