/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Holding off the writers of a range of memory while its pages are replaced.
 *
 * The range is made read-only, and a thread that writes to it waits in a SIGSEGV handler until the
 * hold ends, then writes again.
 *
 * What cannot wait: a system call of another thread that writes into the range fails with EFAULT;
 * a device that does (O_DIRECT, fixed buffers of io_uring) writes to the old pages; and a thread
 * that has SIGSEGV blocked, or whose stack is in the range, is killed by the kernel.
 *
 * userfaultfd(2) would let those wait, too, but cannot replace this: it does not take private
 * mappings of files (a program's data), where it is not privileged it fails system calls just so,
 * and containers have it forbidden.
 */
#ifndef VRDMA_DIRECT_HOLD_H
#define VRDMA_DIRECT_HOLD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One hold at a time, of whole pages whose protection is `prot`. Until the hold ends the caller
 * must not write to the range either: not allocate, and not take a lock. Returns 0 or an errno.
 */
int vrdma_hold(void *start, size_t length, int prot);

/* The caller has given the range its protection back, or replaced it. */
void vrdma_hold_end(void);

/* In the SIGSEGV handler. True where the access is to be made again. */
bool vrdma_hold_resolve(const siginfo_t *info);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_HOLD_H */
