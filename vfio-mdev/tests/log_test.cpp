// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The log of the pages that the device writes, for a VM that moves. */
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "logging.h"
#include "mediator.h"

namespace {

constexpr uint64_t ram_iova = 0x40000000;

/* A VM whose device's log is kept. */
struct Logged : Served {
    explicit Logged(const char* type = "small", uint64_t pages = small_pinned_pages)
        : Served(type), ram(pages * page_size), vm(uuid) {
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

/* Its VM monitor sends what was there when it maps the page anew, or asks after it was unmapped. */
TEST(a_log_outlives_pins_and_resets) {
    const Logged logged;
    logged.start();
    logged.seen(5) = 1;
    CHECK(logged.device.unpin(ram_iova + 5 * page_size, page_size) == 0);
    harness::await([&] { return pinned(logged.uuid) == 0; }, "the page is given back");
    CHECK_EQ(logged.written(), 1u << 5);
    logged.seen(6) = 1;
    CHECK(logged.vm.unmap(ram_iova, logged.ram.size()) == 0);
    CHECK(logged.vm.map(ram_iova, logged.ram.get(), logged.ram.size()) == 0);
    CHECK_EQ(logged.written(), 1u << 6);
    logged.seen(7) = 1;
    CHECK(logged.vm.reset() == 0);
    logged.device.serve_reset();
    logged.seen(8) = 1;
    CHECK_EQ(logged.written(), 1u << 7 | 1u << 8);
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
    constexpr uint64_t pages = 1024;
    const Logged logged("large", pages);
    std::vector<char> copy(logged.ram.size());
    std::vector<uint64_t> told;
    std::atomic<bool> done = false;
    unsigned int passes = 0;
    logged.start();
    const auto pass = [&] {
        std::fill(told.begin(), told.end(), 0);
        CHECK_EQ(report_log(logged.vm, ram_iova, logged.ram.size(), told), 0);
        for (uint64_t page = 0; page < pages; page++)
            if (told[page / 64] >> (page % 64) & 1)
                memcpy(copy.data() + page * page_size, logged.ram.get() + page * page_size,
                       page_size);
    };
    const auto work = [&](uint32_t seed, uint64_t place) {
        for (uint32_t round = 1; !done; round++) {
            seed = seed * 1664525 + 1013904223;
            const uint64_t page = (seed >> 16) % pages;
            volatile uint32_t& word = (&logged.seen(page))[place];
            if (seed >> 31)
                word = word + round;
        }
    };
    std::vector<std::thread> threads;
    for (const uint32_t number : {0, 1})
        threads.emplace_back(work, 7 + number, number);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    for (; std::chrono::steady_clock::now() < end; passes++)
        pass();
    done = true;
    for (auto& thread : threads)
        thread.join();
    pass();
    CHECK(passes > 10);
    CHECK(memcmp(copy.data(), logged.ram.get(), copy.size()) == 0);
    CHECK_EQ(logged.device.counters().scratch_faults, 0u);
}
