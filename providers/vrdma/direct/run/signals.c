/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Keeps SIGSEGV unblocked in all threads. A thread that writes to memory while it is moved waits in
 * the handler of SIGSEGV (see ../hold.h). The kernel kills a thread that has SIGSEGV blocked.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

static struct {
	int (*mask_thread)(int how, const sigset_t *set, sigset_t *old);
	int (*mask_process)(int how, const sigset_t *set, sigset_t *old);
	int (*action)(int number, const struct sigaction *action, struct sigaction *old);
} stock;

__attribute__((constructor)) static void find_stock(void)
{
	stock.mask_thread = (int (*)(int, const sigset_t *, sigset_t *))dlsym(RTLD_NEXT,
									      "pthread_sigmask");
	stock.mask_process = (int (*)(int, const sigset_t *, sigset_t *))dlsym(RTLD_NEXT,
									       "sigprocmask");
	stock.action = (int (*)(int, const struct sigaction *, struct sigaction *))dlsym(
		RTLD_NEXT, "sigaction");
}

static void use_stock(void)
{
	if (!stock.action)
		find_stock();
}

static const sigset_t *without_faults(int how, const sigset_t *set, sigset_t *copy)
{
	if (!set || how == SIG_UNBLOCK)
		return set;
	*copy = *set;
	sigdelset(copy, SIGSEGV);
	return copy;
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t copy;

	use_stock();
	return stock.mask_thread(how, without_faults(how, set, &copy), old);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t copy;

	use_stock();
	return stock.mask_process(how, without_faults(how, set, &copy), old);
}

EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	struct sigaction copy;

	use_stock();
	if (!action)
		return stock.action(number, NULL, old);
	copy = *action;
	sigdelset(&copy.sa_mask, SIGSEGV);
	return stock.action(number, &copy, old);
}
