/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#define _GNU_SOURCE
#include "addresses.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static bool parse(const char *text, union vrdma_run_address *address)
{
	memset(address, 0, sizeof(*address));
	address->sa.sa_family = AF_INET;
	if (inet_pton(AF_INET, text, &address->in.sin_addr) == 1)
		return true;
	address->sa.sa_family = AF_INET6;
	return inet_pton(AF_INET6, text, &address->in6.sin6_addr) == 1;
}

/* Skips entries that are not addresses: a device cannot be opened with such an entry anyway. */
bool vrdma_run_next_address(const char **list, union vrdma_run_address *address)
{
	bool found = false;

	while (*list && **list && !found) {
		char text[INET6_ADDRSTRLEN];
		size_t length = strcspn(*list, ",");

		found = snprintf(text, sizeof(text), "%.*s", (int)length, *list) <
				(int)sizeof(text) &&
			parse(text, address);
		*list += length + ((*list)[length] == ',');
	}
	return found;
}

int vrdma_run_get_host(struct ifaddrs **host)
{
	int (*stock)(struct ifaddrs **) = (int (*)(struct ifaddrs **))dlsym(RTLD_NEXT,
									    "getifaddrs");

	return stock(host);
}

void vrdma_run_free_host(struct ifaddrs *host)
{
	void (*stock)(struct ifaddrs *) = (void (*)(struct ifaddrs *))dlsym(RTLD_NEXT,
									    "freeifaddrs");

	stock(host);
}

static bool is_same(const struct sockaddr *one, const union vrdma_run_address *other)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)one;
	const struct sockaddr_in *in = (const struct sockaddr_in *)one;

	if (!one || one->sa_family != other->sa.sa_family)
		return false;
	if (one->sa_family == AF_INET)
		return in->sin_addr.s_addr == other->in.sin_addr.s_addr;
	return IN6_ARE_ADDR_EQUAL(&in6->sin6_addr, &other->in6.sin6_addr);
}

const struct ifaddrs *vrdma_run_find_address(const struct ifaddrs *host,
					     const union vrdma_run_address *address)
{
	while (host && !is_same(host->ifa_addr, address))
		host = host->ifa_next;
	return host;
}
