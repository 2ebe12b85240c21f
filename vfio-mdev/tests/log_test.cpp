// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The log of the pages that the device writes, for a VM that moves. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "logging.h"
#include "mediator.h"

namespace {

constexpr uint64_t ram_iova = 0x40000000;

/* A VM whose device's log is kept. */
struct Logged : Served {
    explicit Logged(const char* type = "small", uint64_t pages = small_pinned_pages)
        : Served(type), ram(pages * page_size), vm(uuid) {
        need_log(vm);
        CHECK(vm.map(ram_iova, ram.get(), ram.size()) == 0);
        device.serve_reset();
    }
    void start() const { CHECK_EQ(start_log(vm, ram_iova, ram.size()), 0); }
    volatile uint32_t& seen(uint64_t page) const {
        return device.window<uint32_t>(ram_iova + page * page_size);
    }
    /* Returns the pages that the device has written since the last call, as bits. */
    uint64_t written() const { return logged_pages(vm, ram_iova, ram.size()); }

    Ram ram;
    Vm vm;
};

/* A mapping of the window besides the one that the device has. */
class Window {
  public:
    explicit Window(const Device& device)
        : window_{static_cast<char*>(mmap(nullptr, VRDMA_MDEV_WINDOW_SIZE, PROT_READ | PROT_WRITE,
                                          MAP_SHARED, device.fd(), VRDMA_MDEV_MMAP_WINDOW))} {
        CHECK(window_ != MAP_FAILED);
    }
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;
    ~Window() { munmap(window_, VRDMA_MDEV_WINDOW_SIZE); }
    volatile uint32_t& seen(uint64_t page) const {
        return *reinterpret_cast<volatile uint32_t*>(window_ + ram_iova + page * page_size);
    }

  private:
    char* window_;
};

/* Copies the memory as a migration does: the pages that the log tells. */
struct Copy {
    explicit Copy(const Logged& logged) : logged(logged), bytes(logged.ram.size()) {}
    void pass() {
        std::fill(told.begin(), told.end(), 0);
        CHECK_EQ(report_log(logged.vm, ram_iova, bytes.size(), told), 0);
        for (uint64_t page = 0; page < bytes.size() / page_size; page++)
            if (told[page / 64] >> (page % 64) & 1)
                memcpy(bytes.data() + page * page_size, logged.ram.get() + page * page_size,
                       page_size);
    }
    bool equals() const { return memcmp(bytes.data(), logged.ram.get(), bytes.size()) == 0; }

    const Logged& logged;
    std::vector<char> bytes;
    std::vector<uint64_t> told;
};

/* Writes numbers to random pages, and reads others, until it is done. */
void work(const std::function<volatile uint32_t&(uint64_t)>& seen, uint64_t pages, uint32_t seed,
          uint64_t place, const std::atomic<bool>& done) {
    for (uint32_t round = 1; !done; round++) {
        seed = seed * 1664525 + 1013904223;
        volatile uint32_t& word = (&seen((seed >> 16) % pages))[place];
        if (seed >> 31)
            word = word + round;
    }
}

constexpr uint64_t many_pages = 1024;

} // namespace

/* Pages are written or only read before the log begins, while it is kept, and after it. */
TEST(a_log_has_the_pages_that_were_written) {
    const Logged logged;
    for (uint64_t page = 0; page < small_pinned_pages; page++)
        logged.seen(page) = 1;
    logged.start();
    CHECK_EQ(logged.written(), 0u);
    for (uint64_t page = 0; page < small_pinned_pages; page++)
        CHECK_EQ(logged.seen(page), 1u);
    CHECK_EQ(logged.written(), 0u);
    logged.seen(3) = 2;
    logged.seen(3) = 3;
    logged.seen(9) = 2;
    CHECK_EQ(logged.written(), 1u << 3 | 1u << 9);
    CHECK_EQ(logged.written(), 0u);
    CHECK_EQ(logged.seen(3), 3u);
    CHECK_EQ(logged.written(), 0u);
    logged.seen(3) = 4;
    CHECK_EQ(logged.written(), 1u << 3);
    CHECK_EQ(stop_log(logged.vm), 0);
    for (uint64_t page = 0; page < small_pinned_pages; page++)
        logged.seen(page) = 5;
    for (uint64_t page = 0; page < small_pinned_pages; page++)
        CHECK_EQ(logged.ram.at<uint32_t>(page * page_size), 5u);
    logged.start();
    CHECK_EQ(logged.written(), 0u);
    CHECK_EQ(logged.device.counters().scratch_faults, 0u);
    CHECK_EQ(pinned(logged.uuid), logged.ram.size());
}

