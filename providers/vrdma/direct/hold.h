/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Holding off those who use a range of memory while its pages are replaced, in one of two ways.
 *
 * Where the process may handle the kernel's own faults (userfaultfd(2): CAP_SYS_PTRACE,
 * vm.unprivileged_userfaultfd, or the right to open /dev/userfaultfd) and the pages are anonymous,
 * they are moved elsewhere at once, by mremap(). Whoever touches the range then, reading or
 * writing, waits in the kernel until the hold ends, system calls as well. Nobody else knows where
 * the pages are, so that who holds them reads what nobody changes.
 *
 * Else the range is made read-only, and a thread that writes to it waits in a SIGSEGV handler until
 * the hold ends, then writes again. What cannot wait then: a system call of another thread that
 * writes into the range fails with EFAULT; and a thread that has SIGSEGV blocked, or whose stack is
 * in the range, is killed by the kernel.
 *
 * In either way a device that writes into the range (O_DIRECT, fixed buffers of io_uring) writes to
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

/* Opens what the first way takes, while the program has not forbidden that to itself yet. */
void vrdma_hold_prepare(void);

/* In the child of a fork(), where what was opened is still the parent's. */
void vrdma_hold_forget(void);

/*
 * One hold at a time, of whole pages whose protection is `prot`. Returns 0 or an errno.
 *
 * Until the hold ends the caller must not touch the range: not allocate, and not take a lock. Where
 * its bytes are meanwhile is `*content`. They are to be read by system calls, as a page there may
 * not be readable.
 */
int vrdma_hold(void *start, size_t length, int prot, bool is_anonymous, const char **content);

/* The caller has replaced the range. */
void vrdma_hold_end(void);

/* It has not: the range becomes what it was. */
void vrdma_hold_undo(void);

/* In the SIGSEGV handler. True where the access is to be made again. */
bool vrdma_hold_resolve(const siginfo_t *info);

#ifdef __cplusplus
}
#endif

#endif /* VRDMA_DIRECT_HOLD_H */
