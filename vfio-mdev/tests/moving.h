/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A VM that moves, and the mediator of its device: VFIO's migration states, their steps and the
 * data.
 */
#ifndef VRDMA_VFIO_MDEV_TESTS_MOVING_H
#define VRDMA_VFIO_MDEV_TESTS_MOVING_H

#include <poll.h>

#include <future>
#include <vector>

#include "mediator.h"
#include "vm.h"

/* Kernel 6.1's header does not have these. */
#ifndef VFIO_MIGRATION_PRE_COPY
#define VFIO_MIGRATION_PRE_COPY (1 << 2)
#define VFIO_DEVICE_STATE_PRE_COPY 6
#define VFIO_DEVICE_STATE_PRE_COPY_P2P 7
#define VFIO_MIG_GET_PRECOPY_INFO _IO(VFIO_TYPE, VFIO_BASE + 21)

struct vfio_precopy_info {
    __u32 argsz;
    __u32 flags;
    __aligned_u64 initial_bytes;
    __aligned_u64 dirty_bytes;
};
#endif

/* VFIO_DEVICE_FEATURE_MIG_DATA_SIZE, which 6.1 does not name. */
constexpr uint32_t mig_data_size = 9;

/* More than the pipe holds, and not a whole number of pages. */
constexpr size_t state_size = 300 * 1000 + 1;

struct Moved {
    int error;
    harness::Fd data;
};

Moved set_state(const Vm& vm, uint32_t state);
uint32_t get_state(const Vm& vm);
/* What the device says its state will be when the VM has stopped, in bytes. */
uint64_t state_size_of(const Vm& vm);
int step_done(const Device& device, uint32_t number, uint32_t error);
int open_transfer(const Device& device);
int end_transfer(const harness::Fd& end, unsigned long error);
std::vector<char> test_state();
/* The mediator writes, and waits for room by poll(). */
void write_all(const harness::Fd& end, const std::vector<char>& bytes);
/* The VM or the mediator reads until the end. The mediator waits by poll(). */
std::vector<char> read_all(const harness::Fd& end);

/* A VM that has a device whose mediator has served all of its resets. */
struct Machine {
    explicit Machine(int number = 1) : served("small", number), vm(served.uuid) {
        served.device.serve_reset();
    }

    /* Starts the VM's thread, which returns when the mediator has taken its steps. */
    std::future<Moved> begin(uint32_t state) const {
        return std::async(std::launch::async, [this, state] { return set_state(vm, state); });
    }
    /* Takes the step, which must be next, with this error. Returns its number. */
    uint32_t take(uint32_t step, uint32_t error = 0) const {
        harness::await(served.device.fd(), POLLIN);
        const auto message = served.device.message();
        CHECK_EQ(message.type, VRDMA_MDEV_MESSAGE_STEP);
        CHECK_EQ(message.offset, step);
        CHECK(step_done(served.device, message.value, error) == 0);
        return message.value;
    }
    void stop() const {
        auto moved = begin(VFIO_DEVICE_STATE_STOP);
        take(VRDMA_MDEV_STEP_FREEZE);
        CHECK_EQ(moved.get().error, 0);
    }
    /* Returns the VM's file. */
    harness::Fd transfer(uint32_t state, uint32_t step) const {
        auto moved = begin(state);
        take(step);
        auto done = moved.get();
        CHECK_EQ(done.error, 0);
        CHECK(done.data.get() >= 0);
        return std::move(done.data);
    }
    harness::Fd save() const {
        stop();
        return transfer(VFIO_DEVICE_STATE_STOP_COPY, VRDMA_MDEV_STEP_SAVE);
    }
    harness::Fd load() const {
        stop();
        return transfer(VFIO_DEVICE_STATE_RESUMING, VRDMA_MDEV_STEP_LOAD);
    }

    Served served;
    Vm vm;
};

#endif /* VRDMA_VFIO_MDEV_TESTS_MOVING_H */