/* A kernel thread's copy and a first touch are writes as well. */
TEST(a_log_has_what_system_calls_write) {
    const Logged logged;
    logged.start();
    int ends[2];
    CHECK(pipe(ends) == 0);
    const harness::Fd reader(ends[0]);
    const harness::Fd writer(ends[1]);
    CHECK_EQ(write(writer.get(), "12345678", 8), 8);
    char* const place = logged.device.window() + ram_iova + 6 * page_size - 4;
    CHECK_EQ(read(reader.get(), place, 8), 8); /* across two pages */
    CHECK_EQ(logged.written(), 1u << 5 | 1u << 6);
    CHECK_EQ(write(writer.get(), place, 8), 8);
    CHECK_EQ(logged.written(), 0u);
}

/*
 * Such an instruction first faults to read the page. If its fault to write let it read anew from a
 * page that it may only read, it would fault for ever.
 */
TEST(an_instruction_reads_and_writes_a_page) {
    const Logged logged;
    for (uint64_t page = 0; page < small_pinned_pages; page++)
        logged.seen(page) = 0x04030201;
    logged.start();
    const char* source = logged.device.window() + ram_iova + 3 * page_size;
    char* target = logged.device.window() + ram_iova + 3 * page_size + 16;
    size_t length = 4;
    asm volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(length) : : "memory");
    CHECK_EQ((&logged.seen(3))[4], 0x04030201u);
    CHECK_EQ(__atomic_fetch_add(&logged.seen(4), 1, __ATOMIC_SEQ_CST), 0x04030201u);
    CHECK_EQ(logged.written(), 1u << 3 | 1u << 4);
}

/* A page that is dirty is shown writable to reads as well, but only until it is asked for. */
TEST(a_log_marks_a_page_that_was_written_and_read) {
    const Logged logged;
    logged.start();
    logged.seen(2) = 1;
    CHECK(logged.device.unpin(ram_iova + 2 * page_size, page_size) == 0);
    harness::await([&] { return pinned(logged.uuid) == 0; }, "the page is given back");
    CHECK_EQ(logged.seen(2), 1u);
    logged.seen(2) = 2;
    CHECK_EQ(logged.written(), 1u << 2);
    CHECK_EQ(logged.seen(2), 2u);
    logged.seen(2) = 3;
    CHECK_EQ(logged.written(), 1u << 2);
}

/* The threads share a page table, so the reads fault between the faults of a write. */
TEST(a_write_gets_on_while_others_read_the_page) {
    const Logged logged;
    std::atomic<bool> done = false;
    logged.start();
    std::thread reader([&] {
        for (uint32_t last = 0; !done;)
            CHECK(std::exchange(last, logged.seen(1)) <= 1000);
    });
    for (uint32_t round = 1; round <= 1000; round++) {
        logged.seen(1) = round;
        CHECK_EQ(logged.written(), 1u << 1);
    }
    done = true;
    reader.join();
    CHECK_EQ(logged.ram.at<uint32_t>(page_size), 1000u);
}

/*
 * Its VM monitor sends what was there when it maps the page anew, or asks after it was unmapped.
 * Page tables that are emptied do not tell which of the pages were written since the last question:
 * each page that was written before is told once more.
 */
TEST(a_log_outlives_pins_and_resets) {
    const Logged logged;
    logged.start();
    logged.seen(5) = 1;
    CHECK(logged.device.unpin(ram_iova + 5 * page_size, page_size) == 0);
    harness::await([&] { return pinned(logged.uuid) == 0; }, "the page is given back");
    CHECK_EQ(logged.written(), 1u << 5);
    CHECK_EQ(logged.written(), 0u);
    logged.seen(6) = 1;
    CHECK(logged.vm.unmap(ram_iova, logged.ram.size()) == 0);
    CHECK(logged.vm.map(ram_iova, logged.ram.get(), logged.ram.size()) == 0);
    CHECK_EQ(logged.written(), 1u << 5 | 1u << 6);
    logged.seen(7) = 1;
    CHECK(logged.vm.reset() == 0);
    logged.device.serve_reset();
    logged.seen(8) = 1;
    CHECK_EQ(logged.written(), 1u << 5 | 1u << 6 | 1u << 7 | 1u << 8);
    CHECK_EQ(logged.written(), 0u);
}

