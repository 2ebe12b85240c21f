/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "hold.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "faults.h"

/* Odd while a range is held; writers wait for it to change. */
static _Atomic uint32_t generation;
static _Atomic uintptr_t held_start, held_end;

/*
 * The generation in which this thread last wrote again without a wait. In the static TLS block:
 * the handler must not allocate.
 */
static _Thread_local uint32_t retried __attribute__((tls_model("initial-exec")));

static void wait_for_end(uint32_t held)
{
	syscall(SYS_futex, &generation, FUTEX_WAIT_PRIVATE, held, NULL, NULL, 0);
}

bool vrdma_hold_resolve(const siginfo_t *info)
{
	const uintptr_t address = (uintptr_t)info->si_addr;
	uint32_t now;
	bool held;

	if (info->si_code != SEGV_ACCERR)
		return false;
	now = atomic_load(&generation);
	held = now & 1 && address >= atomic_load(&held_start) && address < atomic_load(&held_end);
	if (held)
		wait_for_end(now);
	/* Where it changed meanwhile, the range may have been half of one and half of another. */
	if (held || atomic_load(&generation) != now)
		return true;
	/*
	 * A fault in a range that is held no longer may arrive late, after the end of its hold and
	 * even in the next one; but then it is the thread's first in this generation.
	 */
	if (retried == now)
		return false;
	retried = now;
	return true;
}

int vrdma_hold(void *start, size_t length, int prot)
{
	int error = vrdma_catch_faults();

	if (error)
		return error;
	atomic_store(&held_start, (uintptr_t)start);
	atomic_store(&held_end, (uintptr_t)start + length);
	atomic_fetch_add(&generation, 1);
	if (mprotect(start, length, prot & ~PROT_WRITE) == 0)
		return 0;
	/* Where it failed halfway, what was changed has to be changed back. */
	error = errno;
	mprotect(start, length, prot);
	vrdma_hold_end();
	return error;
}

void vrdma_hold_end(void)
{
	atomic_fetch_add(&generation, 1);
	syscall(SYS_futex, &generation, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
