// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/memory/fault_guard.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <initializer_list>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "mediator/memory/fault_handlers.h"
#include "mediator/memory/shared_words.h"

namespace vrdma {
namespace {

constexpr std::size_t max_guards = 1024;
constexpr std::size_t no_slot = max_guards;
constexpr std::size_t spare_size = 1 << 12;

struct Slot {
    std::atomic<std::byte*> base{nullptr};
    std::atomic<std::uint64_t> size{0}; // 0: free
    std::atomic<bool> overwhelmed{false};
    int alarm = -1;
    std::atomic<std::byte*> spare{nullptr}; // a mapping to give up if no other can be had
    std::uint64_t faults = 0;               // counted by many threads
    std::atomic<std::int64_t> cost{0};      // of touches, in ns
    std::atomic<FaultGuard::Filler*> filler{nullptr};
};

std::array<Slot, max_guards> slots;
std::array<ScratchPages, max_guards> scratch_pages; // of each slot
std::atomic<std::size_t> slots_used{0};             // slots from there on were never used
std::shared_mutex slots_lock; // exclusive to take and free a slot, shared to blame one
void (*handler)(int, siginfo_t*, void*) = nullptr; // while it is not null, it is installed
struct sigaction previous_segv {};
struct sigaction previous_bus {};

Slot* find(const std::byte* address) noexcept {
    const std::size_t used = slots_used.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < used; ++i) {
        Slot& slot = slots[i];
        const std::uint64_t size = slot.size.load(std::memory_order_acquire);
        const std::byte* const base = slot.base.load(std::memory_order_relaxed);
        if (size != 0 && address >= base && address < base + size) {
            return &slot;
        }
    }
    return nullptr;
}

// Uses the raw system call: in a signal handler, nothing else is safe.
bool put_mapping(std::byte* start, std::uint64_t size) noexcept {
    return ::syscall(SYS_mmap, start, size, static_cast<long>(PROT_READ | PROT_WRITE),
                     static_cast<long>(MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE),
                     -1L, 0L) != -1;
}

// Puts the smallest page that can be mapped there: a mapping of huge pages cannot be cut within one
// (EINVAL). The page never reaches beyond the range, into memory of others.
ScratchPages::Page put_scratch(const Slot& slot, std::byte* address) noexcept {
    std::byte* const base = slot.base.load(std::memory_order_relaxed);
    std::byte* const end = base + slot.size.load(std::memory_order_relaxed);
    for (const unsigned shift : {12u, 21u, 30u}) {
        const std::uint64_t size = std::uint64_t{1} << shift;
        std::byte* const start = address - reinterpret_cast<std::uintptr_t>(address) % size;
        if (start < base || start + size > end) {
            break;
        }
        if (put_mapping(start, size)) {
            return {start, shift};
        }
        if (errno != EINVAL) {
            break;
        }
    }
    return {};
}

// The mapping by which a process reaches its limit of mappings may be one that split its
// neighbours. Then no mapping can be made, not even in the place of others, before one is given up.
void give_up_spare(Slot& slot) noexcept {
    if (std::byte* const spare = slot.spare.exchange(nullptr); spare != nullptr) {
        ::syscall(SYS_munmap, spare, spare_size);
    }
}

void raise_alarm(const Slot& slot) noexcept {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(slot.alarm, &one, sizeof(one)));
}

// Puts one mapping in the place of many.
bool overwhelm(Slot& slot) noexcept {
    std::byte* const base = slot.base.load(std::memory_order_relaxed);
    const std::uint64_t size = slot.size.load(std::memory_order_relaxed);
    if (!put_mapping(base, size)) {
        give_up_spare(slot);
        if (!put_mapping(base, size)) {
            return false;
        }
    }
    slot.overwhelmed.store(true);
    raise_alarm(slot);
    return true;
}

// A page with a memory error is not one that can be made.
bool is_filled(const Slot& slot, const siginfo_t& info) noexcept {
    FaultGuard::Filler* const filler = slot.filler.load(std::memory_order_acquire);
    return filler != nullptr && info.si_signo == SIGBUS && info.si_code == BUS_ADRERR &&
           filler->fill(static_cast<std::byte*>(info.si_addr));
}

// Forgets the pages of a range that is shown anew, or that nobody uses any more.
void forget(ScratchPages& pages, const Slot& slot) noexcept {
    std::byte* const base = slot.base.load(std::memory_order_relaxed);
    pages.take_away(base, base + slot.size.load(std::memory_order_relaxed),
                    [](const ScratchPages::Page&) { return true; });
}

