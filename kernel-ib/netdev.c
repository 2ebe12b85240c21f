// SPDX-License-Identifier: GPL-2.0-only
/*
 * The netdev that the device is paired with: the guest's NIC with the function's MAC. ib_core makes
 * GIDs of its addresses, and its link is the port's. Programs find it in the function's directory
 * "net", where they look for the netdev of an HCA.
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/sysfs.h>

#include "vrdma_ib.h"

/* Matches only a device of a bus, not a VLAN or bridge that inherits its address. */
static bool vrdma_netdev_matches(struct vrdma_dev *dev, struct net_device *netdev)
{
	return netdev->type == ARPHRD_ETHER && netdev->dev.parent &&
	       ether_addr_equal_unaligned(netdev->perm_addr, dev->fn->id.mac);
}

static void vrdma_netdev_update(struct vrdma_dev *dev)
{
	struct net_device *netdev = dev->netdev;

	if (netdev)
		WRITE_ONCE(dev->netdev_mtu, netdev->mtu);
	vrdma_dev_set_netdev_up(dev, netdev && netif_running(netdev) && netif_carrier_ok(netdev));
}

/* Shows the netdev under its present name, if there is one. */
static void vrdma_netdev_link(struct vrdma_dev *dev)
{
	struct net_device *netdev = dev->netdev;
	int err;

	if (dev->net_link[0])
		sysfs_remove_link(dev->net_dir, dev->net_link);
	dev->net_link[0] = '\0';
	if (!netdev)
		return;
	err = sysfs_create_link(dev->net_dir, &netdev->dev.kobj, netdev->name);
	if (err)
		ibdev_warn(&dev->ibdev, "cannot link netdev %s in sysfs (%pe)\n", netdev->name,
			   ERR_PTR(err));
	else
		strscpy(dev->net_link, netdev->name, sizeof(dev->net_link));
}

static void vrdma_netdev_set(struct vrdma_dev *dev, struct net_device *netdev)
{
	int err = ib_device_set_netdev(&dev->ibdev, netdev, VRDMA_PORT);

	if (err) {
		ibdev_warn(&dev->ibdev, "cannot set the paired netdev to %s (%pe)\n",
			   netdev_name(netdev), ERR_PTR(err));
		return;
	}
	WRITE_ONCE(dev->netdev, netdev); /* read without RTNL too */
	vrdma_netdev_link(dev);
	vrdma_netdev_update(dev);
}

/* SMC uses this operation, and does not know ib_device_set_netdev(). */
struct net_device *vrdma_get_netdev(struct ib_device *ibdev, u32 port)
{
	struct net_device *netdev;

	rcu_read_lock();
	netdev = rcu_dereference(ibdev->port_data[port].netdev);
	dev_hold(netdev);
	rcu_read_unlock();
	return netdev;
}

static int vrdma_netdev_event(struct notifier_block *notifier, unsigned long event, void *info)
{
	struct vrdma_dev *dev = container_of(notifier, struct vrdma_dev, netdev_notifier);
	struct net_device *netdev = netdev_notifier_info_to_dev(info);

	ASSERT_RTNL();
	if (event == NETDEV_REGISTER && !dev->netdev && vrdma_netdev_matches(dev, netdev))
		vrdma_netdev_set(dev, netdev);
	if (netdev != dev->netdev)
		return NOTIFY_DONE;

	switch (event) {
	case NETDEV_UNREGISTER:
		vrdma_netdev_set(dev, NULL);
		break;
	case NETDEV_CHANGENAME:
		vrdma_netdev_link(dev);
		break;
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
	case NETDEV_CHANGEMTU:
		vrdma_netdev_update(dev);
		break;
	}
	return NOTIFY_DONE;
}

/* Registering the notifier reports the netdevs that exist already, unregistering removes them. */
int vrdma_netdev_pair(struct vrdma_dev *dev)
{
	int err;

	dev->net_dir = kobject_create_and_add("net", &dev->fn->pdev->dev.kobj);
	if (!dev->net_dir)
		return -ENOMEM;
	dev->netdev_notifier.notifier_call = vrdma_netdev_event;
	/*
	 * Called before ib_core's notifier, which uses the pairing to find the GIDs of a new
	 * netdev.
	 */
	dev->netdev_notifier.priority = 1;
	err = register_netdevice_notifier(&dev->netdev_notifier);
	if (err)
		kobject_put(dev->net_dir);
	return err;
}

void vrdma_netdev_unpair(struct vrdma_dev *dev)
{
	unregister_netdevice_notifier(&dev->netdev_notifier);
	kobject_put(dev->net_dir);
}
