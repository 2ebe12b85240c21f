// SPDX-License-Identifier: GPL-2.0-only
/*
 * Attributes of a device, in /sys/bus/mdev/devices/UUID/:
 *   mac         of the function; the guest's vrdma driver finds its network device by it
 *   addresses   prefixes that the guest may use; empty: any
 *   uplink      name of the mediator's uplink that the device's packets use; "none", or empty when
 *               written: the device has no peers on other hosts. Until it is written it is the
 *               type's.
 *   vlans       VLANs of the uplink in which the guest may have addresses, such as "7,100-199", or
 *               "none"; empty: the type's
 *   weight, max_bytes_per_second, max_operations_per_second
 *               share of the mediator's time; empty: the type's. Can be written while a VM has the
 *               device.
 *   pinned      bytes of the VM's memory that are pinned for the mediator now
 * A value that has a meaning of its own has a word, because mdevctl cannot write an empty one.
 * The mediator interprets them. This file stores them, checks their syntax, and checks whether the
 * mediator has the uplink.
 */
#include <linux/etherdevice.h>
#include <linux/sysfs.h>

#include "vrdma_mdev.h"

static struct mdev_type *type_of(struct device *device)
{
	return to_mdev_device(device)->type;
}

static ssize_t mac_show(struct device *device, struct device_attribute *attr, char *buf)
{
	struct vrdma_device *dev = dev_get_drvdata(device);
	u8 mac[ETH_ALEN];

	spin_lock(&dev->state.lock);
	ether_addr_copy(mac, dev->state.mac);
	spin_unlock(&dev->state.lock);
	return sysfs_emit(buf, "%pM\n", mac);
}

static ssize_t mac_store(struct device *device, struct device_attribute *attr, const char *buf,
			 size_t count)
{
	struct vrdma_device *dev = dev_get_drvdata(device);
	const size_t length = 3 * ETH_ALEN - 1;
	u8 mac[ETH_ALEN];
	int ret = count;

	if (count < length || count > length + 1 || (count > length && buf[length] != '\n'))
		return -EINVAL;
	if (!mac_pton(buf, mac) || is_multicast_ether_addr(mac))
		return -EINVAL;

	spin_lock(&dev->state.lock);
	if (dev->state.open)
		ret = -EBUSY;
	else
		ether_addr_copy(dev->state.mac, mac);
	spin_unlock(&dev->state.lock);
	return ret;
}
static DEVICE_ATTR_RW(mac);

static ssize_t addresses_show(struct device *device, struct device_attribute *attr, char *buf)
{
	struct vrdma_device *dev = dev_get_drvdata(device);
	ssize_t ret;

	spin_lock(&dev->state.lock);
	ret = sysfs_emit(buf, "%s\n", dev->state.addresses);
	spin_unlock(&dev->state.lock);
	return ret;
}

static ssize_t addresses_store(struct device *device, struct device_attribute *attr,
			       const char *buf, size_t count)
{
	struct vrdma_device *dev = dev_get_drvdata(device);
	size_t length = strcspn(buf, "\n");
	int ret = count;

	if (length + 1 < count || length >= VRDMA_MDEV_ADDRESSES_SIZE)
		return -EINVAL;
	if (strspn(buf, "0123456789abcdefABCDEF.:/,") != length)
		return -EINVAL;

	spin_lock(&dev->state.lock);
	if (dev->state.open) {
		ret = -EBUSY;
	} else {
		memset(dev->state.addresses, 0, sizeof(dev->state.addresses));
		memcpy(dev->state.addresses, buf, length);
	}
	spin_unlock(&dev->state.lock);
	return ret;
}
static DEVICE_ATTR_RW(addresses);

static ssize_t uplink_show(struct device *device, struct device_attribute *attr, char *buf)
{
	struct vrdma_device *dev = dev_get_drvdata(device);
	char name[VRDMA_MDEV_UPLINK_SIZE];
	bool set;

	spin_lock(&dev->state.lock);
	set = dev->state.uplink_set;
	memcpy(name, dev->state.uplink, sizeof(name));
	spin_unlock(&dev->state.lock);
	if (!set)
		vrdma_hca_default_uplink(type_of(device), name);
	return sysfs_emit(buf, "%s\n", name[0] ? name : VRDMA_NO_UPLINK);
}

static ssize_t uplink_store(struct device *device, struct device_attribute *attr, const char *buf,
			    size_t count)
{
	struct vrdma_device *dev = dev_get_drvdata(device);
	size_t length = strcspn(buf, "\n");
	char name[VRDMA_MDEV_UPLINK_SIZE] = {};
	int ret = count;

	if (length + 1 < count || length >= sizeof(name))
		return -EINVAL;
	if (length && !sysfs_streq(buf, VRDMA_NO_UPLINK)) {
		memcpy(name, buf, length);
		if (!vrdma_valid_uplink(name))
			return -EINVAL;
		if (!vrdma_hca_has_uplink(type_of(device), name))
			return -ENODEV;
	}

	spin_lock(&dev->state.lock);
	if (dev->state.open) {
		ret = -EBUSY;
	} else {
		dev->state.uplink_set = true;
		memcpy(dev->state.uplink, name, sizeof(name));
	}
	spin_unlock(&dev->state.lock);
	return ret;
}
static DEVICE_ATTR_RW(uplink);

