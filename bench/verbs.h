// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// RAII wrappers of libibverbs. A failure ends the program with a message, because a benchmark
// cannot continue.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

namespace vrdma::bench {

template <auto release>
struct Release {
    template <typename T>
    void operator()(T* object) const {
        release(object);
    }
};

void check(int error, const char* what);

// Anonymous memory, not touched yet.
class Memory {
  public:
    explicit Memory(std::size_t size);
    std::span<std::byte> bytes() const { return {start_.get(), size_}; }
    std::size_t size() const { return size_; }

  private:
    struct Unmap {
        std::size_t size;
        void operator()(std::byte* start) const;
    };

    std::size_t size_;
    std::unique_ptr<std::byte, Unmap> start_;
};

using Pd = std::unique_ptr<ibv_pd, Release<ibv_dealloc_pd>>;
using Cq = std::unique_ptr<ibv_cq, Release<ibv_destroy_cq>>;
using Srq = std::unique_ptr<ibv_srq, Release<ibv_destroy_srq>>;
using Ah = std::unique_ptr<ibv_ah, Release<ibv_destroy_ah>>;

// An open device with a PD, a CQ and a completion channel.
class Device {
  public:
    static constexpr int default_cq_entries = 4096;

    // The device vrdma<index>, as vrdma-run names them. If the environment has VRDMA_BENCH_DEVICE,
    // that device is used for any index.
    explicit Device(unsigned index, int cq_entries = default_cq_entries);

    ibv_pd* pd() const { return pd_.get(); }
    ibv_cq* cq() const { return cq_.get(); }
    const ibv_gid& gid() const { return gid_; }
    static constexpr int gid_index = 1; // link-local, RoCE v2

    Pd make_pd() const;
    Cq make_cq(std::uint32_t depth) const;
    Srq make_srq(std::uint32_t depth) const;
    Ah make_ah() const; // to itself

    // Polls completions, at most as many as fit.
    std::span<ibv_wc> poll(std::span<ibv_wc> completions) const;
    // Spins until there is one.
    void await_completion() const;
    void await_event() const;

  private:
    std::unique_ptr<ibv_context, Release<ibv_close_device>> context_;
    Pd pd_;
    std::unique_ptr<ibv_comp_channel, Release<ibv_destroy_comp_channel>> channel_;
    Cq cq_;
    ibv_gid gid_{};
};

using Mr = std::unique_ptr<ibv_mr, Release<ibv_dereg_mr>>;
Mr register_memory(const Device& device, const Memory& memory);

// Registered memory.
class Region {
  public:
    Region(const Device& device, std::size_t size)
        : memory_{size}, mr_{register_memory(device, memory_)} {}

    std::byte* data() const { return memory_.bytes().data(); }
    std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(data()); }
    std::uint32_t rkey() const { return mr_->rkey; }
    ibv_sge sge(std::size_t size, std::size_t offset = 0) const {
        return {address() + offset, static_cast<std::uint32_t>(size), mr_->lkey};
    }

  private:
    Memory memory_;
    Mr mr_;
};

// An RDMA WRITE of the memory that `from` names. `from` must outlive it. The WRITE is inline if it
// is small enough.
ibv_send_wr write_request(ibv_sge& from, const Region& to);

// Spins until the device has written that value.
inline void await(const std::uint64_t& word, std::uint64_t value) {
    while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) != value) {
    }
}

// An RC QP of a device.
class Qp {
  public:
    static constexpr std::uint8_t default_timeout = 14; // 67 ms, see ibv_modify_qp(3)

    Qp(const Device& device, std::uint32_t depth);

    void initialize() const;
    void ready_to_receive(const Qp& peer) const;
    void ready_to_send(std::uint8_t timeout = default_timeout) const;
    void to_state(ibv_qp_state state) const; // ERR or RESET
    ibv_qp_state query() const;
    void connect(const Qp& peer, std::uint8_t timeout = default_timeout) const {
        initialize();
        ready_to_receive(peer);
        ready_to_send(timeout);
    }

    void post(ibv_send_wr& list) const;
    void post_receive(std::uint64_t id, ibv_sge sge) const;

    static constexpr std::uint32_t max_inline = 40;

  private:
    const Device& device_;
    std::unique_ptr<ibv_qp, Release<ibv_destroy_qp>> qp_;
};

// Two devices of one vrdmad with a connection. One thread plays both.
class Pair {
  public:
    static constexpr std::uint32_t depth = 256;

    // Uses the devices `first` and `first + 1`.
    explicit Pair(unsigned first, std::size_t region_size = 1 << 20,
                  int cq_entries = Device::default_cq_entries);
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;
    ~Pair() = default;

    Device a, b;
    Region a_region, b_region;
    Qp a_qp, b_qp;
};

void connect_both(const Qp& a, const Qp& b);

// Makes `count` more connections of the pair's devices, over which nothing is sent.
std::deque<Qp> connect_idle(const Pair& pair, std::int64_t count);

} // namespace vrdma::bench
