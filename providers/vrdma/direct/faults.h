/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The SIGSEGV handler. A fault that this library has brought about it resolves, and the access is
 * made again; every other fault goes to the program's own handler, or to what the program has set
 * instead of one.
 */
#ifndef VRDMA_DIRECT_FAULTS_H
#define VRDMA_DIRECT_FAULTS_H

/* Also where the program has set another handler since. Not thread-safe. Returns 0 or an errno. */
int vrdma_catch_faults(void);

#endif /* VRDMA_DIRECT_FAULTS_H */
