// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/memory/fault_guard.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <initializer_list>
#include <mutex>
#include <utility>

#include "mediator/memory/shared_words.h"

namespace vrdma {
namespace {

constexpr std::size_t max_guards = 1024;
constexpr std::size_t no_slot = max_guards;

struct Slot {
    std::atomic<std::byte*> base{nullptr};
    std::atomic<std::uint64_t> size{0}; // 0: free
    std::uint64_t faults = 0;           // of many threads
};

std::array<Slot, max_guards> slots;
std::mutex slots_lock; // for who takes and frees one
struct sigaction previous_segv {};
struct sigaction previous_bus {};

Slot* find(const std::byte* address) noexcept {
    for (Slot& slot : slots) {
        const std::uint64_t size = slot.size.load(std::memory_order_acquire);
        const std::byte* const base = slot.base.load(std::memory_order_relaxed);
        if (size != 0 && address >= base && address < base + size) {
            return &slot;
        }
    }
    return nullptr;
}

// The smallest page that can be put there: a mapping of huge pages cannot be cut within one. By the
// system call, as in a signal handler nothing else is safe.
bool put_scratch(std::byte* address) noexcept {
    for (const std::uint64_t page : {1ull << 12, 1ull << 21, 1ull << 30}) {
        std::byte* const start = address - reinterpret_cast<std::uintptr_t>(address) % page;
        if (::syscall(SYS_mmap, start, page, static_cast<long>(PROT_READ | PROT_WRITE),
                      static_cast<long>(MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE),
                      -1L, 0L) != -1) {
            return true;
        }
    }
    return false;
}

void on_fault(int signal, siginfo_t* info, void*) noexcept {
    const int error = errno;
    auto* const address = static_cast<std::byte*>(info->si_addr);
    Slot* const slot = find(address);
    if (slot != nullptr && put_scratch(address)) {
        std::atomic_ref{slot->faults}.fetch_add(1, std::memory_order_release);
    } else { // and fault again
        ::sigaction(signal, signal == SIGBUS ? &previous_bus : &previous_segv, nullptr);
    }
    errno = error;
}

bool install_handler() noexcept {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    return ::sigaction(SIGSEGV, &action, &previous_segv) == 0 &&
           ::sigaction(SIGBUS, &action, &previous_bus) == 0;
}

} // namespace

Result<FaultGuard> FaultGuard::create(std::byte* base, std::uint64_t size) {
    static const bool installed = install_handler();
    if (!installed) {
        return fail(std::errc::operation_not_supported);
    }
    const std::lock_guard lock{slots_lock};
    for (std::size_t i = 0; i < max_guards; ++i) {
        if (slots[i].size.load(std::memory_order_relaxed) == 0) {
            slots[i].base.store(base, std::memory_order_relaxed);
            store_relaxed(slots[i].faults, std::uint64_t{0});
            slots[i].size.store(size, std::memory_order_release);
            return FaultGuard{i};
        }
    }
    return fail(std::errc::not_enough_memory);
}

FaultGuard::FaultGuard(FaultGuard&& other) noexcept : slot_{std::exchange(other.slot_, no_slot)} {}

FaultGuard::~FaultGuard() {
    if (slot_ != no_slot) {
        const std::lock_guard lock{slots_lock};
        slots[slot_].size.store(0, std::memory_order_release);
    }
}

const std::uint64_t& FaultGuard::faults() const noexcept {
    return slots[slot_].faults;
}

} // namespace vrdma
