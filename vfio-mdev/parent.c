// SPDX-License-Identifier: GPL-2.0-only
/*
 * An HCA as the parent of mediated devices: a device of the bus "vrdma", whose types are therefore
 * named vrdma-<type>. The bus has no drivers, because only this file uses the HCA.
 *
 * An HCA that has devices stays when its mediator goes; the next mediator that registers the name
 * gets them. Locks: registry_lock, then mdev's (unreg_sem), then hca->lock. Creation and removal of
 * a device run inside mdev's lock, so they leave the removal of an HCA to reap_work.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "vrdma_mdev.h"

#define BUS_NAME "vrdma"

static struct bus_type vrdma_bus = {
	.name = BUS_NAME,
};

static struct device *root; /* /sys/devices/vrdma, where the HCAs are */

static DEFINE_MUTEX(registry_lock);
static LIST_HEAD(registry);

static struct vrdma_hca *hca_of(struct mdev_type *mtype)
{
	return container_of(mtype->parent, struct vrdma_hca, parent);
}

static u32 instances(struct vrdma_hca *hca)
{
	u32 count;

	mutex_lock(&hca->lock);
	count = hca->instances;
	mutex_unlock(&hca->lock);
	return count;
}

static void remove_hca(struct vrdma_hca *hca)
{
	lockdep_assert_held(&registry_lock);
	list_del(&hca->node);
	mdev_unregister_parent(&hca->parent);
	device_unregister(&hca->device);
}

static void reap(struct work_struct *work)
{
	struct vrdma_hca *hca, *next;

	mutex_lock(&registry_lock);
	list_for_each_entry_safe(hca, next, &registry, node) {
		if (hca->owned || instances(hca))
			continue;
		remove_hca(hca);
	}
	mutex_unlock(&registry_lock);
}

static DECLARE_WORK(reap_work, reap);

/* Reserves an instance of a type for a device that is about to be created. */
int vrdma_hca_admit(struct vrdma_hca *hca, u32 type)
{
	int ret = 0;

	mutex_lock(&hca->lock);
	if (!hca->serving) {
		ret = -ENODEV;
	} else if (hca->types[type].instances == hca->spec.types[type].max_instances) {
		ret = -ENOSPC;
	} else {
		hca->types[type].instances++;
		hca->instances++;
	}
	mutex_unlock(&hca->lock);
	return ret;
}

void vrdma_hca_dismiss(struct vrdma_hca *hca, u32 type)
{
	mutex_lock(&hca->lock);
	hca->types[type].instances--;
	hca->instances--;
	mutex_unlock(&hca->lock);
	schedule_work(&reap_work);
}

unsigned int vrdma_hca_available(struct mdev_type *mtype)
{
	struct vrdma_hca *hca = hca_of(mtype);
	struct vrdma_type *type = container_of(mtype, struct vrdma_type, mdev);
	unsigned int available = 0;

	mutex_lock(&hca->lock);
	if (hca->serving)
		available = hca->spec.types[type - hca->types].max_instances - type->instances;
	mutex_unlock(&hca->lock);
	return available;
}

ssize_t vrdma_hca_describe(struct mdev_type *mtype, char *buf)
{
	struct vrdma_hca *hca = hca_of(mtype);
	struct vrdma_type *type = container_of(mtype, struct vrdma_type, mdev);

	return sysfs_emit(buf, "%s\n", hca->spec.types[type - hca->types].description);
}

bool vrdma_hca_has_uplink(struct mdev_type *mtype, const char *name)
{
	struct vrdma_hca *hca = hca_of(mtype);
	bool found = false;
	u32 i;

	mutex_lock(&hca->lock);
	for (i = 0; i < hca->spec.num_uplinks && !found; i++)
		found = !strcmp(hca->spec.uplinks[i], name);
	mutex_unlock(&hca->lock);
	return found;
}

void vrdma_hca_default_uplink(struct mdev_type *mtype, char name[VRDMA_MDEV_UPLINK_SIZE])
{
	struct vrdma_hca *hca = hca_of(mtype);
	struct vrdma_type *type = container_of(mtype, struct vrdma_type, mdev);

	mutex_lock(&hca->lock);
	memcpy(name, hca->spec.types[type - hca->types].uplink, VRDMA_MDEV_UPLINK_SIZE);
	mutex_unlock(&hca->lock);
}

static void hca_release(struct device *device)
{
	struct vrdma_hca *hca = container_of(device, struct vrdma_hca, device);

	xa_destroy(&hca->devices);
	kfree(hca);
}

/* Frees the HCA if it fails. */
static int add_hca(struct vrdma_hca *hca)
{
	int ret;

	device_initialize(&hca->device);
	hca->device.bus = &vrdma_bus;
	hca->device.parent = root;
	hca->device.release = hca_release;
	ret = dev_set_name(&hca->device, "%s", hca->spec.name);
	if (ret)
		goto err_put;
	ret = device_add(&hca->device);
	if (ret)
		goto err_put;
	ret = mdev_register_parent(&hca->parent, &hca->device, &vrdma_mdev_driver, hca->mdev_types,
				   hca->spec.num_types);
	if (ret)
		goto err_del;
	return 0;

err_del:
	device_del(&hca->device);
err_put:
	put_device(&hca->device);
	return ret;
}

static struct vrdma_hca *create_hca(const struct vrdma_mdev_register *spec)
{
	struct vrdma_hca *hca;
	u32 i;
	int ret;

