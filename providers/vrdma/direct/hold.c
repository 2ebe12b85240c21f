/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "hold.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Odd while a range is held; writers wait for it to change. */
static _Atomic uint32_t generation;
static _Atomic uintptr_t held_start, held_end;

/*
 * The generation in which this thread last wrote again without a wait. In the static TLS block:
 * the handler must not allocate.
 */
static _Thread_local uint32_t retried __attribute__((tls_model("initial-exec")));

/*
 * The handler stays when a hold ends, as faults may still be on their way to it. If the program
 * then sets a handler of its own, the next hold puts ours before that one too; the program's may
 * call the one that it replaced. So each time ours is a function of its own, with its own notion
 * of what comes after it.
 */
#define LAYERS 4
static struct sigaction after[LAYERS];

static void wait_for_end(uint32_t held)
{
	syscall(SYS_futex, &generation, FUTEX_WAIT_PRIVATE, held, NULL, NULL, 0);
}

/* True where the access is to be made again. */
static bool is_ours(const siginfo_t *info)
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

static void pass_on(int layer, int number, siginfo_t *info, void *context)
{
	const struct sigaction *action = &after[layer];

	if (action->sa_flags & SA_SIGINFO) {
		action->sa_sigaction(number, info, context);
		return;
	}
	if (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN) {
		action->sa_handler(number);
		return;
	}
	/* A fault happens again when we return, but what kill() sends does not. */
	if (info->si_code <= 0 && action->sa_handler == SIG_IGN)
		return;
	signal(number, SIG_DFL);
	if (info->si_code <= 0)
		raise(number);
}

static void on_fault(int layer, int number, siginfo_t *info, void *context)
{
	const int saved_errno = errno;

	if (!is_ours(info))
		pass_on(layer, number, info, context);
	errno = saved_errno;
}

#define ENTRY(layer)                                                                               \
	static void on_fault_##layer(int number, siginfo_t *info, void *context)                   \
	{                                                                                          \
		on_fault(layer, number, info, context);                                            \
	}
ENTRY(0)
ENTRY(1)
ENTRY(2)
ENTRY(3)

typedef void (*handler)(int number, siginfo_t *info, void *context);
static const handler entries[LAYERS] = {on_fault_0, on_fault_1, on_fault_2, on_fault_3};

static int install_handler(void)
{
	static int layers;
	struct sigaction current, ours = {0};
	int layer;

	if (sigaction(SIGSEGV, NULL, &current))
		return errno;
	for (layer = 0; layer < layers; layer++)
		if (current.sa_sigaction == entries[layer])
			return 0;
	for (layer = 0; layer < layers; layer++)
		if (current.sa_sigaction == after[layer].sa_sigaction)
			break;
	if (layer == LAYERS)
		layer = LAYERS - 1;
	after[layer] = current;
	if (layer == layers)
		layers++;
	ours.sa_sigaction = entries[layer];
	ours.sa_mask = current.sa_mask;
	ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (current.sa_flags & (SA_NODEFER | SA_RESTART));
	return sigaction(SIGSEGV, &ours, NULL) ? errno : 0;
}

int vrdma_hold(void *start, size_t length, int prot)
{
	int error = install_handler();

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
