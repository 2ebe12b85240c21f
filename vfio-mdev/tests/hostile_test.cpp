// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* A hostile VM: whatever it holds, the mediator goes on. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "mediator.h"
#include "vm.h"

namespace {

constexpr uint64_t first_iova = 0x100000000;
constexpr uint64_t second_iova = 0x140000000;
constexpr uint64_t range_pages = 16;
constexpr uint64_t range_size = range_pages * page_size;

/* A VM with two ranges of memory. */
struct Victim : Served {
    Victim() : Served("large"), ram(2 * range_size), vm(uuid) {
        CHECK(vm.map(first_iova, ram.get(), range_size) == 0);
        CHECK(vm.map(second_iova, ram.get() + range_size, range_size) == 0);
        device.serve_reset();
    }
    void touch(uint64_t iova) const {
        for (uint64_t offset = 0; offset < range_size; offset += page_size)
            device.window<uint32_t>(iova + offset) = 1;
    }
    Ram ram;
    Vm vm;
};

/* Threads that repeat their work until this object is destroyed. */
class Loops {
  public:
    ~Loops() {
        stop_ = true;
        for (auto& thread : threads_)
            thread.join();
    }
    void add(std::function<void()> work) {
        threads_.emplace_back([this, work = std::move(work)] {
            while (!stop_)
                work();
        });
    }

  private:
    std::atomic<bool> stop_ = false;
    std::vector<std::thread> threads_;
};

/* Binds this thread to the processor. */
void run_on(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

/* Gives this thread real-time priority. */
void real_time(int priority) {
    const sched_param param = {.sched_priority = priority};
    CHECK(sched_setscheduler(0, SCHED_FIFO, &param) == 0);
}

/* A page that blocks each writer, also in the kernel, until give(). */
class MissingPage {
  public:
    MissingPage()
        : fd_(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK))),
          page_(mmap(nullptr, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                     0)) {
        uffdio_api api = {.api = UFFD_API, .features = 0, .ioctls = 0};
        CHECK(ioctl(fd_.get(), UFFDIO_API, &api) == 0);
        uffdio_register missing = {
            .range = range(), .mode = UFFDIO_REGISTER_MODE_MISSING, .ioctls = 0};
        CHECK(ioctl(fd_.get(), UFFDIO_REGISTER, &missing) == 0);
    }
    MissingPage(const MissingPage&) = delete;
    MissingPage& operator=(const MissingPage&) = delete;
    ~MissingPage() { munmap(page_, page_size); }
    void* get() const { return page_; }
    void await_writer() const { harness::await(fd_.get(), POLLIN); }
    void give() const {
        uffdio_zeropage zero = {.range = range(), .mode = 0, .zeropage = 0};
        CHECK(ioctl(fd_.get(), UFFDIO_ZEROPAGE, &zero) == 0);
    }

  private:
    uffdio_range range() const { return {reinterpret_cast<uintptr_t>(page_), page_size}; }
    harness::Fd fd_;
    void* page_;
};

/* Makes type1 copy a bitmap to target, with type1's lock held. */
void copy_dirty_bitmap(const Vm& vm, void* target, uint64_t iova = first_iova,
                       uint64_t size = range_size) {
    alignas(8) char request[sizeof(vfio_iommu_type1_dirty_bitmap) +
                            sizeof(vfio_iommu_type1_dirty_bitmap_get)] = {};
    auto* const bitmap = reinterpret_cast<vfio_iommu_type1_dirty_bitmap*>(request);
    bitmap->argsz = sizeof(*bitmap);
    bitmap->flags = VFIO_IOMMU_DIRTY_PAGES_FLAG_START;
    CHECK(vm.ioctl_container(VFIO_IOMMU_DIRTY_PAGES, bitmap) == 0);
    auto* const get = reinterpret_cast<vfio_iommu_type1_dirty_bitmap_get*>(bitmap->data);
    bitmap->argsz = sizeof(request);
    bitmap->flags = VFIO_IOMMU_DIRTY_PAGES_FLAG_GET_BITMAP;
    get->iova = iova;
    get->size = size;
    get->bitmap = {page_size, std::max<uint64_t>(size / page_size / 8, sizeof(uint64_t)),
                   static_cast<__u64*>(target)};
    CHECK(vm.ioctl_container(VFIO_IOMMU_DIRTY_PAGES, bitmap) == 0);
}

