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

/* Takes the next one off a list that has commas between them; false at its end. */
bool vrdma_run_next_address(const char **list, union vrdma_run_address *address);

/* The stock getifaddrs(); its list is for vrdma_run_free_host(). */
int vrdma_run_get_host(struct ifaddrs **host);
void vrdma_run_free_host(struct ifaddrs *host);

/* The first entry, from this one on, that tells of the address; NULL if none does. */
const struct ifaddrs *vrdma_run_find_address(const struct ifaddrs *host,
					     const union vrdma_run_address *address);

#endif /* VRDMA_RUN_ADDRESSES_H */
