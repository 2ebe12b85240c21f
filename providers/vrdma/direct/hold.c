/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "hold.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vrdma/device.h>

#include "faults.h"

#define GUARD ((size_t)VRDMA_PAGE_SIZE)

/* Odd while a range is held; writers wait for it to change. */
static _Atomic uint32_t generation;
static _Atomic uintptr_t held_start, held_end;

/*
 * The generation in which this thread last retried an access without a wait. It is in the static
 * TLS block, because the handler must not allocate.
 */
static _Thread_local uint32_t retried __attribute__((tls_model("initial-exec")));

static void wait_for_end(uint32_t held)
{
	syscall(SYS_futex, &generation, FUTEX_WAIT_PRIVATE, held, NULL, NULL, 0);
}

bool vrdma_hold_resolve(const siginfo_t *info)
{
	const uintptr_t address = (uintptr_t)info->si_addr;
	uint32_t now;
	bool held;

	if (info->si_code != SEGV_ACCERR)
		return false;
	now = atomic_load(&generation);
	held = now & 1 && address >= atomic_load(&held_start) && address < atomic_load(&held_end);
	if (held)
		wait_for_end(now);
	/* If it changed meanwhile, start and end may have been those of two holds. */
	if (held || atomic_load(&generation) != now)
		return true;
	/*
	 * A fault may arrive late, after the hold of its range has ended, and even during the next
	 * hold. But then it is the thread's first fault in this generation.
	 */
	if (retried == now)
		return false;
	retried = now;
	return true;
}

/* The range that is held. */
static struct {
	char *start;
	size_t length;
	int prot;
	char *content; /* not at start: threads that touch the range wait in a page fault */
} current;

/* --- Holding by protection --- */

static void wake_writers(void)
{
	atomic_fetch_add(&generation, 1);
	syscall(SYS_futex, &generation, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static int protect(void)
{
	int error = vrdma_catch_faults();

	if (error)
		return error;
	atomic_store(&held_start, (uintptr_t)current.start);
	atomic_store(&held_end, (uintptr_t)current.start + current.length);
	atomic_fetch_add(&generation, 1);
	if (mprotect(current.start, current.length, current.prot & ~PROT_WRITE) == 0)
		return 0;
	/* It may have failed halfway, and have changed a part of the range. */
	error = errno;
	mprotect(current.start, current.length, current.prot);
	wake_writers();
	return error;
}

/* --- Holding by page faults --- */

static int faults = -1; /* a userfaultfd(2) that makes faults of the kernel wait, too */

static int open_faults(void)
{
	const int flags = O_CLOEXEC | O_NONBLOCK;
	int fd = (int)syscall(SYS_userfaultfd, flags);
	int device;

	if (fd >= 0)
		return fd;
	device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC); /* Linux 6.1 */
	if (device < 0)
		return -1;
	fd = ioctl(device, USERFAULTFD_IOC_NEW, flags);
	close(device);
	return fd;
}

void vrdma_hold_prepare(void)
{
	struct uffdio_api api = {.api = UFFD_API};

	if (faults >= 0)
		return;
	faults = open_faults();
	if (faults >= 0 && ioctl(faults, UFFDIO_API, &api))
		vrdma_hold_forget();
}

void vrdma_hold_forget(void)
{
	if (faults >= 0)
		close(faults);
	faults = -1;
}

static struct uffdio_range held_range(void)
{
	return (struct uffdio_range){(uintptr_t)current.start, current.length};
}

/*
 * Returns room for the pages, between two guards that nobody may touch. Without the guards, the
 * room could border on the range. The kernel could then merge both into one mapping, for which it
 * knows of no userfaultfd.
 *
 * System calls bypass the C library, because ThreadSanitizer must learn neither the pages' place
 * nor that they move there.
 */
static char *make_room(void)
{
	const long start = syscall(SYS_mmap, NULL, current.length + 2 * GUARD, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return start == -1 ? NULL : (char *)start + GUARD;
}

static void free_room(char *room)
{
	syscall(SYS_munmap, room - GUARD, current.length + 2 * GUARD);
}

static bool move_away(void)
{
	struct uffdio_range range = held_range();
	struct uffdio_register absent = {.range = range, .mode = UFFDIO_REGISTER_MODE_MISSING};
	char *room = faults < 0 ? NULL : make_room();

	if (!room)
		return false;
	if (ioctl(faults, UFFDIO_REGISTER, &absent))
		goto err_room;
	if (syscall(SYS_mremap, current.start, current.length, current.length,
		    MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, room) == -1)
		goto err_register;
	current.content = room;
	return true;

err_register:
	ioctl(faults, UFFDIO_UNREGISTER, &range);
err_room:
	free_room(room);
	return false;
}

/* The waiting threads then find the new pages of the range. */
static void wake_faults(void)
{
	struct uffdio_range range = held_range();

	ioctl(faults, UFFDIO_WAKE, &range);
}

/* --- Either way --- */

int vrdma_hold(void *start, size_t length, int prot, bool is_anonymous, const char **content)
{
	int error;

	current.start = start;
	current.length = length;
	current.prot = prot;
	current.content = start;
	error = is_anonymous && move_away() ? 0 : protect();
	*content = current.content;
	return error;
}

void vrdma_hold_end(void)
{
	if (current.content == current.start) {
		wake_writers();
		return;
	}
	wake_faults();
	free_room(current.content);
}

/*
 * Must not fail. Both mappings were split off before and have page tables, so this needs no memory.
 * Without the guards, it also stays within the limit on the number of mappings.
 */
void vrdma_hold_undo(void)
{
	if (current.content == current.start) {
		if (mprotect(current.start, current.length, current.prot))
			abort();
		wake_writers();
		return;
	}
	syscall(SYS_munmap, current.content - GUARD, GUARD);
	syscall(SYS_munmap, current.content + current.length, GUARD);
	if (syscall(SYS_mremap, current.content, current.length, current.length,
		    MREMAP_MAYMOVE | MREMAP_FIXED, current.start) == -1)
		abort();
	wake_faults();
}