/* A value in KiB that Linux reports for this process, such as the size of its page tables. */
uint64_t status_kib(const std::string& field) {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(field + ":"))
            return std::stoull(line.substr(field.size() + 1));
    harness::fail(__FILE__, __LINE__, "no " + field);
}

/*
 * The number of the kernel's objects in that slab. A kernel with KASAN keeps freed ones until the
 * slab is shrunk.
 */
uint64_t slab_objects(const std::string& name) {
    std::ofstream("/sys/kernel/slab/" + name + "/shrink") << "1";
    std::ifstream file("/proc/slabinfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(name + " "))
            return std::stoull(line.substr(name.size()));
    harness::fail(__FILE__, __LINE__, "no " + name);
}

} // namespace

/*
 * A thread of the VM holds type1's lock for any time. Touches of pages that are not pinned show the
 * scratch page, and UNPIN, resets and their acknowledgement return. When the lock is free, all
 * works as before.
 */
TEST(hostile_vm_holds_type1s_lock) {
    const Victim v;
    v.touch(first_iova);
    const MissingPage page;
    std::thread holder([&] { copy_dirty_bitmap(v.vm, page.get()); });
    page.await_writer();

    v.ram.at<uint32_t>(range_size) = 7;
    CHECK_EQ(v.device.window<uint32_t>(second_iova), 0u);
    CHECK_EQ(v.device.counters().scratch_faults, 1u);
    CHECK(v.device.unpin(first_iova, range_size) == 0);
    CHECK_EQ(v.device.window<uint32_t>(first_iova), 1u); /* still pinned, so it is shown again */
    CHECK_EQ(v.device.counters().scratch_faults, 1u);
    CHECK(v.vm.reset() == 0);
    v.device.serve_reset();

    page.give();
    holder.join();
    harness::await([&] { return pinned(v.uuid) == 0; }, "what was revoked is unpinned");
    CHECK(v.device.unpin(second_iova, range_size) == 0);
    CHECK_EQ(v.device.window<uint32_t>(second_iova), 7u);
}

/* The mediator dies while the lock is held, and another one takes the device. */
TEST(hostile_vm_holds_type1s_lock_over_mediators) {
    const std::string uuid = test_uuid(1);
    auto hca = std::make_unique<Hca>();
    auto device = std::make_unique<Device>(*hca, hca->create("large", uuid));
    const Ram ram(range_size);
    const Vm vm(uuid);
    CHECK(vm.map(first_iova, ram.get(), ram.size()) == 0);
    device->serve_reset();
    device->window<uint32_t>(first_iova) = 1;
    const MissingPage page;
    std::thread holder([&] { copy_dirty_bitmap(vm, page.get()); });
    page.await_writer();

    device.reset();
    hca.reset();
    hca = std::make_unique<Hca>();
    device = std::make_unique<Device>(*hca, hca->added());
    device->serve_reset();
    page.give();
    holder.join();
    harness::await([&] { return pinned(uuid) == 0; }, "what was revoked is unpinned");
    CHECK(device->unpin(first_iova, range_size) == 0);
    CHECK_EQ(device->window<uint32_t>(first_iova), 1u);
}

/*
 * Two threads of the VM unmap at the same time, each a range that is in use. One holds type1's lock
 * and waits for its list of devices. The other holds the list and, if it waited for pages to be
 * unpinned, would wait for the lock.
 */
TEST(hostile_vm_unmaps_with_two_threads) {
    const Victim v;
    {
        Loops touching;
        for (int i = 0; i < 2; i++)
            touching.add([&] {
                v.touch(first_iova);
                v.touch(second_iova);
                v.device.unpin(first_iova, range_size);
                v.device.unpin(second_iova, range_size);
            });
        const auto unmap = [&](uint64_t iova, const char* memory) {
            for (int i = 0; i < 50; i++) {
                CHECK(v.vm.unmap(iova, range_size) == 0);
                CHECK(v.vm.map(iova, memory, range_size) == 0);
            }
        };
        std::thread other([&] { unmap(second_iova, v.ram.get() + range_size); });
        unmap(first_iova, v.ram.get());
        other.join();
    }
    CHECK(v.vm.reset() == 0);
    CHECK_EQ(pinned(v.uuid), 0u);
}

/*
 * The VM unmaps gigabytes, some of which are touched all the time. Each pass of type1 takes so long
 * that touches come in between, and after ten in a row type1 would give up with BUG_ON.
 */
