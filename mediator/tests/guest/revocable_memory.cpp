// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/tests/guest/revocable_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "vrdma/device.h"

namespace vrdma::test {
namespace {

constexpr std::uint64_t page = VRDMA_PAGE_SIZE;

std::atomic<RevocableMemory*> current{nullptr};
struct sigaction previous {};

void on_fault(int, siginfo_t* info, void*) {
    RevocableMemory* memory = current.load();
    if (memory == nullptr || !memory->show_scratch(static_cast<std::byte*>(info->si_addr))) {
        ::sigaction(SIGSEGV, &previous, nullptr); // and fault again
    }
}

UniqueFd make_file(std::uint64_t size) {
    UniqueFd file{::memfd_create("guest", MFD_CLOEXEC)};
    if (!file || ::ftruncate(file.get(), static_cast<off_t>(size)) != 0) {
        throw std::runtime_error{"no memory for a guest"};
    }
    return file;
}

std::byte* map(const UniqueFd& file, std::uint64_t size) {
    void* base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (base == MAP_FAILED) {
        throw std::runtime_error{"no address space for a guest"};
    }
    return static_cast<std::byte*>(base);
}

} // namespace

RevocableMemory::RevocableMemory(std::uint64_t size) : RevocableMemory{make_file(size), size} {}

RevocableMemory::RevocableMemory(UniqueFd file, std::uint64_t size)
    : GuestMemory{map(file, size), size, &faults_},
      file_{std::move(file)},
      gone_{std::make_unique<std::atomic<bool>[]>(size / page)} {
    assert(current.load() == nullptr);
    current.store(this);
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSEGV, &action, &previous);
}

RevocableMemory::~RevocableMemory() {
    ::sigaction(SIGSEGV, &previous, nullptr);
    current.store(nullptr);
    ::munmap(at(Iova{0}, 0), size());
}

void RevocableMemory::revoke(Iova iova, std::uint64_t length) {
    ::mprotect(at(iova, length), length, PROT_NONE);
    for (std::uint64_t i = raw(iova) / page; i < (raw(iova) + length) / page; ++i) {
        gone_[i].store(true);
    }
}

void RevocableMemory::restore(Iova iova, std::uint64_t length) {
    for (std::uint64_t i = raw(iova) / page; i < (raw(iova) + length) / page; ++i) {
        gone_[i].store(false);
    }
}

bool RevocableMemory::show_scratch(std::byte* address) noexcept {
    std::byte* const base = at(Iova{0}, 0);
    if (address < base || address >= base + size()) {
        return false;
    }
    std::byte* const start = base + (address - base) / page * page;
    std::atomic_ref{faults_}.fetch_add(1);
    return ::mmap(start, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                  0) != MAP_FAILED;
}

// The next access to each page meets the page's present state.
void RevocableMemory::release(Iova iova, std::uint64_t length) noexcept {
    releases_.fetch_add(1);
    const std::uint64_t end = (raw(iova) + length + page - 1) / page;
    for (std::uint64_t i = raw(iova) / page; i < end; ++i) {
        const int access = gone_[i].load() ? PROT_NONE : PROT_READ | PROT_WRITE;
        std::byte* const start = at(Iova{i * page}, page);
        if (::mmap(start, page, access, MAP_SHARED | MAP_FIXED, file_.get(),
                   static_cast<off_t>(i * page)) != start) {
            std::abort();
        }
    }
}

} // namespace vrdma::test
