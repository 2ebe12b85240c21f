/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "faults.h"

#include <errno.h>
#include <stdbool.h>

#include "heaps.h"
#include "hold.h"

/*
 * The handler stays installed, because faults may still be on their way to it. If the program then
 * sets a handler of its own, the next vrdma_catch_faults() installs ours in front of that one too.
 * The program's handler may call the one that it replaced. So each time, ours is another function,
 * with another action that comes after it.
 */
#define LAYERS 4
static struct sigaction after[LAYERS];

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
	/* A fault happens again when we return, but a signal from kill() does not. */
	if (info->si_code <= 0 && action->sa_handler == SIG_IGN)
		return;
	signal(number, SIG_DFL);
	if (info->si_code <= 0)
		raise(number);
}

static void on_fault(int layer, int number, siginfo_t *info, void *context)
{
	const int saved_errno = errno;

	if (!vrdma_hold_resolve(info) && !vrdma_heaps_resolve(info))
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

int vrdma_catch_faults(void)
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