	hca = kzalloc(sizeof(*hca), GFP_KERNEL);
	if (!hca)
		return ERR_PTR(-ENOMEM);
	mutex_init(&hca->read_lock);
	mutex_init(&hca->lock);
	init_waitqueue_head(&hca->wait);
	xa_init_flags(&hca->devices, XA_FLAGS_ALLOC);
	hca->spec = *spec;
	for (i = 0; i < spec->num_types; i++) {
		struct vrdma_type *type = &hca->types[i];

		snprintf(type->pretty_name, sizeof(type->pretty_name), BUS_NAME "-%s",
			 hca->spec.types[i].name);
		type->mdev.sysfs_name = hca->spec.types[i].name;
		type->mdev.pretty_name = type->pretty_name;
		hca->mdev_types[i] = &type->mdev;
	}
	hca->owned = true;
	hca->serving = true;
	ret = add_hca(hca);
	return ret ? ERR_PTR(ret) : hca;
}

static struct vrdma_hca *find_hca(const char *name)
{
	struct vrdma_hca *hca;

	lockdep_assert_held(&registry_lock);
	list_for_each_entry(hca, &registry, node)
		if (!strcmp(hca->spec.name, name))
			return hca;
	return NULL;
}

/* The description may change with the mediator's version; the properties of devices must not. */
static bool same_types(const struct vrdma_mdev_register *a, const struct vrdma_mdev_register *b)
{
	u32 i;

	if (a->num_types != b->num_types)
		return false;
	for (i = 0; i < a->num_types; i++) {
		const struct vrdma_mdev_type *x = &a->types[i], *y = &b->types[i];

		if (strcmp(x->name, y->name) || x->max_instances != y->max_instances ||
		    x->doorbell_pages != y->doorbell_pages || x->vectors != y->vectors ||
		    x->personality != y->personality || x->max_pinned != y->max_pinned)
			return false;
	}
	return true;
}

static void take_uplinks(struct vrdma_mdev_register *to, const struct vrdma_mdev_register *from)
{
	u32 i;

	to->num_uplinks = from->num_uplinks;
	memcpy(to->uplinks, from->uplinks, sizeof(to->uplinks));
	for (i = 0; i < from->num_types; i++)
		memcpy(to->types[i].uplink, from->types[i].uplink, sizeof(to->types[i].uplink));
}

/*
 * Announces the devices of an earlier mediator to the next one, which may have other uplinks. A
 * device keeps the uplink name that was written for it. Whether that uplink exists is checked when
 * the device is enabled.
 */
static void adopt_hca(struct vrdma_hca *hca, const struct vrdma_mdev_register *spec)
{
	unsigned long id;
	void *entry;

	mutex_lock(&hca->lock);
	xa_for_each(&hca->devices, id, entry)
		xa_set_mark(&hca->devices, id, VRDMA_EVENT_PENDING);
	take_uplinks(&hca->spec, spec);
	hca->serving = true;
	mutex_unlock(&hca->lock);
	hca->owned = true;
}

struct vrdma_hca *vrdma_hca_register(const struct vrdma_mdev_register *spec)
{
	struct vrdma_hca *hca;

	mutex_lock(&registry_lock);
	hca = find_hca(spec->name);
	if (hca && hca->owned) {
		hca = ERR_PTR(-EBUSY);
	} else if (hca && instances(hca)) {
		if (same_types(&hca->spec, spec))
			adopt_hca(hca, spec);
		else
			hca = ERR_PTR(-EINVAL);
	} else {
		if (hca) {
			/* reap_work has not removed it yet. */
			remove_hca(hca);
		}
		hca = create_hca(spec);
		if (!IS_ERR(hca))
			list_add_tail(&hca->node, &registry);
	}
	mutex_unlock(&registry_lock);
	return hca;
}

/* Abandons each device without hca->lock, because its VM may be resetting it. */
static void abandon_devices(struct vrdma_hca *hca)
{
	struct vrdma_device *dev;
	unsigned long id = 0;
	void *entry;

	for (;;) {
		mutex_lock(&hca->lock);
		entry = xa_find_after(&hca->devices, &id, ULONG_MAX, XA_PRESENT);
		if (entry == VRDMA_REMOVED)
			xa_erase(&hca->devices, id);
		dev = !entry || xa_is_value(entry) ? NULL : vrdma_device_get(entry);
		mutex_unlock(&hca->lock);

		if (!entry)
			return;
		if (!dev)
			continue;
		vrdma_abandon(dev);
		vrdma_device_put(dev);
	}
}

/* The mediator closed its fd, or died. */
void vrdma_hca_release(struct vrdma_hca *hca)
{
	mutex_lock(&hca->lock);
	hca->serving = false;
	mutex_unlock(&hca->lock);
	abandon_devices(hca);

	mutex_lock(&registry_lock);
	hca->owned = false;
	mutex_unlock(&registry_lock);
	schedule_work(&reap_work);
}

int vrdma_parent_init(void)
{
	int ret;

	ret = mdev_register_driver(&vrdma_mdev_driver);
	if (ret)
		return ret;
	ret = bus_register(&vrdma_bus);
	if (ret)
		goto err_driver;
	root = root_device_register(BUS_NAME);
	if (IS_ERR(root)) {
		ret = PTR_ERR(root);
		goto err_bus;
	}
	return 0;

err_bus:
	bus_unregister(&vrdma_bus);
err_driver:
	mdev_unregister_driver(&vrdma_mdev_driver);
	return ret;
}

/* No fd of ours is open any more, but HCAs with unused devices may be left. */
void vrdma_parent_exit(void)
{
	struct vrdma_hca *hca, *next;

	mutex_lock(&registry_lock);
	list_for_each_entry_safe(hca, next, &registry, node)
		remove_hca(hca);
	mutex_unlock(&registry_lock);
	flush_work(&reap_work);
	root_device_unregister(root);
	bus_unregister(&vrdma_bus);
	mdev_unregister_driver(&vrdma_mdev_driver);
}
