// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The window onto the VM's memory. */
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "mediator.h"
#include "vm.h"

namespace {

constexpr uint64_t ram_iova = 0x100000000;
constexpr uint64_t ram_pages = 64;
constexpr uint64_t hole_iova = 0x200000000;

/* A running VM with memory at ram_iova, and a live window. */
struct Windowed : Served {
    explicit Windowed(const char* type = "small", int number = 1)
        : Served(type, number), ram(ram_pages * page_size), vm(uuid) {
        CHECK(vm.map(ram_iova, ram.get(), ram.size()) == 0);
        device.serve_reset();
    }
    volatile uint32_t& seen(uint64_t page) const {
        return device.window<uint32_t>(ram_iova + page * page_size);
    }
    volatile uint32_t& own(uint64_t page) const { return ram.at<uint32_t>(page * page_size); }
    uint64_t pinned_pages() const { return pinned(uuid) / page_size; }
    /* UNPIN takes effect after some time. */
    void await_pinned(uint64_t pages) const {
        harness::await([&] { return pinned_pages() == pages; }, "pages are given back");
    }

    Ram ram;
    Vm vm;
};

} // namespace

TEST(window_shows_the_vms_memory) {
    const Windowed w;
    CHECK_EQ(w.pinned_pages(), 0u);
    w.own(3) = 0x1234;
    CHECK_EQ(w.seen(3), 0x1234u);
    CHECK_EQ(w.pinned_pages(), 1u);
    w.seen(4) = 0x5678;
    CHECK_EQ(w.own(4), 0x5678u);
    CHECK_EQ(w.pinned_pages(), 2u);
    w.own(3) = 0x9abc;
    CHECK_EQ(w.seen(3), 0x9abcu);
    CHECK_EQ(w.pinned_pages(), 2u);
    CHECK_EQ(w.device.counters().pinned, 2 * page_size);
    CHECK_EQ(w.device.counters().scratch_faults, 0u);
}

/* The fault is that of a system call's copy, not of a load. */
TEST(window_works_in_system_calls) {
    const Windowed w;
    int ends[2];
    CHECK(pipe(ends) == 0);
    w.own(0) = 0x11223344;
    CHECK_EQ(write(ends[1], w.device.window() + ram_iova, 4), ssize_t{4});
    CHECK_EQ(read(ends[0], w.device.window() + ram_iova + page_size, 4), ssize_t{4});
    CHECK_EQ(w.own(1), 0x11223344u);
}

