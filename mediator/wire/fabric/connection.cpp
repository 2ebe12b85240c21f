// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/connection.h"

#include <rdma/fi_errno.h>

#include <algorithm>

namespace vrdma::wire::fabric {

Result<std::unique_ptr<Connection>> Connection::make(SharedFabric fabric, Info info) {
    auto events = EventQueue::open(std::move(fabric));
    if (!events) {
        return vrdma::fail(events.error());
    }
    std::unique_ptr<Connection> connection{new Connection{std::move(info), std::move(*events)}};
    long error = connection->open_queue();
    if (error == 0) {
        error = connection->register_memory();
    }
    if (error == 0) {
        error = connection->open_endpoint();
    }
    if (error != 0) {
        return fail_fabric(error);
    }
    return connection;
}

Result<std::unique_ptr<Connection>> Connection::connect(Info to) {
    auto fabric = open_fabric(*to);
    if (!fabric) {
        return vrdma::fail(fabric.error());
    }
    auto made = make(std::move(*fabric), std::move(to));
    if (made) {
        Connection& c = **made;
        const int error = ::fi_connect(c.endpoint_.get(), c.info_->dest_addr, nullptr, 0);
        if (error != 0) {
            return fail_fabric(error);
        }
    }
    return made;
}

Result<std::unique_ptr<Connection>> Connection::accept(SharedFabric fabric, Info request) {
    auto made = make(std::move(fabric), std::move(request));
    if (made) {
        if (const int error = ::fi_accept((*made)->endpoint_.get(), nullptr, 0); error != 0) {
            return fail_fabric(error);
        }
    }
    return made;
}

long Connection::open_queue() noexcept {
    fid_domain* domain = nullptr;
    if (const int error = ::fi_domain(events_.fabric.get(), info_.get(), &domain, nullptr)) {
        return error;
    }
    domain_.reset(domain);
    fi_cq_attr attributes{};
    attributes.size = 4 * messages;
    attributes.format = FI_CQ_FORMAT_MSG;
    attributes.wait_obj = FI_WAIT_FD;
    fid_cq* queue = nullptr;
    if (const int error = ::fi_cq_open(domain, &attributes, &queue, nullptr)) {
        return error;
    }
    queue_.reset(queue);
    return ::fi_control(&queue->fid, FI_GETWAIT, &fd_);
}

long Connection::register_memory() noexcept {
    memory_ = std::make_unique<std::array<Message, 2 * messages>>();
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
        buffers_[i].message = &(*memory_)[i];
        buffers_[i].sends = i < messages;
        if (buffers_[i].sends) {
            free_[free_count_++] = &buffers_[i];
        }
    }
    if ((info_->domain_attr->mr_mode & FI_MR_LOCAL) == 0) {
        return 0;
    }
    fid_mr* region = nullptr;
    const int error = ::fi_mr_reg(domain_.get(), memory_.get(), sizeof(*memory_), FI_SEND | FI_RECV,
                                  0, 0, 0, &region, nullptr);
    region_.reset(region);
    return error;
}

long Connection::open_endpoint() noexcept {
    fid_ep* endpoint = nullptr;
    if (const int error = ::fi_endpoint(domain_.get(), info_.get(), &endpoint, nullptr)) {
        return error;
    }
    endpoint_.reset(endpoint);
    int error = ::fi_ep_bind(endpoint, &events_.eq->fid, 0);
    if (error == 0) {
        error = ::fi_ep_bind(endpoint, &queue_->fid, FI_TRANSMIT | FI_RECV);
    }
    if (error == 0) {
        error = ::fi_enable(endpoint);
    }
    if (error != 0) {
        return error;
    }
    const auto receives = std::span{buffers_}.subspan(messages);
    return std::ranges::all_of(receives, [this](Buffer& buffer) { return post_receive(buffer); })
               ? 0
               : -FI_EIO;
}

