// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A mutex for data that pollers share with the control thread. Pollers may be real-time threads.
// While one waits, the thread that holds the mutex runs at the poller's priority
// (PTHREAD_PRIO_INHERIT), so that no thread of a priority in between delays the unlock. The work
// under the mutex is bounded; the owner of the mutex states the bound.
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