/* The VM's memory is a file, as with memory-backend-memfd, mapped in part and elsewhere. */
TEST(window_shows_file_memory) {
    const Windowed w;
    const harness::Fd file(memfd_create("ram", MFD_CLOEXEC));
    CHECK(ftruncate(file.get(), 4 * page_size) == 0);
    auto* const memory = static_cast<char*>(
        mmap(nullptr, 4 * page_size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
    CHECK(memory != MAP_FAILED);
    CHECK(w.vm.map(hole_iova, memory + page_size, 2 * page_size) == 0);
    w.device.window<uint32_t>(hole_iova + page_size) = 77;
    CHECK_EQ(memory[2 * page_size], 77);
}

TEST(window_shows_scratch_where_there_is_no_memory) {
    const Windowed w;
    CHECK_EQ(w.device.window<uint32_t>(hole_iova), 0u);
    CHECK_EQ(w.device.counters().scratch_faults, 1u);
    w.device.window<uint32_t>(hole_iova) = 5;
    CHECK_EQ(w.device.window<uint32_t>(VRDMA_MDEV_WINDOW_SIZE - page_size),
             5u); /* one page per device */
    CHECK_EQ(w.device.counters().scratch_faults, 2u);
    CHECK_EQ(w.pinned_pages(), 0u);

    /* Memory that is mapped later is seen after UNPIN. */
    CHECK(w.vm.map(hole_iova, w.ram.get(), page_size) == 0);
    w.own(0) = 6;
    CHECK_EQ(w.device.window<uint32_t>(hole_iova), 5u);
    CHECK(w.device.unpin(hole_iova, page_size) == 0);
    CHECK_EQ(w.device.window<uint32_t>(hole_iova), 6u);
}

/* Memory that the device may not write, such as a ROM, counts as absent. */
TEST(window_shows_scratch_for_read_only_memory) {
    const Windowed w;
    CHECK(w.vm.map(hole_iova, w.ram.get(), page_size, VFIO_DMA_MAP_FLAG_READ) == 0);
    w.own(0) = 1;
    w.device.window<uint32_t>(hole_iova) = 2;
    CHECK_EQ(w.own(0), 1u);
    CHECK_EQ(w.device.counters().scratch_faults, 1u);
}

TEST(window_is_one_devices) {
    const Windowed one;
    CHECK_EQ(create_device("large", test_uuid(2)), 0);
    const Device two(one.hca, one.hca.added());
    one.device.window<uint32_t>(hole_iova) = 5;
    CHECK_EQ(two.window<uint32_t>(hole_iova), 0u);
    CHECK_EQ(two.window<uint32_t>(ram_iova), 0u);
    CHECK_EQ(two.counters().scratch_faults, 2u);
}

TEST(window_keeps_the_pin_limit) {
    const Windowed w;
    for (uint64_t i = 0; i < small_pinned_pages; i++)
        w.seen(i) = 1;
    CHECK_EQ(w.pinned_pages(), small_pinned_pages);
    w.seen(small_pinned_pages) = 1;
    CHECK_EQ(w.own(small_pinned_pages), 0u);
    CHECK_EQ(w.pinned_pages(), small_pinned_pages);
    CHECK_EQ(w.device.counters().scratch_faults, 1u);

    CHECK(w.device.unpin(ram_iova, 2 * page_size) == 0);
    w.await_pinned(small_pinned_pages - 2);
    CHECK(w.device.unpin(ram_iova + small_pinned_pages * page_size, page_size) == 0);
    w.seen(small_pinned_pages) = 1;
    CHECK_EQ(w.own(small_pinned_pages), 1u);
    CHECK_EQ(w.pinned_pages(), small_pinned_pages - 1);
}

/* More pages than one call of VFIO takes, with gaps. */
TEST(window_pins_and_unpins_many) {
    const Windowed w("large");
    constexpr uint64_t pages = 1500;
    const Ram ram(pages * page_size);
    CHECK(w.vm.map(hole_iova, ram.get(), ram.size()) == 0);
    for (uint64_t i = 0; i < pages; i++)
        if (i % 700 != 699)
            w.device.window<uint32_t>(hole_iova + i * page_size) = static_cast<uint32_t>(i);
    CHECK_EQ(w.pinned_pages(), pages - 2);
    CHECK(w.device.unpin(hole_iova, pages * page_size) == 0);
    w.await_pinned(0);
    CHECK_EQ(ram.at<uint32_t>(1400 * page_size), 1400u);
    CHECK_EQ(w.device.window<uint32_t>(hole_iova + 1000 * page_size), 1000u);
}

TEST(window_refuses_bad_unpins) {
    const Windowed w;
    CHECK_ERRNO(w.device.unpin(0, 0), EINVAL);
    CHECK_ERRNO(w.device.unpin(1, page_size), EINVAL);
    CHECK_ERRNO(w.device.unpin(0, page_size + 1), EINVAL);
    CHECK_ERRNO(w.device.unpin(VRDMA_MDEV_WINDOW_SIZE, page_size), EINVAL);
    CHECK_ERRNO(w.device.unpin(~(page_size - 1), page_size), EINVAL);
    CHECK_ERRNO(w.device.unpin(page_size, ~(page_size - 1)), EINVAL);
    CHECK(w.device.unpin(0, VRDMA_MDEV_WINDOW_SIZE) == 0);
}

TEST(window_loses_what_the_vm_unmaps) {
    const Windowed w;
    w.own(0) = 1;
    w.own(1) = 2;
    CHECK_EQ(w.seen(0) + w.seen(1), 3u);
    const uint64_t revocations = w.device.counters().revocations;
    CHECK(w.vm.unmap(ram_iova, w.ram.size()) == 0);
    CHECK_EQ(w.pinned_pages(), 0u);
    CHECK(w.device.counters().revocations > revocations);
    CHECK_EQ(w.seen(0), 0u);
    w.seen(1) = 7;
    CHECK_EQ(w.own(1), 2u);
    CHECK_EQ(w.pinned_pages(), 0u);

    /* Maps other memory at the same address. */
    const Ram other(page_size);
    other.at<uint32_t>(0) = 9;
    CHECK(w.vm.map(ram_iova, other.get(), other.size()) == 0);
    CHECK(w.device.unpin(ram_iova, page_size) == 0);
    CHECK_EQ(w.seen(0), 9u);
}

/*
 * Threads touch memory all the time. While type1 unmaps it, new pins keep coming; after ten in a
 * row type1 would give up with BUG_ON.
 */
TEST(window_unmaps_what_is_in_use) {
    const Windowed w("large");
    constexpr uint64_t pages_each = 8;
    std::atomic<bool> stop = false;
    std::vector<std::thread> touchers;
    for (uint64_t first = 0; first < ram_pages; first += pages_each)
        touchers.emplace_back([&, first] {
            while (!stop)
                for (uint64_t i = 0; i < pages_each; i++)
                    w.seen(first + i) = 1;
        });
    for (int i = 0; i < 30; i++) {
        harness::await(
            [&] {
                CHECK(w.device.unpin(ram_iova, w.ram.size()) == 0);
                return w.pinned_pages() > 0;
            },
            "a touch that pins");
        CHECK(w.vm.unmap(ram_iova, w.ram.size()) == 0);
        CHECK(w.vm.map(ram_iova, w.ram.get(), w.ram.size()) == 0);
    }
    stop = true;
    for (auto& toucher : touchers)
        toucher.join();
}

TEST(window_is_dead_from_reset_to_acknowledgement) {
    const Windowed w;
    w.seen(0) = 1;
    CHECK(w.vm.reset() == 0);
    CHECK_EQ(w.pinned_pages(), 0u);
    CHECK_EQ(w.seen(0), 0u);
    w.seen(1) = 2;
    CHECK_EQ(w.own(1), 0u);
    CHECK_EQ(w.pinned_pages(), 0u);
    w.device.serve_reset();
    CHECK_EQ(w.seen(0), 1u);
    CHECK_EQ(w.seen(1), 0u);
    CHECK_EQ(w.pinned_pages(), 2u);
}

/* As with hardware: a kernel clears Bus Master before it gives the memory to another kernel. */
TEST(window_is_dead_while_bus_master_is_clear) {
    const Windowed w;
    w.seen(0) = 1;
    w.vm.command(0);
    CHECK_EQ(w.pinned_pages(), 0u);
    CHECK_EQ(w.seen(0), 0u);
    w.device.serve_reset();
    w.seen(0) = 2;
    CHECK_EQ(w.own(0), 1u);
    CHECK_EQ(w.pinned_pages(), 0u);
    w.vm.command(PCI_COMMAND_MASTER);
    CHECK_EQ(w.seen(0), 1u);
    w.vm.command(PCI_COMMAND_MASTER | PCI_COMMAND_MEMORY);
    w.seen(0) = 3;
    CHECK_EQ(w.own(0), 3u);

    /* Bus Master set before the reset is served does not open the window. */
    w.vm.command(0);
    w.vm.command(PCI_COMMAND_MASTER);
    CHECK_EQ(w.seen(0), 0u);
    w.device.serve_reset();
    CHECK_EQ(w.seen(0), 3u);
}

/*
 * The mediator serves each reset while the VM's system call for it still runs, and makes that call
 * wait for the window.
 */
TEST(window_opens_after_a_reset_served_at_once) {
    const Windowed w;
    std::atomic<bool> done{false};
    std::thread busy([&] {
        while (!done)
            w.device.unpin(0, VRDMA_MDEV_WINDOW_SIZE);
    });
    /* A module that closed the window too late failed in one of some hundred rounds. */
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (uint32_t i = 1; i <= 1000 && std::chrono::steady_clock::now() < end; i++) {
        std::thread vm([&] { CHECK(w.vm.reset() == 0); });
        auto message = w.device.next_message();
        while (!message)
            message = w.device.next_message();
        CHECK_EQ(message->type, VRDMA_MDEV_MESSAGE_RESET);
        CHECK(w.device.reset_done(message->value) == 0);
        vm.join();
        w.own(0) = i;
        CHECK_EQ(w.seen(0), i);
    }
    done = true;
    busy.join();
}

TEST(window_scratch_is_clean_after_reset) {
    const Windowed w;
    w.device.window<uint32_t>(hole_iova) = 5;
    CHECK(w.vm.reset() == 0);
    CHECK_EQ(w.device.window<uint32_t>(hole_iova), 0u);
}

TEST(window_ends_with_the_vm) {
    const Served served;
    const Ram ram(page_size);
    {
        const Vm vm(served.uuid);
        CHECK(vm.map(0, ram.get(), ram.size()) == 0);
        served.device.serve_reset();
        served.device.window<uint32_t>(0) = 1;
        CHECK_EQ(pinned(served.uuid), page_size);
    }
    CHECK_EQ(pinned(served.uuid), 0u);
    CHECK_EQ(served.device.window<uint32_t>(0), 0u);
    served.device.serve_reset(); /* without a VM the window stays dead */
    CHECK_EQ(served.device.window<uint32_t>(0), 0u);
    CHECK_EQ(ram.at<uint32_t>(0), 1u);
}

TEST(window_leaves_nothing_pinned_by_a_killed_vm) {
    const Served served;
    const pid_t vm = fork();
    if (vm == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const Ram ram(ram_pages * page_size);
        const Vm process(served.uuid);
        CHECK(process.map(ram_iova, ram.get(), ram.size()) == 0);
        for (;;)
            pause();
    }
    served.await_vm(ram_iova);
    for (uint64_t i = 0; i < small_pinned_pages; i++)
        served.device.window<uint32_t>(ram_iova + i * page_size) = 1;
    CHECK_EQ(pinned(served.uuid), small_pinned_pages * page_size);

    kill(vm, SIGKILL);
    CHECK_EQ(waitpid(vm, nullptr, 0), vm);
    CHECK_EQ(pinned(served.uuid), 0u);
    CHECK_EQ(served.device.window<uint32_t>(ram_iova), 0u);
    served.device.serve_reset();
    CHECK_EQ(served.device.info().open, 0u);
}

TEST(window_mappings_are_checked) {
    const Windowed w;
    const int fd = w.device.fd();
    const auto at = [&](uint64_t offset, uint64_t size, int protection, int flags) {
        errno = 0;
        void* const memory = mmap(nullptr, size, protection, flags, fd, static_cast<off_t>(offset));
        return memory == MAP_FAILED ? errno : 0;
    };
    constexpr int rw = PROT_READ | PROT_WRITE;
    CHECK_EQ(at(VRDMA_MDEV_MMAP_WINDOW, page_size, rw, MAP_PRIVATE), EINVAL);
    CHECK_EQ(at(VRDMA_MDEV_MMAP_SHADOW, page_size, PROT_READ, MAP_PRIVATE), EINVAL);
    CHECK_EQ(at(VRDMA_MDEV_MMAP_WINDOW + VRDMA_MDEV_WINDOW_SIZE, page_size, rw, MAP_SHARED),
             EINVAL);
    CHECK_EQ(at(VRDMA_MDEV_MMAP_WINDOW + page_size, VRDMA_MDEV_WINDOW_SIZE, rw, MAP_SHARED),
             EINVAL);
    CHECK_EQ(at(VRDMA_MDEV_MMAP_SHADOW, 2 * page_size, rw, MAP_SHARED), EINVAL);
    CHECK_EQ(at(VRDMA_MDEV_MMAP_SHADOW + page_size, page_size, rw, MAP_SHARED), EINVAL);
    CHECK_EQ(at(VRDMA_MDEV_MMAP_INFO, page_size, rw, MAP_SHARED), EPERM);
    CHECK_EQ(
        at(VRDMA_MDEV_MMAP_DOORBELLS + small_doorbell_pages * page_size, page_size, rw, MAP_SHARED),
        EINVAL);

    /* A second mapping, of a part, is revoked like the first. */
    auto* const part = static_cast<volatile uint32_t*>(
        mmap(nullptr, page_size, rw, MAP_SHARED, fd,
             static_cast<off_t>(VRDMA_MDEV_MMAP_WINDOW + ram_iova)));
    CHECK(part != MAP_FAILED);
    w.own(0) = 3;
    CHECK_EQ(part[0], 3u);
    CHECK_EQ(w.seen(0), 3u);
    CHECK_EQ(w.pinned_pages(), 1u);
    CHECK(w.vm.reset() == 0);
    CHECK_EQ(part[0], 0u);
}

/*
 * A process that is both mediator and VM, and gives the window itself to the VM, must not deadlock.
 */
TEST(window_is_no_memory_for_a_vm) {
    const Windowed w;
    CHECK(w.vm.map(hole_iova, w.device.window() + ram_iova, page_size) == 0);
    CHECK_EQ(w.device.window<uint32_t>(hole_iova), 0u);
    CHECK_EQ(w.device.counters().scratch_faults, 1u);
}

/* All operations at the same time. The kernel must log no warning, and no page may stay pinned. */
TEST(window_survives_all_at_once) {
    const Windowed w;
    std::atomic<bool> stop = false;
    const auto loop = [&](auto work) {
        return std::thread([&stop, work] {
            while (!stop)
                work();
        });
    };
    std::thread threads[] = {
        loop([&] {
            for (uint64_t i = 0; i < ram_pages; i++)
                w.seen(i) = 1;
        }),
        loop([&] {
            for (uint64_t i = ram_pages; i-- > 0;)
                w.seen(i) = 2;
        }),
        loop([&] { w.device.unpin(ram_iova, w.ram.size()); }),
        loop([&] {
            if (const auto message = w.device.next_message(); message)
                w.device.reset_done(message->value);
        }),
        loop([&] { w.vm.reset(); }),
    };
    for (int i = 0; i < 40; i++) {
        CHECK(w.vm.unmap(ram_iova, w.ram.size()) == 0);
        CHECK(w.vm.map(ram_iova, w.ram.get(), w.ram.size()) == 0);
    }
    stop = true;
    for (auto& thread : threads)
        thread.join();
    CHECK(w.vm.reset() == 0);
    CHECK_EQ(w.pinned_pages(), 0u);
}