TEST(hostile_vm_unmaps_gigabytes_in_use) {
    constexpr uint64_t size = uint64_t{4} << 30;
    constexpr uint64_t huge_page = uint64_t{2} << 20;
    constexpr uint64_t iova = 0x1000000000;
    const Victim v;
    void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    CHECK(madvise(memory, size, MADV_NOHUGEPAGE) == 0);
    CHECK(v.vm.map(iova, memory, size) == 0);
    for (uint64_t offset = 0; offset < size; offset += huge_page)
        v.device.window<uint32_t>(iova + offset) = 1;
    CHECK(pinned(v.uuid) > 512 * page_size); /* more than one call of VFIO unpins */
    {
        Loops touching;
        for (uint64_t part = 0; part < 4; part++)
            touching.add([&, part] {
                for (uint64_t i = 1; i < 64; i++)
                    v.device.window<uint32_t>(iova + part * huge_page + i * page_size) = 1;
            });
        for (int i = 0; i < 5; i++) {
            CHECK(v.vm.unmap(iova, size) == 0);
            CHECK(v.vm.map(iova, memory, size) == 0);
            CHECK(v.device.unpin(iova, size) == 0);
        }
    }
    CHECK(v.vm.unmap(iova, size) == 0);
    munmap(memory, size);
}

/*
 * A guest causes a touch of one page in each 2 MiB of its address space, where it has no memory.
 * Each touch needs a page table, and a TiB needs 2 GiB of them. Expects at most the device's share
 * of page tables, and that pinned memory is shown as before.
 */
TEST(hostile_vm_takes_no_more_page_tables_than_its_share) {
    constexpr uint64_t tables_kib = 1024 * 4;
    constexpr uint64_t upper_tables_kib = 64;
    constexpr uint64_t huge_page = uint64_t{2} << 20;
    constexpr uint64_t iova = 0x2000000000;
    const Victim v;
    v.touch(first_iova);
    const uint64_t before = status_kib("VmPTE");
    for (uint64_t i = 0; i < 4096; i++) {
        v.device.window<uint32_t>(iova + i * huge_page) = 1;
        CHECK(status_kib("VmPTE") <= before + tables_kib + upper_tables_kib);
    }
    CHECK(v.device.counters().scratch_faults >= 4096);
    CHECK_EQ(pinned(v.uuid), range_size);
    v.ram.at<uint32_t>(0) = 7;
    CHECK_EQ(v.device.window<uint32_t>(first_iova), 7u);
    CHECK_EQ(pinned(v.uuid), range_size);
    CHECK(v.vm.unmap(first_iova, range_size) == 0);
    CHECK_EQ(v.device.window<uint32_t>(first_iova), 1u); /* scratch */
}

/* The same with memory that the VM has, by threads that need page tables at the same time. */
TEST(hostile_vm_has_its_memory_touched_far_apart_by_threads) {
    constexpr uint64_t huge_page = uint64_t{2} << 20;
    constexpr uint64_t iova = 0x2000000000;
    const Victim v;
    for (uint64_t i = 0; i < 2048; i++)
        CHECK(v.vm.map(iova + i * huge_page, v.ram.get(), page_size) == 0);
    v.ram.at<uint32_t>(0) = 7;
    std::vector<std::thread> threads;
    for (uint64_t first = 0; first < 4; first++)
        threads.emplace_back([&, first] {
            for (uint64_t round = 0; round < 2; round++)
                for (uint64_t i = first; i < 2048; i += 4)
                    CHECK_EQ(v.device.window<uint32_t>(iova + i * huge_page), 7u);
        });
    for (auto& thread : threads)
        thread.join();
    CHECK_EQ(pinned(v.uuid), 2048 * page_size);
    CHECK_EQ(v.device.counters().scratch_faults, 0u);
}

/*
 * Only page tables know a scratch page: the module stores nothing for it. It frees the request
 * of a touch some time after the touch.
 */
TEST(hostile_vm_has_scratch_pages_for_nothing) {
    constexpr uint64_t apart = uint64_t{256} << 10; /* the span of a node of an xarray */
    constexpr uint64_t touches = 32768;
    const Victim v;
    v.touch(first_iova);
    const uint64_t before = slab_objects("radix_tree_node");
    for (uint64_t i = 0; i < touches; i++)
        v.device.window<uint32_t>(0x2000000000 + i * apart) = 1;
    CHECK(v.device.counters().scratch_faults >= touches);
    harness::await([&] { return slab_objects("radix_tree_node") < before + touches / 4; },
                   "few nodes are left");
}