Connection::Event Connection::next_event() noexcept {
    constexpr int most = 64;
    for (int i = 0; i < most; ++i) {
        fi_eq_cm_entry entry{};
        std::uint32_t event = 0;
        const auto got = ::fi_eq_read(events_.eq.get(), &event, &entry, sizeof(entry), 0);
        if (got >= 0) {
            return event == FI_CONNECTED ? Event::connected : Event::failed;
        }
        if (got != -FI_EAGAIN) {
            return Event::failed;
        }
        if (events_.quiet()) {
            return Event::none;
        }
    }
    return Event::none;
}

bool Connection::post_receive(Buffer& buffer) noexcept {
    return ::fi_recv(endpoint_.get(), buffer.message->bytes.data(), message_size, descriptor(), 0,
                     &buffer.context) == 0;
}

// What does not go now is tried again by the next flush.
bool Connection::send(Buffer& buffer, std::size_t bytes) noexcept {
    const auto error = ::fi_send(endpoint_.get(), buffer.message->bytes.data(), bytes, descriptor(),
                                 0, &buffer.context);
    failed_ |= error != 0 && error != -FI_EAGAIN;
    return error == 0;
}

std::span<std::byte> Connection::prepare() noexcept {
    if (open_ != nullptr) {
        if (const auto room = writer_.prepare(); !room.empty()) {
            return room;
        }
        flush();
    }
    if (open_ != nullptr || (free_count_ == 0 && (poll(), free_count_ == 0))) {
        return {};
    }
    open_ = free_[--free_count_];
    writer_ = MessageWriter{open_->message->bytes};
    return writer_.prepare();
}

void Connection::flush() noexcept {
    if (open_ != nullptr && writer_.size() != 0 && send(*open_, writer_.size())) {
        open_ = nullptr;
    }
}

// Whoever has no room for it has other messages under way, which say as much.
void Connection::say_alive() noexcept {
    if (open_ == nullptr && free_count_ != 0 && send(*free_[free_count_ - 1], 0)) {
        --free_count_;
    }
}

bool Connection::poll() noexcept {
    std::array<fi_cq_msg_entry, 2 * messages> entries;
    const auto got = ::fi_cq_read(queue_.get(), entries.data(), entries.size());
    if (got < 0) {
        failed_ |= got != -FI_EAGAIN;
        return false;
    }
    for (const fi_cq_msg_entry& entry : std::span{entries}.first(static_cast<std::size_t>(got))) {
        complete(entry);
    }
    return got != 0;
}

void Connection::complete(const fi_cq_msg_entry& entry) noexcept {
    const auto buffer = std::ranges::find_if(
        buffers_, [&](const Buffer& b) { return &b.context == entry.op_context; });
    if (buffer == buffers_.end()) {
        failed_ = true;
    } else if (buffer->sends) {
        free_[free_count_++] = &*buffer;
    } else {
        ++heard_;
        const std::size_t at = (arrived_first_ + arrived_count_++) % arrived_.size();
        arrived_[at] = {&*buffer, entry.len};
    }
}

bool Connection::quiet() const noexcept {
    fid* queue = &queue_->fid;
    return ::fi_trywait(events_.fabric.get(), &queue, 1) == 0;
}

std::span<std::byte> Connection::receive() noexcept {
    while (frame_.empty()) {
        frame_ = reader_.next();
        failed_ |= reader_.malformed();
        if (failed_ || !frame_.empty()) {
            break;
        }
        if (read_ != nullptr) {
            failed_ |= !post_receive(*read_);
            read_ = nullptr;
        }
        if (arrived_count_ == 0) {
            return {};
        }
        const Arrived& arrived = arrived_[arrived_first_];
        arrived_first_ = (arrived_first_ + 1) % arrived_.size();
        --arrived_count_;
        read_ = arrived.buffer;
        reader_ = MessageReader{
            std::span{read_->message->bytes}.first(std::min(arrived.size, message_size))};
    }
    return failed_ ? std::span<std::byte>{} : frame_;
}

} // namespace vrdma::wire::fabric
