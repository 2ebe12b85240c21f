// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The file behind the VM's memory, which the mediator maps a second time. */
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>

#include "mediator.h"
#include "vm.h"

namespace {

constexpr uint64_t ram_iova = 0x100000000;
constexpr uint64_t other_iova = 0x200000000;
constexpr uint64_t ram_pages = 12;

/* A memfd, mapped from its third page on: what a page's place in the mapping is, its place in the
 * file is not. */
class FileRam {
  public:
    explicit FileRam(int flags = MAP_SHARED) : file_(memfd_create("ram", MFD_CLOEXEC)) {
        CHECK(ftruncate(file_.get(), (first_page + ram_pages) * page_size) == 0);
        memory_ = static_cast<char*>(mmap(nullptr, size(), PROT_READ | PROT_WRITE, flags,
                                          file_.get(), first_page * page_size));
        CHECK(memory_ != MAP_FAILED);
    }
    FileRam(const FileRam&) = delete;
    FileRam& operator=(const FileRam&) = delete;
    ~FileRam() { munmap(memory_, size()); }

    static constexpr uint64_t first_page = 2;
    static uint64_t size() { return ram_pages * page_size; }
    char* page(uint64_t number) const { return memory_ + number * page_size; }
    int file() const { return file_.get(); }

  private:
    harness::Fd file_;
    char* memory_;
};

/* A VM whose memory is such a file, and a live window. */
struct Filed : Served {
    explicit Filed(int flags = MAP_SHARED) : ram(flags), vm(uuid) {
        CHECK(vm.map(ram_iova, ram.page(0), FileRam::size()) == 0);
        device.serve_reset();
    }
    void touch(uint64_t iova, uint64_t pages) const {
        for (uint64_t i = 0; i < pages; i++)
            device.window<uint32_t>(iova + i * page_size) = 0;
    }

    FileRam ram;
    Vm vm;
};

struct Answer {
    int error;
    harness::Fd file;
    uint64_t length;
    uint64_t offset;
};

/* A process that maps or unmaps memory is soon done: then the module says EAGAIN. */
Answer ask(const Device& device, uint64_t iova, uint64_t length) {
    vrdma_mdev_file file = {iova, length, 0, -1, 0};
    int ret;
    do
        ret = ioctl(device.fd(), VRDMA_MDEV_FILE, &file);
    while (ret < 0 && errno == EAGAIN);
    if (ret < 0)
        return {errno, {}, 0, 0};
    return {0, harness::Fd(file.fd), file.length, file.offset};
}

} // namespace

/* Maps what the module names; expects bytes to appear in the VM's memory, and the VM's here. */
TEST(file_is_the_vms_memory) {
    const Filed f;
    f.touch(ram_iova + page_size, 3);
    const Answer answer = ask(f.device, ram_iova + page_size, 3 * page_size);
    CHECK_EQ(answer.error, 0);
    CHECK_EQ(answer.length, 3 * page_size);
    CHECK_EQ(answer.offset, (FileRam::first_page + 1) * page_size);
    CHECK_EQ(fcntl(answer.file.get(), F_GETFD), FD_CLOEXEC);
    auto* const again =
        static_cast<char*>(mmap(nullptr, answer.length, PROT_READ | PROT_WRITE, MAP_SHARED,
                                answer.file.get(), static_cast<off_t>(answer.offset)));
    CHECK(again != MAP_FAILED);
    again[0] = 1;
    again[2 * page_size + 5] = 2;
    f.ram.page(2)[7] = 3;
    CHECK_EQ(f.ram.page(1)[0], 1);
    CHECK_EQ(f.ram.page(3)[5], 2);
    CHECK_EQ(again[page_size + 7], 3);
    CHECK_EQ(f.device.window<char>(ram_iova + page_size), 1);
}

/* The VM monitor maps another such file, too, at the same offset. */
TEST(file_is_found_among_others) {
    const FileRam before;
    const Filed f;
    f.touch(ram_iova + 5 * page_size, 1);
    const Answer answer = ask(f.device, ram_iova + 5 * page_size, page_size);
    CHECK_EQ(answer.error, 0);
    struct stat found, own;
    CHECK(fstat(answer.file.get(), &found) == 0);
    CHECK(fstat(f.ram.file(), &own) == 0);
    CHECK_EQ(found.st_ino, own.st_ino);
}

