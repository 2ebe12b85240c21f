// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/mdev/mdev_device.h"

#include <sys/epoll.h>
#include <sys/ioctl.h>

#include <array>

#include "mediator/device/out_of_memory.h"
#include "mediator/frontend/mdev/handover.h"
#include "mediator/frontend/mdev/identity.h"

namespace vrdma::mdev {
namespace {

Result<vrdma_mdev_device_info> read_info(int fd) {
    vrdma_mdev_device_info info{};
    if (::ioctl(fd, VRDMA_MDEV_DEVICE_INFO, &info) != 0) {
        return fail_errno();
    }
    return info;
}

} // namespace

MdevDevice::MdevDevice(const DeviceType& type, UniqueFd fd, EventFd kick, EventFd wake,
                       Mapping shadow, Mapping doorbells, std::unique_ptr<WindowMemory> memory)
    : type_{type},
      fd_{std::move(fd)},
      kick_{std::move(kick)},
      wake_{std::move(wake)},
      shadow_{std::move(shadow)},
      doorbells_{std::move(doorbells)},
      memory_{std::move(memory)} {}

Result<std::unique_ptr<MdevDevice>> MdevDevice::open(const Host& host, UniqueFd fd) {
    const auto info = read_info(fd.get());
    if (!info) {
        return fail(info.error());
    }
    if (info->type >= host.types.size()) {
        return fail(std::errc::invalid_argument);
    }
    const DeviceType& type = host.types[info->type];
    constexpr int protection = PROT_READ | PROT_WRITE;
    auto shadow = Mapping::map(fd.get(), VRDMA_MDEV_MMAP_SHADOW, VRDMA_PAGE_SIZE, protection);
    auto doorbells = Mapping::map(
        fd.get(), VRDMA_MDEV_MMAP_DOORBELLS,
        std::size_t{type.limits.doorbell_pages} * VRDMA_DOORBELL_PAGE_SIZE, protection);
    auto memory = WindowMemory::map(fd.get());
    auto kick = EventFd::create();
    auto wake = EventFd::create();
    if (!shadow || !doorbells || !memory || !kick || !wake) {
        return fail(std::errc::not_enough_memory);
    }
    vrdma_mdev_kick set{kick->fd(), 0};
    if (::ioctl(fd.get(), VRDMA_MDEV_SET_KICK, &set) != 0) {
        return fail_errno();
    }
    std::unique_ptr<MdevDevice> device{new MdevDevice{type, std::move(fd), std::move(*kick),
                                                      std::move(*wake), std::move(*shadow),
                                                      std::move(*doorbells), std::move(*memory)}};
    if (const auto started = device->start(host, *info); !started) {
        return fail(started.error());
    }
    return device;
}

// When a device is opened, the module has a reset ready to be read, and the device goes live when
// that reset is acknowledged. If the vrdmad before has left the device, take_over() does that.
Result<> MdevDevice::start(const Host& host, const vrdma_mdev_device_info& info) {
    activity_ = host.activity;
    device_.emplace(uuid_text(info.uuid), type_, identity_of(info, type_), *this, host.hca,
                    host.gids, type_.personality);
    device_->set_share(share_of(info, type_));
    migration_.emplace(host.loop, *device_, fd_.get(), longest_image(type_.limits));
    auto messages =
        host.loop.watch(fd_.get(), [this](std::uint32_t events) { on_messages(events); });
    if (!messages) {
        return fail(messages.error());
    }
    messages_ = std::move(*messages);
    auto turns = host.loop.watch(wake_.fd(), [this](std::uint32_t) {
        wake_.drain();
        device_->service();
    });
    if (!turns) {
        return fail(turns.error());
    }
    turns_ = std::move(*turns);
    return {};
}

void MdevDevice::freeze() {
    device_->freeze();
}

Result<> MdevDevice::save() {
    if (!device_->is_whole()) {
        return fail(std::errc::operation_canceled);
    }
    return to_file(device_->save()).map([this](UniqueFd file) { saved_ = std::move(file); });
}

Result<> MdevDevice::hand_over() {
    return saved_ ? mdev::hand_over(fd_.get(), saved_) : Result<>{}; // save() has failed
}

// The module refuses the acknowledgement if a reset is under way meanwhile, whose message follows.
Result<> MdevDevice::take_over() {
    const auto info = read_info(fd_.get());
    if (!info) {
        return fail(info.error());
    }
    const auto taken = mdev::take_over(fd_.get(), longest_image(type_.limits),
                                       [this](auto image) { return device_->restore(image); });
    if (!taken) {
        return fail(taken.error());
    }
    vrdma_mdev_reset_done done{info->reset_generation, 0};
    taken_over_ = *taken && ::ioctl(fd_.get(), VRDMA_MDEV_RESET_DONE, &done) == 0;
    return {};
}

void MdevDevice::resume() {
    if (std::exchange(taken_over_, false)) {
        device_->thaw();
        device_->raise_all();
        spdlog::info("{}: continues", name());
    }
}

void MdevDevice::give_share() {
    if (const auto info = read_info(fd_.get()); info) {
        device_->set_share(share_of(*info, type_));
    }
}

std::span<std::uint32_t> MdevDevice::registers() noexcept {
    return {shadow_.as<std::uint32_t>(), shadow_.size() / sizeof(std::uint32_t)};
}

std::span<vrdma_doorbell_page> MdevDevice::doorbells() noexcept {
    return {doorbells_.as<vrdma_doorbell_page>(), doorbells_.size() / sizeof(vrdma_doorbell_page)};
}

void MdevDevice::raise(unsigned vector) noexcept {
    ::ioctl(fd_.get(), VRDMA_MDEV_RAISE, vector);
}

// Reads once per turn, so that other devices' messages have their turn in between.
void MdevDevice::on_messages(std::uint32_t epoll_events) {
    if ((epoll_events & (EPOLLHUP | EPOLLERR)) != 0) {
        messages_ = {}; // an event will follow that frees this device
        migration_->forget();
        device_->reset();
        return;
    }
    std::array<vrdma_mdev_message, 64> messages;
    const ssize_t size = ::read(fd_.get(), messages.data(), sizeof(messages));
    const auto count = size < 0 ? 0 : static_cast<std::size_t>(size) / sizeof(messages[0]);
    for (const auto& message : std::span{messages}.first(count)) {
        on_message(message);
    }
}

// The attributes are written by the administrator and may be long. A device without memory for them
// must not continue with its old identity.
void MdevDevice::read_identity() {
    const auto read = with_what_memory_there_is([this]() -> Result<> {
        return read_info(fd_.get()).map([this](const vrdma_mdev_device_info& info) {
            device_->set_identity(identity_of(info, type_));
        });
    });
    if (!read && read.error() == std::errc::not_enough_memory) {
        device_->fatal("there is no memory for its attributes");
        device_->service();
    }
}

// A device that its guest changes does not wait any longer for others to come back.
void MdevDevice::on_message(const vrdma_mdev_message& message) {
    if (message.type != VRDMA_MDEV_MESSAGE_ADMIN_DOORBELL) {
        resume();
    }
    switch (message.type) {
        case VRDMA_MDEV_MESSAGE_WRITE:
            on_write(message);
            break;
        case VRDMA_MDEV_MESSAGE_DOORBELL:
            if (!device_->frozen()) {
                device_->write_doorbell(message.offset, message.value);
            }
            break;
        case VRDMA_MDEV_MESSAGE_ADMIN_DOORBELL:
            device_->write_register(VRDMA_REG_ADMIN_DOORBELL, 0);
            break;
        case VRDMA_MDEV_MESSAGE_RESET:
            on_reset(message.value);
            break;
        case VRDMA_MDEV_MESSAGE_REVOKED:
            on_revoked(message.offset, message.value);
            break;
        case VRDMA_MDEV_MESSAGE_SHARE:
            give_share();
            break;
        case VRDMA_MDEV_MESSAGE_STEP:
            on_step(message.offset, message.value);
            break;
        default:
            break;
    }
}

// The VM waits for writes to VMware's device. One that the VM has stopped for a migration ignores
// them, as its registers can reset it.
void MdevDevice::on_write(const vrdma_mdev_message& message) {
    const bool is_own = type_.personality == PersonalityKind::vrdma;
    if (is_own || !device_->frozen()) {
        device_->write_register(message.offset, message.value);
    }
    if (!is_own) {
        ::ioctl(fd_.get(), VRDMA_MDEV_WRITE_DONE, message.number);
    }
}

// The module refuses the acknowledgement if a newer reset is under way, whose message follows.
void MdevDevice::on_reset(std::uint32_t generation) {
    migration_->forget();
    device_->reset();
    read_identity();
    vrdma_mdev_reset_done done{generation, 0};
    ::ioctl(fd_.get(), VRDMA_MDEV_RESET_DONE, &done);
}

void MdevDevice::on_revoked(std::uint64_t first_page, std::uint64_t last_page) {
    device_->revoke(Iova{first_page << VRDMA_PAGE_SHIFT}, (last_page - first_page + 1)
                                                              << VRDMA_PAGE_SHIFT);
}

// The other host may have kept back an interrupt that the guest had masked.
void MdevDevice::on_step(std::uint32_t step, std::uint32_t number) {
    migration_->take(step, number);
    if (migration_->take_arrival()) {
        device_->raise_all();
    }
}

} // namespace vrdma::mdev
