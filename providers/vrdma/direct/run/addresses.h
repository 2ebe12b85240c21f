/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The addresses that devices were given, and the interfaces of this host that carry them. */
#ifndef VRDMA_RUN_ADDRESSES_H
#define VRDMA_RUN_ADDRESSES_H

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdbool.h>

union vrdma_run_address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* Takes the next address from a comma-separated list. False at the end of the list. */
bool vrdma_run_next_address(const char **list, union vrdma_run_address *address);

/* The stock getifaddrs(); its list is for vrdma_run_free_host(). */
int vrdma_run_get_host(struct ifaddrs **host);
void vrdma_run_free_host(struct ifaddrs *host);

/* Returns the first entry, from `host` on, that has the address. NULL if none has it. */
const struct ifaddrs *vrdma_run_find_address(const struct ifaddrs *host,
					     const union vrdma_run_address *address);

#endif /* VRDMA_RUN_ADDRESSES_H */