// The spare is shared memory, which the kernel never merges with another mapping.
void take_spare(Slot& slot) noexcept {
    void* const spare = slot.spare.load() == nullptr ? ::mmap(nullptr, spare_size, PROT_NONE,
                                                              MAP_SHARED | MAP_ANONYMOUS, -1, 0)
                                                     : MAP_FAILED;
    if (spare != MAP_FAILED) {
        slot.spare.store(static_cast<std::byte*>(spare));
    }
}

struct sigaction action_of_handler() noexcept {
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    return action;
}

bool install_handler(void (*on_fault)(int, siginfo_t*, void*)) noexcept {
    handler = on_fault;
    const auto action = action_of_handler();
    return ::sigaction(SIGSEGV, &action, &previous_segv) == 0 &&
           ::sigaction(SIGBUS, &action, &previous_bus) == 0;
}

} // namespace

void handle_faults_again() noexcept {
    if (handler != nullptr) {
        const auto action = action_of_handler();
        ::sigaction(SIGSEGV, &action, nullptr);
        ::sigaction(SIGBUS, &action, nullptr);
    }
}

void FaultGuard::on_fault(int signal, siginfo_t* info, void*) noexcept {
    const int error = errno;
    met_.store(met() + 1, std::memory_order_relaxed);
    auto* const address = static_cast<std::byte*>(info->si_addr);
    Slot* const slot = find(address);
    if (slot != nullptr && is_filled(*slot, *info)) {
        errno = error;
        return;
    }
    if (slot != nullptr && (scratch_pages[static_cast<std::size_t>(slot - slots.data())].add([&] {
            return put_scratch(*slot, address);
        }) || overwhelm(*slot))) {
        std::atomic_ref{slot->faults}.fetch_add(1, std::memory_order_release);
    } else { // the previous handler gets the fault when it repeats
        ::sigaction(signal, signal == SIGBUS ? &previous_bus : &previous_segv, nullptr);
    }
    errno = error;
}

Result<FaultGuard> FaultGuard::create(std::byte* base, std::uint64_t size, int alarm) {
    static const bool installed = install_handler(on_fault);
    if (!installed) {
        return fail(std::errc::operation_not_supported);
    }
    const std::lock_guard lock{slots_lock};
    for (std::size_t i = 0; i < max_guards; ++i) {
        if (slots[i].size.load(std::memory_order_relaxed) == 0) {
            slots[i].base.store(base, std::memory_order_relaxed);
            slots[i].overwhelmed.store(false, std::memory_order_relaxed);
            slots[i].alarm = alarm;
            take_spare(slots[i]);
            store_relaxed(slots[i].faults, std::uint64_t{0});
            slots[i].cost.store(0, std::memory_order_relaxed);
            slots[i].filler.store(nullptr, std::memory_order_relaxed);
            slots[i].size.store(size, std::memory_order_release);
            slots_used.store(std::max(slots_used.load(), i + 1), std::memory_order_release);
            return FaultGuard{i};
        }
    }
    return fail(std::errc::not_enough_memory);
}

FaultGuard::FaultGuard(FaultGuard&& other) noexcept : slot_{std::exchange(other.slot_, no_slot)} {}

FaultGuard::~FaultGuard() {
    if (slot_ != no_slot) {
        const std::lock_guard lock{slots_lock};
        forget(scratch_pages[slot_], slots[slot_]);
        slots[slot_].size.store(0, std::memory_order_release);
        give_up_spare(slots[slot_]);
    }
}

// Nobody touches a range that is being removed, but somebody may have touched it before. A poller
// does not wait while another thread takes or frees a slot.
void FaultGuard::blame(const std::byte* address, std::chrono::nanoseconds cost) noexcept {
    const std::shared_lock lock{slots_lock, std::try_to_lock};
    Slot* const slot = lock ? find(address) : nullptr;
    if (slot != nullptr) {
        slot->cost.fetch_add(cost.count());
        raise_alarm(*slot);
    }
}

void FaultGuard::fill_by(Filler* filler) noexcept {
    slots[slot_].filler.store(filler, std::memory_order_release);
}

std::chrono::nanoseconds FaultGuard::cost() const noexcept {
    return std::chrono::nanoseconds{slots[slot_].cost.load()};
}

std::chrono::nanoseconds FaultGuard::take_cost() noexcept {
    return std::chrono::nanoseconds{slots[slot_].cost.exchange(0)};
}

const std::uint64_t& FaultGuard::faults() const noexcept {
    return slots[slot_].faults;
}

ScratchPages& FaultGuard::scratch() noexcept {
    return scratch_pages[slot_];
}

bool FaultGuard::overwhelmed() const noexcept {
    return slots[slot_].overwhelmed.load();
}

void FaultGuard::recovered() noexcept {
    forget(scratch_pages[slot_], slots[slot_]);
    take_spare(slots[slot_]);
    slots[slot_].overwhelmed.store(false);
}

} // namespace vrdma
