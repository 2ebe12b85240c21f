/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The SIGSEGV handler. It resolves faults that this library has caused; the thread then retries the
 * access. Every other fault goes to the program's own handler, or to the action that the program
 * has set instead of one.
 */
#ifndef VRDMA_DIRECT_FAULTS_H
#define VRDMA_DIRECT_FAULTS_H

/*
 * Installs the handler, and again if the program has set another one since. Not thread-safe.
 * Returns 0 or an errno.
 */
int vrdma_catch_faults(void);

#endif /* VRDMA_DIRECT_FAULTS_H */
