/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The PDs and MRs of a device, which another context may import. */
#include "device.h"

void vrdma_list_add(struct vrdma_dev *dev, struct vrdma_listed **list, struct vrdma_listed *item)
{
	pthread_mutex_lock(&dev->events.lock);
	item->next = *list;
	item->at = list;
	if (item->next)
		item->next->at = &item->next;
	*list = item;
	pthread_mutex_unlock(&dev->events.lock);
}

/* An object that was imported is in no list. */
void vrdma_list_remove(struct vrdma_dev *dev, struct vrdma_listed *item)
{
	pthread_mutex_lock(&dev->events.lock);
	if (item->at) {
		*item->at = item->next;
		if (item->next)
			item->next->at = item->at;
	}
	pthread_mutex_unlock(&dev->events.lock);
}
