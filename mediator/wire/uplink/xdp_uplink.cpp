// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/uplink/xdp_uplink.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "mediator/base/errno.h"
#include "mediator/wire/uplink/link.h"

namespace vrdma::wire {
namespace {

constexpr std::size_t max_mtu = XskQueue::max_received - ethernet_and_tag;

// A queue is free a moment after its socket has been closed, by a mode that did not work or by an
// earlier daemon.
Result<XskQueue> open_queue(int link_index, std::uint32_t number, bool zero_copy) {
    constexpr int tries = 100;
    auto queue = XskQueue::create(link_index, number, zero_copy);
    for (int i = 0; i < tries && !queue && queue.error() == std::errc::device_or_resource_busy;
         ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds{10});
        queue = XskQueue::create(link_index, number, zero_copy);
    }
    return queue;
}

template <typename T>
tl::unexpected<std::string> fail_at(const char* what, const Result<T>& result) {
    return tl::unexpected{fmt::format("{}: {}", what, describe(result.error()))};
}

} // namespace

const char* XdpUplink::name_of(Mode mode) noexcept {
    switch (mode) {
        case Mode::zero_copy:
            return "zero-copy";
        case Mode::native:
            return "native";
        case Mode::generic:
            return "generic";
    }
    return "";
}

// Sockets are made before the program is attached: a driver without zero copy reports that before
// anything is changed, and no frame is taken that nobody would get. Packet sockets take long to
// close, so none is open yet when such a driver refuses.
tl::expected<std::unique_ptr<XdpUplink>, std::string> XdpUplink::create(
    const std::string& interface, Mode mode, const Steering& steering) {
    const auto link = read_link(interface);
    if (!link) {
        return fail_at("interface", link);
    }
    if (link->mtu > max_mtu) {
        return tl::unexpected{
            fmt::format("an MTU of {} is more than the {} that it can have", link->mtu, max_mtu)};
    }
    auto program = XdpProgram::load(steering.addresses());
    if (!program) {
        return fail_at("program", program);
    }
    UniqueFd events{::epoll_create1(EPOLL_CLOEXEC)};
    std::unique_ptr<XdpUplink> uplink{new XdpUplink{std::move(*program), std::move(events)}};
    if (const auto added = uplink->add_queues(link->index, mode == Mode::zero_copy); !added) {
        return fail_at(
            added.error() == std::errc::argument_list_too_long ? "too many queues" : "sockets",
            added);
    }
    if (const auto received = uplink->receive_passed(interface); !received) {
        return fail_at("packet socket", received);
    }
    const auto place = mode == Mode::generic ? XdpProgram::Place::stack : XdpProgram::Place::driver;
    if (const auto attached = uplink->program_.attach(link->index, place); !attached) {
        return fail_at("attaching the program", attached);
    }
    return uplink;
}

XdpUplink::XdpUplink(XdpProgram program, UniqueFd events)
    : program_{std::move(program)}, events_{std::move(events)} {
    queues_.reserve(XdpProgram::max_queues);
}

// The number of queues is found by asking for one more.
Result<> XdpUplink::add_queues(int link_index, bool zero_copy) {
    constexpr auto no_such_queue = std::errc::invalid_argument;
    for (std::uint32_t number = 0; number < XdpProgram::max_queues; ++number) {
        auto queue = open_queue(link_index, number, zero_copy);
        if (!queue && queue.error() == no_such_queue && number != 0) {
            return {};
        }
        if (!queue) {
            return fail(queue.error());
        }
        if (auto added = add(std::move(*queue)); !added) {
            return added;
        }
    }
    const bool more = XskQueue::create(link_index, XdpProgram::max_queues, zero_copy).has_value();
    return more ? fail(std::errc::argument_list_too_long) : Result<>{};
}

Result<> XdpUplink::add(XskQueue queue) {
    if (auto watched = watch(queue.fd()); !watched) {
        return watched;
    }
    const auto number = static_cast<std::uint32_t>(queues_.size());
    queues_.push_back(std::move(queue));
    return program_.set_socket(number, queues_.back().fd());
}

Result<> XdpUplink::receive_passed(const std::string& interface) {
    auto passed = PacketUplink::create(interface);
    if (!passed) {
        return fail(passed.error());
    }
    passed_ = std::move(*passed);
    return watch(passed_->fd());
}

Result<> XdpUplink::watch(int fd) const noexcept {
    epoll_event event{};
    event.events = EPOLLIN;
    if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
        return fail_errno();
    }
    return {};
}

std::size_t XdpUplink::frame_size() const noexcept {
    return std::min(passed_->frame_size(), XskQueue::max_received);
}

std::span<std::byte> XdpUplink::prepare(const Mac& /*target*/, std::uint8_t /*priority*/) noexcept {
    if (unflushed_ == XskQueue::batch) {
        flush();
    }
    return queues_.front().prepare();
}

void XdpUplink::commit(std::size_t bytes) noexcept {
    queues_.front().commit(bytes);
    ++unflushed_;
}

void XdpUplink::flush() noexcept {
    if (unflushed_ != 0) {
        refused_ += queues_.front().flush();
        unflushed_ = 0;
    }
}

// Takes one frame of each source in turn, so that none waits for another.
std::span<const std::byte> XdpUplink::receive() noexcept {
    for (std::size_t looked_at = 0; looked_at <= queues_.size(); ++looked_at) {
        const auto frame =
            source_ < queues_.size() ? queues_[source_].receive() : passed_->receive();
        if (!frame.empty()) {
            return frame;
        }
        next_source();
    }
    return {};
}

void XdpUplink::release() noexcept {
    if (source_ < queues_.size()) {
        queues_[source_].release();
    } else {
        passed_->release();
    }
    next_source();
}

void XdpUplink::next_source() noexcept {
    source_ = source_ == queues_.size() ? 0 : source_ + 1;
}

XdpUplink::Losses XdpUplink::losses() noexcept {
    Losses all{refused_, passed_->losses().overrun};
    for (const XskQueue& queue : queues_) {
        all.overrun += queue.overrun();
    }
    return all;
}

} // namespace vrdma::wire
