// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/connection.h"

#include <openssl/crypto.h>
#include <rdma/fi_errno.h>

#include <algorithm>

namespace vrdma::wire::fabric {

// Wipes the messages, because nobody needs their content any more.
Connection::~Connection() {
    if (memory_ != nullptr) {
        ::OPENSSL_cleanse(memory_.get(), sizeof(*memory_));
    }
}

Result<std::unique_ptr<Connection>> Connection::make(SharedFabric fabric, Info info,
                                                     bool* has_endpoint) {
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
    if (has_endpoint != nullptr) {
        *has_endpoint = connection->endpoint_ != nullptr;
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

// libfabric owns a request until an endpoint has it. Then the endpoint closes the request's socket.
Result<std::unique_ptr<Connection>> Connection::accept(const Listener& listener, Info request) {
    const fid_t handle = request->handle;
    bool has_endpoint = false;
    auto made = make(listener.fabric(), std::move(request), &has_endpoint);
    if (!has_endpoint) {
        listener.refuse(handle);
    }
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

// False: the message cannot be sent now.
bool Connection::send(Buffer& buffer, std::size_t bytes) noexcept {
    const auto error = ::fi_send(endpoint_.get(), buffer.message->bytes.data(), bytes, descriptor(),
                                 0, &buffer.context);
    failed_ |= error != 0 && error != -FI_EAGAIN;
    return error == 0;
}

std::span<std::byte> Connection::prepare() noexcept {
    if (open_ != nullptr && sealed_ == 0) {
        if (const auto room = writer_.prepare(); !room.empty()) {
            return room;
        }
    }
    flush();
    return open_ == nullptr && open_next() ? writer_.prepare() : std::span<std::byte>{};
}

bool Connection::open_next() noexcept {
    if (free_count_ == 0 && (poll(), free_count_ == 0)) {
        return false;
    }
    open_ = free_[--free_count_];
    writer_ =
        MessageWriter{std::span{open_->message->bytes}.first(message_size - VRDMA_FABRIC_TAG_SIZE)};
    return true;
}

// A sealed message must be sent before another can be filled, even if it has no frames.
void Connection::flush() noexcept {
    if (open_ != nullptr && (sealed_ != 0 || writer_.size() != 0)) {
        send_open();
    }
}

void Connection::send_sealed() noexcept {
    if (sealed_ != 0) {
        send_open();
    }
}

// If no buffer is free, other messages are under way, which tell the peer as much.
void Connection::say_alive() noexcept {
    if (open_ != nullptr || open_next()) {
        send_open();
    }
}

void Connection::send_open() noexcept {
    sealed_ = sealed_ != 0 ? sealed_ : seal_open();
    if (sealed_ != 0 && send(*open_, sealed_)) {
        open_ = nullptr;
        sealed_ = 0;
    }
}

std::size_t Connection::seal_open() noexcept {
    const std::size_t size = writer_.size() + VRDMA_FABRIC_TAG_SIZE;
    const bool sealed =
        seals_.has_value() && seals_->out.seal(std::span{open_->message->bytes}.first(size));
    failed_ |= !sealed;
    return sealed ? size : 0;
}

bool Connection::say(std::span<const std::byte> message) noexcept {
    if (free_count_ == 0 || message.size() > message_size) {
        return false;
    }
    std::ranges::copy(message, free_[free_count_ - 1]->message->bytes.begin());
    const bool said = send(*free_[free_count_ - 1], message.size());
    free_count_ -= said ? 1 : 0;
    return said;
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
    while (frame_.empty() && !failed_) {
        frame_ = reader_.next();
        failed_ |= reader_.malformed();
        if (failed_ || !frame_.empty()) {
            break;
        }
        const auto message = next_message();
        if (message.empty()) {
            return {};
        }
        const auto opened = seals_.has_value() ? seals_->in.open(message) : std::nullopt;
        failed_ |= !opened;
        reader_ = MessageReader{opened.value_or(std::span<std::byte>{})};
    }
    return failed_ ? std::span<std::byte>{} : frame_;
}

// The message before has been read completely.
std::span<std::byte> Connection::next_message() noexcept {
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
    // No message is empty: it has at least a tag.
    failed_ |= arrived.size == 0 || arrived.size > message_size;
    return failed_ ? std::span<std::byte>{} : std::span{read_->message->bytes}.first(arrived.size);
}

} // namespace vrdma::wire::fabric
