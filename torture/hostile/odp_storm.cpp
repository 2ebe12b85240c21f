// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Each message finds pages missing, and waits for them.
#include <sys/mman.h>

#include <csignal>
#include <vector>

#include "torture/hostile/neighbours.h"
#include "torture/hostile/queues.h"

namespace vrdma::torture::hostile {
namespace {

constexpr std::uint32_t queue_pairs = 32;
constexpr std::uint32_t depth = 16;
constexpr std::uint32_t message = 4096;
constexpr std::size_t slots = std::size_t{queue_pairs} * depth;

class Storm {
  public:
    explicit Storm(const Seat& seat) : device_{seat.device, seat.gid_index} {
        for (std::uint32_t i = 0; i < queue_pairs; ++i) {
            qps_.push_back(connected_to_itself(device_, pd_.get(), cq_.get(), depth));
        }
    }

    void forget_pages() const {
        check(::madvise(region_.data(), region_.size(), MADV_DONTNEED) != 0 ? errno : 0, "madvise");
    }
    // Posts as many requests as there is room for, each to a page of its own.
    void post_all() {
        for (; free_ > 0; --free_) {
            const std::uint64_t slot = next_++ % slots;
            ibv_sge piece = region_.piece(slot * message, message);
            ibv_send_wr wr = write_request(piece, region_, (slots + slot) * message);
            wr.send_flags = IBV_SEND_SIGNALED;
            if (!post(qps_[slot % queue_pairs].get(), wr)) {
                return;
            }
        }
    }
    void take_all() {
        drain(cq_.get(), [&](const ibv_wc& done) {
            require(done.status == IBV_WC_SUCCESS, ::ibv_wc_status_str(done.status));
            ++free_;
        });
    }

  private:
    Device device_;
    Pd pd_ = make_pd(device_);
    Cq cq_ = make_cq(device_, slots);
    Region region_{pd_.get(), 2 * slots* message, all_access | IBV_ACCESS_ON_DEMAND};
    std::vector<Qp> qps_;
    std::size_t free_ = slots;
    std::uint64_t next_ = 0;
};

} // namespace

void odp_storm(const Seat& seat, Pace& pace) {
    Storm storm{seat};
    while (true) {
        storm.forget_pages();
        storm.post_all();
        pace.rest();
        storm.take_all();
    }
}

// Stops the whole process, including the thread that would answer page faults.
void odp_silence(const Seat& seat, Pace& pace) {
    Storm storm{seat};
    storm.forget_pages();
    storm.post_all();
    while (true) {
        pace.rest();
        static_cast<void>(std::raise(SIGSTOP));
    }
}

} // namespace vrdma::torture::hostile