/* Expects a run to end at a page that was not touched, and where the VM's mapping goes on elsewhere
 * in the file. */
TEST(file_runs_end_at_gaps) {
    const Filed f;
    f.touch(ram_iova, 2);
    f.touch(ram_iova + 3 * page_size, 1);
    CHECK_EQ(ask(f.device, ram_iova, 4 * page_size).length, 2 * page_size);
    CHECK(f.vm.map(other_iova, f.ram.page(4), 2 * page_size) == 0);
    CHECK(f.vm.map(other_iova + 2 * page_size, f.ram.page(8), 2 * page_size) == 0);
    CHECK(f.device.unpin(ram_iova, FileRam::size()) == 0);
    f.touch(other_iova, 4);
    CHECK_EQ(ask(f.device, other_iova, 4 * page_size).length, 2 * page_size);
    CHECK_EQ(ask(f.device, other_iova + page_size, 3 * page_size).length, page_size);
    const Answer second = ask(f.device, other_iova + 2 * page_size, 2 * page_size);
    CHECK_EQ(second.length, 2 * page_size);
    CHECK_EQ(second.offset, (FileRam::first_page + 8) * page_size);
}

/* A range may be longer than what the VM has there. */
TEST(file_ends_with_the_vms_memory) {
    const Filed f;
    f.touch(ram_iova, ram_pages);
    f.touch(ram_iova + FileRam::size(), 1); /* a scratch page */
    CHECK_EQ(ask(f.device, ram_iova, VRDMA_MDEV_WINDOW_SIZE - ram_iova).length, FileRam::size());
    CHECK_EQ(ask(f.device, ram_iova + FileRam::size(), page_size).error, EFAULT);
}

TEST(file_needs_a_page_that_is_shown) {
    const Filed f;
    CHECK_EQ(ask(f.device, ram_iova, page_size).error, EFAULT);
    f.touch(ram_iova, 1);
    CHECK_EQ(ask(f.device, ram_iova, page_size).error, 0);
    CHECK(f.device.unpin(ram_iova, page_size) == 0);
    CHECK_EQ(ask(f.device, ram_iova, page_size).error, EFAULT);
    f.touch(ram_iova, 1);
    CHECK(f.vm.reset() == 0);
    CHECK_EQ(ask(f.device, ram_iova, page_size).error, EFAULT);
}

