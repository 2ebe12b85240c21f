/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A hold makes threads wait that use a range of memory while its pages are replaced. It works in
 * one of two ways.
 *
 * The first way needs anonymous pages, and the right to handle faults of the kernel
 * (userfaultfd(2): CAP_SYS_PTRACE, vm.unprivileged_userfaultfd, or the right to open
 * /dev/userfaultfd). mremap() moves the pages elsewhere at once. A thread that then reads or writes
 * the range waits in the kernel until the hold ends, also in a system call. No other thread knows
 * where the pages are. So nothing changes them while the holder reads them.
 *
 * The second way makes the range read-only. A thread that writes to it waits in a SIGSEGV handler
 * until the hold ends, then writes again. Two cases cannot wait. A system call of another thread
 * that writes into the range fails with EFAULT. The kernel kills a thread that has SIGSEGV blocked,
 * or whose stack is in the range.
 *
 * Either way, a device that writes into the range (O_DIRECT, fixed buffers of io_uring) writes to
 * the old pages.
 */
#ifndef VRDMA_DIRECT_HOLD_H
#define VRDMA_DIRECT_HOLD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opens the userfaultfd of the first way, before the program gives up its right to that. */
void vrdma_hold_prepare(void);

/* Closes it. Also for the child of a fork(), where it is still the parent's. */
void vrdma_hold_forget(void);

/*
 * Holds whole pages, whose protection is `prot`. There may be only one hold at a time. Returns 0 or
 * an errno.
 *
 * Until the hold ends, the caller must not touch the range, so it must not allocate memory or take
 * a lock. `*content` is where the range's bytes are meanwhile. The caller must read them by system
 * calls, because a page there may not be readable.
 */
int vrdma_hold(void *start, size_t length, int prot, bool is_anonymous, const char **content);

/* Ends a hold after the caller has replaced the range. */
void vrdma_hold_end(void);

/* Ends a hold and makes the range what it was. */
void vrdma_hold_undo(void);

/* In the SIGSEGV handler. True if the thread is to retry the access. */
bool vrdma_hold_resolve(const siginfo_t *info);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_HOLD_H */