/*
 * A thread of the VM has the lowest priority on a processor that another thread keeps busy. It asks
 * for a large bitmap all the time, so it holds type1's lock when it is preempted, for most of each
 * second. A poller of real-time priority has one page pinned per round. Expects that only touches
 * wait, none for more than a second; and that all waits of more than a tenth of a second together
 * take at most a sixteenth of the time, apart from the first second. UNPIN does not wait.
 */
TEST(hostile_vm_of_low_priority_holds_no_poller_up) {
    using Clock = std::chrono::steady_clock;
    using std::chrono::milliseconds;
    constexpr milliseconds emulator(300); /* an emulator may stop a processor for so long */
    constexpr milliseconds longest(1000);
    constexpr milliseconds short_wait(100);
    constexpr uint64_t size = uint64_t{16} << 30;
    constexpr uint64_t iova = 0x1000000000;
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
        std::printf("    skipped: there is one processor\n");
        return;
    }
    const Victim v;
    void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    CHECK(v.vm.map(iova, memory, size) == 0);
    const Ram bitmap(size / page_size / 8);
    v.touch(second_iova);
    Loops others;
    others.add([&] {
        run_on(0);
        setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
        copy_dirty_bitmap(v.vm, bitmap.get(), iova, size);
    });
    others.add([&] {
        run_on(0);
        real_time(1);
        for (const auto end = Clock::now() + short_wait; Clock::now() < end;) {
        }
    });

    run_on(1);
    real_time(50);
    Clock::duration unpinning{};
    Clock::duration touching{};
    Clock::duration waits{};
    const auto begin = Clock::now();
    while (Clock::now() - begin < std::chrono::seconds(8)) {
        const auto start = Clock::now();
        CHECK(v.device.unpin(second_iova, page_size) == 0);
        const auto unpinned = Clock::now();
        v.touch(second_iova);
        const auto touch = Clock::now() - unpinned;
        unpinning = std::max(unpinning, unpinned - start);
        touching = std::max(touching, touch);
        waits += touch > short_wait ? touch : Clock::duration{};
        usleep(500);
    }
    const auto ms = [](Clock::duration time) { return time / milliseconds(1); };
    std::printf("    longest UNPIN %ld ms, longest round %ld ms, long ones together %ld ms\n",
                ms(unpinning), ms(touching), ms(waits));
    CHECK(unpinning < emulator);
    CHECK(touching < longest + emulator);
    CHECK(waits < longest + (Clock::now() - begin) / 16 + emulator);
}

/* A VM keeps a doorbell page in a pipe; the writes of the next VM are not seen there. */
TEST(hostile_vm_keeps_a_doorbell_page) {
    const Served s;
    int ends[2];
    CHECK(pipe(ends) == 0);
    {
        const Vm first(s.uuid);
        const auto bar = first.region(VRDMA_BAR_DOORBELLS);
        void* const page = mmap(nullptr, page_size, PROT_READ | PROT_WRITE, MAP_SHARED,
                                first.device(), static_cast<off_t>(bar.offset));
        CHECK(page != MAP_FAILED);
        static_cast<volatile uint8_t*>(page)[64] = 7;
        CHECK_EQ(s.device.doorbells()[64], 7);
        const iovec kept = {page, page_size};
        CHECK_EQ(vmsplice(ends[1], &kept, 1, 0), static_cast<ssize_t>(page_size));
        munmap(page, page_size);
    }
    const Vm second(s.uuid);
    CHECK_EQ(second.read<uint8_t>(VRDMA_BAR_DOORBELLS, 64), 0);
    second.write<uint8_t>(VRDMA_BAR_DOORBELLS, 64, 0x55);
    CHECK_EQ(s.device.doorbells()[64], 0x55);
    s.device.doorbells()[65] = 0x56;
    CHECK_EQ(second.read<uint8_t>(VRDMA_BAR_DOORBELLS, 65), 0x56);
    std::vector<uint8_t> seen(page_size);
    CHECK_EQ(read(ends[0], seen.data(), seen.size()), static_cast<ssize_t>(page_size));
    CHECK_EQ(seen[64], 7);
    CHECK_EQ(seen[65], 0);
}
