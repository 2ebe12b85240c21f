// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/interrupts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>

#include "mediator/base/errno.h"

namespace vrdma::vfio_user {
namespace {

// Asynchronous contexts that nobody has any more. To destroy one takes the kernel tens of
// milliseconds, and to destroy all at the end of the process takes no longer. vrdmad must end fast,
// so it leaves them to that.
class Contexts {
  public:
    Result<aio_context_t> take() {
        const std::lock_guard lock{mutex_};
        if (!free_.empty()) {
            const aio_context_t context = free_.back();
            free_.pop_back();
            return context;
        }
        free_.reserve(made_ + 1);
        aio_context_t context = 0;
        if (::syscall(SYS_io_setup, 1, &context) != 0) {
            return fail_errno();
        }
        ++made_;
        return context;
    }

    void give_back(aio_context_t context) noexcept {
        const std::lock_guard lock{mutex_};
        free_.push_back(context); // has room
    }

  private:
    std::mutex mutex_;
    std::size_t made_ = 0;
    std::vector<aio_context_t> free_;
};

Contexts& contexts() {
    static Contexts all;
    return all;
}

bool is_eventfd(int fd) {
    std::array<char, 64> target{};
    const auto link = fmt::format("/proc/self/fd/{}", fd);
    const ssize_t size = ::readlink(link.c_str(), target.data(), target.size());
    return size > 0 && std::string_view{target.data(), static_cast<std::size_t>(size)} ==
                           "anon_inode:[eventfd]";
}

} // namespace

Result<std::unique_ptr<Interrupts>> Interrupts::create(unsigned vectors) {
    UniqueFd zero{::open("/dev/zero", O_RDONLY | O_CLOEXEC)};
    if (!zero) {
        return fail_errno();
    }
    const auto context = contexts().take();
    if (!context) {
        return fail(context.error());
    }
    return std::unique_ptr<Interrupts>{new Interrupts{*context, std::move(zero), vectors}};
}

Interrupts::Interrupts(aio_context_t context, UniqueFd zero, unsigned vectors)
    : context_{context}, zero_{std::move(zero)}, eventfds_(vectors + 1) {}

Interrupts::~Interrupts() {
    contexts().give_back(context_);
}

// A read of zero bytes from /dev/zero completes at once. Its completion is taken, so that there is
// room for the next one.
void Interrupts::signal(int eventfd) noexcept {
    iocb read{};
    read.aio_lio_opcode = IOCB_CMD_PREAD;
    read.aio_fildes = static_cast<std::uint32_t>(zero_.get());
    read.aio_flags = IOCB_FLAG_RESFD;
    read.aio_resfd = static_cast<std::uint32_t>(eventfd);
    iocb* submission = &read;
    ::syscall(SYS_io_submit, context_, 1, &submission);
    io_event completion{};
    timespec at_once{};
    ::syscall(SYS_io_getevents, context_, 0, 1, &completion, &at_once);
}

void Interrupts::raise(unsigned vector) noexcept {
    const std::lock_guard lock{lock_};
    if (eventfds_[vector]) {
        signal(eventfds_[vector].get());
    } else {
        pending_.set(vector);
    }
}

bool Interrupts::has(unsigned vector) noexcept {
    const std::lock_guard lock{lock_};
    return static_cast<bool>(eventfds_[vector]);
}

Result<> Interrupts::set(unsigned start, std::vector<UniqueFd> eventfds) {
    if (!std::ranges::all_of(eventfds, [](const UniqueFd& fd) { return is_eventfd(fd.get()); })) {
        return fail(std::errc::invalid_argument);
    }
    const std::lock_guard lock{lock_};
    for (std::size_t i = 0; i < eventfds.size(); ++i) {
        const std::size_t vector = start + i;
        eventfds_[vector] = std::move(eventfds[i]);
        if (pending_.test(vector)) {
            pending_.reset(vector);
            signal(eventfds_[vector].get());
        }
    }
    return {};
}

void Interrupts::clear(unsigned start, unsigned count) noexcept {
    const std::lock_guard lock{lock_};
    for (unsigned i = start; i < start + count; ++i) {
        eventfds_[i] = UniqueFd{};
    }
}

void Interrupts::clear_all() noexcept {
    clear(0, count() + 1);
    const std::lock_guard lock{lock_};
    pending_.reset();
}

} // namespace vrdma::vfio_user
