// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/memory/fault_times.h"

#include <linux/perf_event.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <ctime>
#include <utility>

#include "mediator/base/errno.h"
#include "mediator/memory/fault_guard.h"

namespace vrdma {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t ring_words = FaultTimes::ring_size / sizeof(std::uint64_t);

UniqueFd open_event(std::uint64_t kind, bool switches) {
    perf_event_attr attr{};
    attr.size = sizeof(attr);
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = kind;
    attr.sample_period = 1;
    attr.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR;
    attr.sample_id_all = 1; // switches have the time as well
    attr.context_switch = switches ? 1 : 0;
    attr.exclude_kernel = 1; // faults of system calls, which fail instead of waiting for a client
    attr.exclude_hv = 1;
    attr.use_clockid = 1;
    attr.clockid = CLOCK_MONOTONIC;
    attr.watermark = 1; // nobody is to be woken
    attr.wakeup_watermark = FaultTimes::ring_size;
    constexpr int this_thread = 0;
    constexpr int any_processor = -1;
    return UniqueFd{static_cast<int>(::syscall(SYS_perf_event_open, &attr, this_thread,
                                               any_processor, -1, PERF_FLAG_FD_CLOEXEC))};
}

} // namespace

Result<FaultTimes> FaultTimes::of_this_thread() {
    FaultTimes times;
    if (const auto opened = times.open(); !opened) {
        static std::atomic_flag warned; // warn once; such threads' waits are not counted
        if (!warned.test_and_set()) {
            spdlog::warn("clients whose memory makes others wait are not held back: {}",
                         describe(opened.error()));
        }
        return fail(opened.error());
    }
    return times;
}

Result<> FaultTimes::open() {
    fds_[begin] = open_event(PERF_COUNT_SW_PAGE_FAULTS, true);
    fds_[minor_end] = open_event(PERF_COUNT_SW_PAGE_FAULTS_MIN, false);
    fds_[major_end] = open_event(PERF_COUNT_SW_PAGE_FAULTS_MAJ, false);
    if (!std::ranges::all_of(fds_, [](const UniqueFd& fd) { return bool{fd}; })) {
        return fail_errno();
    }
    auto ring = Mapping::map(fds_[begin].get(), 0, page + ring_size, PROT_READ | PROT_WRITE);
    if (!ring) {
        return fail(ring.error());
    }
    for (const Event end : {minor_end, major_end}) {
        if (::ioctl(fds_[end].get(), PERF_EVENT_IOC_SET_OUTPUT, fds_[begin].get()) != 0) {
            return fail_errno();
        }
    }
    if (::ioctl(fds_[begin].get(), PERF_EVENT_IOC_ID, &begin_id_) != 0) {
        return fail_errno();
    }
    ring_ = std::move(*ring);
    head_ = &ring_.as<perf_event_mmap_page>()->data_head;
    return {};
}

// A word of the record at the tail.
std::uint64_t FaultTimes::word(std::size_t index) const noexcept {
    return ring_.as<std::uint64_t>(page)[(tail_ / sizeof(std::uint64_t) + index) % ring_words];
}

// If a thread has more faults between two calls than the ring has room for, the rest is lost.
void FaultTimes::read_records() noexcept {
    const std::uint64_t end = load_acquire(*head_);
    while (tail_ != end) {
        read_record();
    }
    store_release(ring_.as<perf_event_mmap_page>()->data_tail,
                  static_cast<unsigned long long>(tail_));
}

// A fault that ends in a signal has no sample at its end. The thread then touches the same address
// again.
void FaultTimes::read_record() noexcept {
    const auto header = std::bit_cast<perf_event_header>(word(0));
    if (header.type == PERF_RECORD_SAMPLE) {
        const std::uint64_t id = word(1);
        const std::uint64_t now = word(2);
        end(now);
        if (id == begin_id_) {
            fault_ = {.address = word(3), .since = now};
        }
    } else if (header.type == PERF_RECORD_SWITCH) {
        note_switch((header.misc & PERF_RECORD_MISC_SWITCH_OUT) != 0,
                    (header.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0, word(1));
    } else if (header.type == PERF_RECORD_LOST) {
        fault_ = {};
    }
    tail_ += header.size;
}

void FaultTimes::note_switch(bool out, bool preemption, std::uint64_t now) noexcept {
    if (out) {
        fault_.left = now;
        fault_.preemption = preemption;
    } else if (fault_.left != 0) {
        (fault_.preemption ? fault_.preempted : fault_.slept) += now - fault_.left;
        fault_.left = 0;
    }
}

void FaultTimes::end(std::uint64_t now) noexcept {
    const Fault fault = std::exchange(fault_, {});
    if (fault.address == 0) {
        return;
    }
    const std::uint64_t away = fault.slept + fault.preempted;
    const std::uint64_t lasted = now - fault.since;
    const std::uint64_t busy = lasted > away ? lasted - away : 0;
    const auto beyond = [](std::uint64_t time, std::chrono::nanoseconds usual) {
        const auto allowed = static_cast<std::uint64_t>(usual.count());
        return time > allowed ? time - allowed : 0;
    };
    const std::uint64_t cost = beyond(fault.slept, ordinary_sleep) + beyond(busy, ordinary);
    if (cost != 0) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is not dereferenced
        FaultGuard::blame(reinterpret_cast<const std::byte*>(fault.address),
                          std::chrono::nanoseconds{cost});
    }
}

} // namespace vrdma
