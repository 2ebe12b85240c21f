// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The device under test, and the memory for the messages of one conversation.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "torture/content.h"
#include "torture/random.h"
#include "torture/verbs.h"

namespace vrdma::torture {

constexpr std::uint8_t port = 1;
constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

class Device {
  public:
    // Called for each async event in a thread of its own, before the event is acknowledged.
    using OnEvent = std::function<void(const ibv_async_event&)>;

    Device(const std::string& name, int gid_index, OnEvent on_event = {});
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    ~Device();

    ibv_context* context() const { return context_.get(); }
    const ibv_gid& gid() const { return gid_; }
    std::uint16_t pkey_index() const { return pkey_index_; }
    ibv_ah_attr address(const ibv_gid& to) const;

  private:
    void take_events() const;

    Context context_;
    int gid_index_;
    ibv_gid gid_{};
    std::uint16_t pkey_index_ = 0;
    OnEvent on_event_;
    int stop_;
    std::thread events_; // reads and acknowledges all async events
};

// Memory that was never touched.
class Memory {
  public:
    explicit Memory(std::size_t size);
    std::byte* data() const { return start_.get(); }
    std::size_t size() const { return start_.get_deleter().size; }

  private:
    struct Unmap {
        std::size_t size;
        void operator()(std::byte* start) const;
    };
    std::unique_ptr<std::byte, Unmap> start_;
};

constexpr std::uint32_t longest_message = 64 << 10;
constexpr std::size_t grh_size = 40;

// Slots for messages. Each has room for the longest message, a GRH before it and a guard behind it.
class Arena {
  public:
    static constexpr unsigned messages = 16;
    static constexpr unsigned receives = 32;

    // The data that a peer needs to reach it.
    struct Address {
        std::uint64_t start;
        std::uint32_t rkey;
        std::uint32_t rkey_without_rights;
        std::uint32_t rkey_of_none;
        std::uint64_t target(unsigned index) const { return start + (messages + index) * stride; }
        std::uint64_t end() const { return start + slots * stride; }
    };

    explicit Arena(const Device& device);

    ibv_pd* pd() const { return pd_.get(); }
    std::byte* source(unsigned index) const { return slot(index); }
    std::byte* target(unsigned index) const { return slot(messages + index); }
    std::byte* receive(unsigned index) const { return slot(2 * messages + index); }
    Address address() const;

    // One of the keys of the whole memory, which is registered more than once.
    std::uint32_t lkey(Random& random) const { return random.pick(regions_)->lkey; }
    // Cuts the given memory into at most that many pieces.
    std::vector<ibv_sge> cut(Random& random, const std::byte* start, std::uint32_t length,
                             std::uint32_t pieces) const;
    void register_again();
    // Posts the bind of a window on the whole memory. Afterwards, the peer accesses the memory by
    // the window, until it is registered again.
    void bind_window(ibv_qp* qp);
    // The range for a bind of a window on the whole memory.
    ibv_mw_bind_info whole(int access) const;

  private:
    static constexpr std::size_t stride =
        (longest_message + grh_size + guard_size + 4095) & ~4095ul;
    static constexpr unsigned slots = 2 * messages + receives;

    std::byte* slot(unsigned index) const { return memory_.data() + index * stride; }
    Mr registered(int access) const;
    void drop_window();

    Memory memory_;
    Pd pd_;
    std::array<Mr, 2> regions_;
    Mr without_rights_;
    Mw window_;
    std::uint32_t rkey_of_none_ = 0; // of the last destroyed window, if there was one
};

} // namespace vrdma::torture
