// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A connection to a peer: frames in and out of sealed messages of libfabric. One thread uses it at
// a time: the control thread until both sides know each other, then the poller. It has a domain,
// queues and buffers of its own, so that it shares nothing with connections of another thread. The
// number of messages that wait for a slow peer is bounded here.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>

#include "mediator/wire/fabric/message.h"
#include "mediator/wire/fabric/provider.h"
#include "mediator/wire/fabric/seal.h"

namespace vrdma::wire::fabric {

class Connection {
  public:
    static constexpr std::size_t messages = 8; // in each direction

    // Begins to connect; an event reports the outcome.
    static Result<std::unique_ptr<Connection>> connect(Info to);
    static Result<std::unique_ptr<Connection>> accept(const Listener& listener, Info request);
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection();

    // For use until it is connected.
    enum class Event : std::uint8_t { none, connected, failed };
    int event_fd() const noexcept { return events_.fd(); }
    Event next_event() noexcept;

    // Until both sides know each other, messages are sent as they are. A message that was heard is
    // valid until the next one.
    bool say(std::span<const std::byte> message) noexcept;
    std::span<const std::byte> hear() noexcept { return next_message(); }
    // From the next message on, each message is sealed.
    void seal(Seals seals) noexcept { seals_ = std::move(seals); }

    // Room for the next frame; empty while the peer takes no more.
    std::span<std::byte> prepare() noexcept;
    void commit(std::size_t bytes) noexcept { writer_.commit(bytes); }
    // Sends the frames that were committed, or a message that says that we live.
    void flush() noexcept;
    void say_alive() noexcept;
    // Sends the message that libfabric did not take at a flush.
    void send_sealed() noexcept;

    // A frame that poll() has found; valid until release().
    std::span<std::byte> receive() noexcept;
    void release() noexcept { frame_ = {}; }
    // Looks for messages, and for room. Returns whether it found anything.
    bool poll() noexcept;
    // Nothing has come since poll(). If anything comes, the fd tells.
    bool quiet() const noexcept;
    int fd() const noexcept { return fd_; }

    // receive() has messages to read.
    bool has_arrived() const noexcept { return read_ != nullptr || arrived_count_ != 0; }

    // The connection cannot be used any more.
    bool failed() const noexcept { return failed_; }
    void fail() noexcept { failed_ = true; }
    // The number of messages that have come.
    std::uint64_t heard() const noexcept { return heard_; }

    Connection* next = nullptr; // in the list of those handed back

  private:
    struct Message {
        std::array<std::byte, message_size> bytes;
    };
    // The context by which libfabric names a buffer in a completion.
    struct Buffer {
        Message* message = nullptr;
        bool sends = false;
        fi_context context{};
    };

    Connection(Info info, EventQueue events) : info_{std::move(info)}, events_{std::move(events)} {}

    // `has_endpoint` says whether there was an endpoint, even if there is no connection.
    static Result<std::unique_ptr<Connection>> make(SharedFabric fabric, Info info,
                                                    bool* has_endpoint = nullptr);
    long open_queue() noexcept;
    long open_endpoint() noexcept;
    long register_memory() noexcept;
    bool post_receive(Buffer& buffer) noexcept;
    std::span<std::byte> next_message() noexcept;
    bool open_next() noexcept;
    void send_open() noexcept;
    std::size_t seal_open() noexcept;
    bool send(Buffer& buffer, std::size_t bytes) noexcept;
    void complete(const fi_cq_msg_entry& entry) noexcept;
    void* descriptor() const noexcept { return region_ ? ::fi_mr_desc(region_.get()) : nullptr; }

    // The members are closed in reverse order, as libfabric requires.
    Info info_;
    EventQueue events_;
    Fid<fid_domain> domain_;
    std::unique_ptr<std::array<Message, 2 * messages>> memory_;
    Fid<fid_mr> region_;
    Fid<fid_cq> queue_;
    Fid<fid_ep> endpoint_;
    int fd_ = -1;

    std::array<Buffer, 2 * messages> buffers_;
    std::array<Buffer*, messages> free_{}; // to send
    std::size_t free_count_ = 0;
    Buffer* open_ = nullptr; // the one that writer_ fills
    MessageWriter writer_;
    std::size_t sealed_ = 0; // bytes of it, once it only has to be sent
    std::optional<Seals> seals_;

    struct Arrived {
        Buffer* buffer = nullptr;
        std::size_t size = 0;
    };
    std::array<Arrived, messages> arrived_{}; // a ring
    std::size_t arrived_first_ = 0;
    std::size_t arrived_count_ = 0;
    Buffer* read_ = nullptr; // the one that reader_ reads
    MessageReader reader_;
    std::span<std::byte> frame_;

    std::uint64_t heard_ = 0;
    bool failed_ = false;
};

} // namespace vrdma::wire::fabric
