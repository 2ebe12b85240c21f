/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A spinlock that is not taken if the program has promised to use the object from one thread: by a
 * thread domain (ibv_alloc_td(3)) or IBV_CREATE_CQ_ATTR_SINGLE_THREADED.
 */
#ifndef VRDMA_LOCK_H
#define VRDMA_LOCK_H

#include <pthread.h>
#include <stdbool.h>

struct vrdma_lock {
	pthread_spinlock_t spin;
	bool needed;
};

static inline void vrdma_lock_init(struct vrdma_lock *lock)
{
	pthread_spin_init(&lock->spin, PTHREAD_PROCESS_PRIVATE);
	lock->needed = true;
}

static inline void vrdma_lock_destroy(struct vrdma_lock *lock)
{
	pthread_spin_destroy(&lock->spin);
}

static inline void vrdma_lock_take(struct vrdma_lock *lock)
{
	if (lock->needed)
		pthread_spin_lock(&lock->spin);
}

static inline void vrdma_lock_drop(struct vrdma_lock *lock)
{
	if (lock->needed)
		pthread_spin_unlock(&lock->spin);
}

#endif /* VRDMA_LOCK_H */
