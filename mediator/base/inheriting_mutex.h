// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A mutex for what pollers share with the control thread. Pollers may be real-time threads: while
// one waits, who holds the mutex runs at its priority (PTHREAD_PRIO_INHERIT), so that no thread in
// between keeps it from letting go. What is done while it is held has a bound, which its owner
// states.
#pragma once

#include <pthread.h>

namespace vrdma {

class InheritingMutex {
  public:
    InheritingMutex() noexcept {
        pthread_mutexattr_t attributes;
        ::pthread_mutexattr_init(&attributes);
        ::pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
        ::pthread_mutex_init(&mutex_, &attributes);
        ::pthread_mutexattr_destroy(&attributes);
    }
    InheritingMutex(const InheritingMutex&) = delete;
    InheritingMutex& operator=(const InheritingMutex&) = delete;
    ~InheritingMutex() { ::pthread_mutex_destroy(&mutex_); }

    void lock() noexcept { ::pthread_mutex_lock(&mutex_); }
    void unlock() noexcept { ::pthread_mutex_unlock(&mutex_); }

  private:
    pthread_mutex_t mutex_;
};

} // namespace vrdma