/* Memory of the VM's that is no file, or of which the file has no part. */
TEST(file_is_one_of_shared_memory) {
    const Filed f(MAP_PRIVATE);
    f.touch(ram_iova, 1);
    CHECK_EQ(ask(f.device, ram_iova, page_size).error, EOPNOTSUPP);
    auto* const anonymous =
        mmap(nullptr, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(anonymous != MAP_FAILED);
    CHECK(f.vm.map(other_iova, anonymous, page_size) == 0);
    f.touch(other_iova, 1);
    CHECK_EQ(ask(f.device, other_iova, page_size).error, EOPNOTSUPP);
}

/* The VM monitor does not map the file any more: only its pages are left to VFIO. */
TEST(file_is_mapped_by_the_vm_monitor) {
    const Filed f;
    f.touch(ram_iova, 1);
    CHECK(munmap(f.ram.page(0), page_size) == 0);
    CHECK_EQ(ask(f.device, ram_iova, page_size).error, EOPNOTSUPP);
}

/* A file of huge pages cannot be mapped page by page. */
TEST(file_is_of_small_pages) {
    const Served served;
    const Vm vm(served.uuid);
    CHECK_EQ(harness::write_file("/proc/sys/vm/nr_hugepages", "1"), 0);
    constexpr uint64_t huge = 1 << 21;
    const harness::Fd file(memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB));
    CHECK(ftruncate(file.get(), huge) == 0);
    auto* const memory = mmap(nullptr, huge, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    CHECK(memory != MAP_FAILED);
    CHECK(vm.map(ram_iova, memory, huge) == 0);
    served.device.serve_reset();
    served.device.window<uint32_t>(ram_iova + page_size) = 1;
    CHECK_EQ(served.device.counters().scratch_faults, 0u);
    CHECK_EQ(ask(served.device, ram_iova + page_size, page_size).error, EOPNOTSUPP);
    CHECK_EQ(harness::write_file("/proc/sys/vm/nr_hugepages", "0"), 0);
}

TEST(file_ranges_are_checked) {
    const Filed f;
    f.touch(ram_iova, 1);
    CHECK_EQ(ask(f.device, ram_iova, 0).error, EINVAL);
    CHECK_EQ(ask(f.device, ram_iova + 1, page_size).error, EINVAL);
    CHECK_EQ(ask(f.device, ram_iova, page_size + 1).error, EINVAL);
    CHECK_EQ(ask(f.device, VRDMA_MDEV_WINDOW_SIZE, page_size).error, EINVAL);
    CHECK_EQ(ask(f.device, page_size, ~(page_size - 1)).error, EINVAL);
    vrdma_mdev_file file = {ram_iova, page_size, 0, -1, 1};
    CHECK_ERRNO(ioctl(f.device.fd(), VRDMA_MDEV_FILE, &file), EINVAL);
    CHECK_ERRNO(ioctl(f.device.fd(), VRDMA_MDEV_FILE, nullptr), EFAULT);
}

/* The VM unmaps memory; expects a message with the range if and only if a file was given. */
TEST(file_revocations_are_told) {
    const Filed f;
    f.touch(ram_iova, 2);
    CHECK(f.vm.unmap(ram_iova, FileRam::size()) == 0);
    CHECK(!f.device.next_message());
    CHECK(f.vm.map(ram_iova, f.ram.page(0), FileRam::size()) == 0);
    CHECK(f.vm.map(other_iova, f.ram.page(0), FileRam::size()) == 0);
    CHECK(f.device.unpin(ram_iova, FileRam::size()) == 0);
    f.touch(ram_iova, 2);
    f.touch(other_iova, 2);
    CHECK_EQ(ask(f.device, ram_iova, page_size).error, 0);

    CHECK(f.vm.unmap(ram_iova, FileRam::size()) == 0);
    CHECK_EQ(ask(f.device, ram_iova, page_size).error, EFAULT);
    auto message = f.device.message();
    CHECK_EQ(message.type, VRDMA_MDEV_MESSAGE_REVOKED);
    CHECK_EQ(message.offset, ram_iova / page_size);
    CHECK_EQ(message.value, ram_iova / page_size + ram_pages - 1);
    CHECK(!f.device.next_message());

    /* Two ranges that are not read in between become one. A reset voids it. */
    CHECK(f.vm.map(ram_iova, f.ram.page(0), FileRam::size()) == 0);
    CHECK(f.device.unpin(ram_iova, FileRam::size()) == 0);
    f.touch(ram_iova, 1);
    CHECK(f.vm.unmap(ram_iova, FileRam::size()) == 0);
    CHECK(f.vm.unmap(other_iova, FileRam::size()) == 0);
    message = f.device.message();
    CHECK_EQ(message.type, VRDMA_MDEV_MESSAGE_REVOKED);
    CHECK_EQ(message.offset, ram_iova / page_size);
    CHECK_EQ(message.value, other_iova / page_size + ram_pages - 1);
    CHECK(f.vm.map(ram_iova, f.ram.page(0), FileRam::size()) == 0);
    CHECK(f.device.unpin(ram_iova, FileRam::size()) == 0);
    f.touch(ram_iova, 1);
    CHECK(f.vm.unmap(ram_iova, FileRam::size()) == 0);
    CHECK(f.vm.reset() == 0);
    f.device.serve_reset();
    CHECK(!f.device.next_message());
}

/* The VM monitor is another process, which ends; expects its file before, and EFAULT after. */
TEST(file_ends_with_the_vm_monitor) {
    const Served served;
    const FileRam ram;
    const pid_t vm = fork();
    if (vm == 0) {
        const Vm process(served.uuid);
        CHECK(process.map(ram_iova, ram.page(0), FileRam::size()) == 0);
        for (;;)
            pause();
    }
    served.await_vm(ram_iova);
    const Answer answer = ask(served.device, ram_iova, page_size);
    CHECK_EQ(answer.error, 0);
    kill(vm, SIGKILL);
    CHECK_EQ(waitpid(vm, nullptr, 0), vm);
    CHECK_EQ(ask(served.device, ram_iova, page_size).error, EFAULT);
    char byte = 0;
    CHECK_EQ(pread(answer.file.get(), &byte, 1, static_cast<off_t>(answer.offset)), ssize_t{1});
    CHECK_EQ(byte, 1);
}
