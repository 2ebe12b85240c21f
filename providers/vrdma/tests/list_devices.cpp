// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Prints the RDMA devices for which libibverbs found a provider, as ibv_devices does.
#include <cstdio>

#include <infiniband/verbs.h>

int main()
{
	int count = 0;
	ibv_device **devices = ibv_get_device_list(&count);

	if (!devices) {
		perror("ibv_get_device_list");
		return 1;
	}
	for (int i = 0; i < count; i++)
		printf("device %s\n", ibv_get_device_name(devices[i]));
	ibv_free_device_list(devices);
	return 0;
}