/* The mediator's other process writes to a page and reads another one, and is gone. */
TEST(a_log_outlives_a_mapping) {
    const Logged logged;
    logged.start();
    const pid_t child = fork();
    if (child == 0) {
        const Window window(logged.device);
        window.seen(3) = 1;
        _exit(window.seen(4) == 0 ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK_EQ(logged.written(), 1u << 3);
    CHECK_EQ(logged.written(), 0u);
    {
        const Window window(logged.device);
        window.seen(5) = 1;
    }
    CHECK_EQ(logged.written(), 1u << 3 | 1u << 5);
    CHECK_EQ(logged.seen(5), 1u);
}

/* The processor would write to copies of the pages. */
TEST(the_window_is_not_mapped_privately) {
    const Served served;
    CHECK(mmap(nullptr, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, served.device.fd(),
               VRDMA_MDEV_MMAP_WINDOW) == MAP_FAILED);
    CHECK_EQ(errno, EINVAL);
}

TEST(a_log_is_kept_and_asked_in_its_bounds) {
    const Logged logged;
    std::vector<uint64_t> pages;
    CHECK_EQ(report_log(logged.vm, ram_iova, logged.ram.size(), pages), EINVAL);
    CHECK_EQ(stop_log(logged.vm), 0);
    CHECK_EQ(start_log(logged.vm, ram_iova, UINT64_MAX - ram_iova - page_size + 1), 0);
    CHECK_EQ(start_log(logged.vm, ram_iova, page_size), EALREADY);
    logged.seen(1) = 1;
    logged.seen(2) = 1;
    logged.seen(3) = 1;
    CHECK_EQ(logged_pages(logged.vm, ram_iova, 2 * page_size), 1u << 1);
    CHECK_EQ(logged_pages(logged.vm, ram_iova + 2 * page_size, page_size), 1u);
    CHECK_EQ(logged_pages(logged.vm, UINT64_MAX - 3 * page_size + 1, 2 * page_size), 0u);
    CHECK_EQ(logged.written(), 1u << 3);
    CHECK_EQ(stop_log(logged.vm), 0);
    CHECK_EQ(report_log(logged.vm, ram_iova, logged.ram.size(), pages), EINVAL);
    /* Of these pages only. */
    CHECK_EQ(start_log(logged.vm, ram_iova, 2 * page_size), 0);
    logged.seen(1) = 1;
    logged.seen(2) = 1;
    CHECK_EQ(logged.written(), 1u << 1);
}

/* A device may be closed while its log is kept. The next VM has none. */
TEST(a_log_ends_with_its_vm) {
    const Served served;
    const Ram ram(small_pinned_pages * page_size);
    for (int life = 0; life < 2; life++) {
        const Vm vm(served.uuid);
        need_log(vm);
        CHECK(vm.map(ram_iova, ram.get(), ram.size()) == 0);
        served.device.serve_reset();
        CHECK_EQ(start_log(vm, ram_iova, ram.size()), 0);
        served.device.window<uint32_t>(ram_iova) = 1;
    }
    const Vm vm(served.uuid);
    std::vector<uint64_t> pages;
    CHECK_EQ(report_log(vm, ram_iova, ram.size(), pages), EINVAL);
}

/*
 * Plays a migration: two threads write numbers to the same pages, and read others, while the VM
 * monitor copies the pages that the log tells. Expects the copy to be equal at the end. A few pages
 * lie beside those of another page table.
 */
TEST(a_copy_by_the_log_misses_no_write) {
    const Logged logged("large", many_pages);
    Copy copy(logged);
    std::atomic<bool> done = false;
    unsigned int passes = 0;
    logged.start();
    const auto seen = [&](uint64_t page) -> volatile uint32_t& {
        return logged.seen(page);
    };
    std::vector<std::thread> threads;
    for (const uint32_t number : {0, 1})
        threads.emplace_back([&, number] { work(seen, many_pages, 7 + number, number, done); });
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    for (; std::chrono::steady_clock::now() < end; passes++)
        copy.pass();
    done = true;
    for (auto& thread : threads)
        thread.join();
    copy.pass();
    CHECK(passes > 10);
    CHECK(copy.equals());
    CHECK_EQ(logged.device.counters().scratch_faults, 0u);
}

/* The same with one process after another, each of which is killed while it writes. */
TEST(a_copy_by_the_log_misses_no_write_of_a_process_that_is_killed) {
    const Logged logged("large", many_pages);
    Copy copy(logged);
    logged.start();
    for (uint32_t life = 0; life < 10; life++) {
        const pid_t child = fork();
        if (child == 0) {
            const Window window(logged.device);
            const std::atomic<bool> never = false;
            work(
                [&](uint64_t page) -> volatile uint32_t& { return window.seen(page); }, many_pages,
                life, life, never);
        }
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
        while (std::chrono::steady_clock::now() < end)
            copy.pass();
        std::this_thread::sleep_for(std::chrono::milliseconds(10)); /* it writes meanwhile */
        CHECK(kill(child, SIGKILL) == 0);
        if (life % 2 != 0)
            copy.pass(); /* while it ends */
        CHECK(waitpid(child, nullptr, 0) == child);
        copy.pass();
        CHECK(copy.equals());
    }
}

/* And with a device that gives back pages meanwhile. */
TEST(a_copy_by_the_log_misses_no_write_to_pages_that_are_given_back) {
    const Logged logged("large", many_pages);
    Copy copy(logged);
    std::atomic<bool> done = false;
    logged.start();
    const auto seen = [&](uint64_t page) -> volatile uint32_t& {
        return logged.seen(page);
    };
    std::thread writer([&] { work(seen, many_pages, 7, 0, done); });
    std::thread giver([&] {
        for (uint64_t page = 0; !done; page = (page + 7) % many_pages)
            CHECK(logged.device.unpin(ram_iova + page * page_size, page_size) == 0);
    });
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    while (std::chrono::steady_clock::now() < end)
        copy.pass();
    done = true;
    writer.join();
    giver.join();
    copy.pass();
    CHECK(copy.equals());
}
