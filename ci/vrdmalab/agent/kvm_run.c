// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Preloaded into the QEMUs of guests on hosts with a newer kernel than 6.12.
 *
 * Such a kernel does not emulate an access to a device that happens while an event is delivered to
 * the guest. It ends KVM_RUN with an internal error, and QEMU stops the guest. The kernel finds the
 * event by its type in EXITINTINFO, without a look at the bit that says whether there is one. The
 * processors that QEMU's TCG emulates leave the type of the guest's last exception there. So in the
 * laboratory, a guest may stop at the doorbell of its network device.
 *
 * To enter the guest again repeats the access. Unless an event is really delivered, nothing is left
 * of it then.
 */
#include <linux/kvm.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TRIES = 3 };

/* The page where the kernel tells why KVM_RUN has ended. A thread of QEMU runs one processor. */
static const struct kvm_run* state_of(int processor) {
    static __thread const struct kvm_run* state;

    if (!state) {
        void* page = mmap(NULL, sizeof(struct kvm_run), PROT_READ, MAP_SHARED, processor, 0);

        if (page != MAP_FAILED)
            state = page;
    }
    return state;
}

static bool refused(int processor) {
    const struct kvm_run* state = state_of(processor);

    return state && state->exit_reason == KVM_EXIT_INTERNAL_ERROR &&
           state->internal.suberror == KVM_INTERNAL_ERROR_DELIVERY_EV;
}

int ioctl(int file, unsigned long request, ...) {
    va_list arguments;
    void* argument;
    int result;

    va_start(arguments, request);
    argument = va_arg(arguments, void*);
    va_end(arguments);
    result = syscall(SYS_ioctl, file, request, argument);
    if (request != KVM_RUN)
        return result;
    for (int tries = 1; tries < TRIES && result == 0 && refused(file); ++tries)
        result = syscall(SYS_ioctl, file, request, argument);
    return result;
}