static ssize_t vlans_show(struct device *device, struct device_attribute *attr, char *buf)
{
	struct vrdma_device *dev = dev_get_drvdata(device);
	struct vrdma_state *state = &dev->state;
	ssize_t ret;

	spin_lock(&state->lock);
	if (!state->vlans_set)
		ret = sysfs_emit(buf, "\n");
	else if (bitmap_empty(state->vlans, VRDMA_MDEV_VLANS))
		ret = sysfs_emit(buf, "none\n");
	else
		ret = sysfs_emit(buf, "%*pbl\n", VRDMA_MDEV_VLANS, state->vlans);
	spin_unlock(&state->lock);
	return ret;
}

static int parse_vlans(const char *text, size_t count, unsigned long *vlans)
{
	int ret;

	if (strcspn(text, "\n") + 1 < count)
		return -EINVAL;
	if (sysfs_streq(text, "") || sysfs_streq(text, "none"))
		return 0;
	ret = bitmap_parselist(text, vlans, VRDMA_MDEV_VLANS);
	if (ret)
		return ret;
	if (bitmap_empty(vlans, VRDMA_MDEV_VLANS))
		return -EINVAL;
	return test_bit(0, vlans) ? -ERANGE : 0;
}

static ssize_t vlans_store(struct device *device, struct device_attribute *attr, const char *buf,
			   size_t count)
{
	struct vrdma_device *dev = dev_get_drvdata(device);
	struct vrdma_state *state = &dev->state;
	DECLARE_BITMAP(vlans, VRDMA_MDEV_VLANS) = {};
	int ret = parse_vlans(buf, count, vlans);

	if (ret)
		return ret;

	spin_lock(&state->lock);
	if (state->open) {
		ret = -EBUSY;
	} else {
		state->vlans_set = !sysfs_streq(buf, "");
		bitmap_copy(state->vlans, vlans, VRDMA_MDEV_VLANS);
	}
	spin_unlock(&state->lock);
	return ret ? ret : count;
}
static DEVICE_ATTR_RW(vlans);

static unsigned int share_value(const struct device_attribute *attr)
{
	const struct dev_ext_attribute *share = container_of(attr, struct dev_ext_attribute, attr);

	return (uintptr_t)share->var;
}

static ssize_t share_show(struct device *device, struct device_attribute *attr, char *buf)
{
	struct vrdma_device *dev = dev_get_drvdata(device);
	const unsigned int which = share_value(attr);
	bool set;
	u64 value;

	spin_lock(&dev->state.lock);
	set = dev->state.share.set & BIT(which);
	value = dev->state.share.values[which];
	spin_unlock(&dev->state.lock);
	return set ? sysfs_emit(buf, "%llu\n", value) : sysfs_emit(buf, "\n");
}

static ssize_t share_store(struct device *device, struct device_attribute *attr, const char *buf,
			   size_t count)
{
	const unsigned int which = share_value(attr);
	const bool set = !sysfs_streq(buf, "");
	u64 value = 0;
	int ret;

	if (set) {
		ret = kstrtou64(buf, 10, &value);
		if (ret)
			return ret;
		if (which == VRDMA_MDEV_SHARE_WEIGHT && (!value || value > VRDMA_MDEV_MAX_WEIGHT))
			return -ERANGE;
	}
	vrdma_state_set_share(dev_get_drvdata(device), which, set, value);
	return count;
}

#define SHARE_ATTR(_name, _which)                                            \
	struct dev_ext_attribute share_attr_##_name = {                      \
		__ATTR(_name, 0644, share_show, share_store), (void *)_which \
	}

static SHARE_ATTR(weight, VRDMA_MDEV_SHARE_WEIGHT);
static SHARE_ATTR(max_bytes_per_second, VRDMA_MDEV_SHARE_MAX_BYTES);
static SHARE_ATTR(max_operations_per_second, VRDMA_MDEV_SHARE_MAX_OPERATIONS);

static ssize_t pinned_show(struct device *device, struct device_attribute *attr, char *buf)
{
	struct vrdma_device *dev = dev_get_drvdata(device);

	return sysfs_emit(buf, "%llu\n", READ_ONCE(dev->window.info->pinned));
}
static DEVICE_ATTR_RO(pinned);

static struct attribute *vrdma_device_attrs[] = {
	&dev_attr_mac.attr,
	&dev_attr_addresses.attr,
	&dev_attr_uplink.attr,
	&dev_attr_vlans.attr,
	&share_attr_weight.attr.attr,
	&share_attr_max_bytes_per_second.attr.attr,
	&share_attr_max_operations_per_second.attr.attr,
	&dev_attr_pinned.attr,
	NULL,
};

static const struct attribute_group vrdma_device_group = {
	.attrs = vrdma_device_attrs,
};

const struct attribute_group *vrdma_device_groups[] = {
	&vrdma_device_group,
	NULL,
};
