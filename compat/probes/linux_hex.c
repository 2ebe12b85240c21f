// SPDX-License-Identifier: GPL-2.0-only
/* mac_pton() has a header of its own, or it comes with <linux/kernel.h>. */
#ifdef VRDMA_NEW
#include <linux/hex.h>
#else
#include <linux/kernel.h>
#endif

static inline bool probe(const char *text, u8 *mac)
{
	return mac_pton(text, mac);
}
