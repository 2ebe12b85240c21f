// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Words that the mediator and a guest share: every access is one atomic load or store, with the
// order that the protocols in vrdma/queue.h ask for.
#pragma once

#include <atomic>
#include <bit>

namespace vrdma {

static_assert(std::endian::native == std::endian::little, "shared words are little-endian");

template <typename T>
T load_relaxed(const T& word) noexcept {
    return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_relaxed);
}

template <typename T>
T load_acquire(const T& word) noexcept {
    return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_acquire);
}

template <typename T>
void store_relaxed(T& word, T value) noexcept {
    std::atomic_ref<T>(word).store(value, std::memory_order_relaxed);
}

template <typename T>
void store_release(T& word, T value) noexcept {
    std::atomic_ref<T>(word).store(value, std::memory_order_release);
}

// A store that changes nothing, whatever others store at the same time.
template <typename T>
void store_same(T& word) noexcept {
    const std::atomic_ref<T> shared{word};
    T value = shared.load(std::memory_order_relaxed);
    shared.compare_exchange_strong(value, value, std::memory_order_relaxed);
}

// Orders earlier stores before later loads. Both sides of a wake-up protocol store, then fence,
// then load.
inline void full_fence() noexcept {
#ifdef __SANITIZE_THREAD__ // ThreadSanitizer does not know fences
    static std::atomic<unsigned> ordered{0};
    ordered.fetch_add(1, std::memory_order_seq_cst);
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

} // namespace vrdma
