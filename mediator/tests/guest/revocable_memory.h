// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Guest memory whose pages can go away and come back. An access to a page that is gone meets a
// scratch page, and is counted, as with the module's window.
#pragma once

#include <atomic>
#include <memory>

#include "mediator/base/unique_fd.h"
#include "mediator/memory/guest_memory.h"

namespace vrdma::test {

// A process can have only one at a time, because it handles SIGSEGV.
class RevocableMemory final : public GuestMemory {
  public:
    explicit RevocableMemory(std::uint64_t size);
    RevocableMemory(const RevocableMemory&) = delete;
    RevocableMemory& operator=(const RevocableMemory&) = delete;
    ~RevocableMemory() override;

    // The guest gives pages up, and takes them back. They keep their content.
    void revoke(Iova iova, std::uint64_t length);
    void restore(Iova iova, std::uint64_t length);

    void release(Iova iova, std::uint64_t length) noexcept override;
    unsigned releases() const { return releases_.load(); }

    // For the signal handler. Returns whether the address belongs to this memory.
    bool show_scratch(std::byte* address) noexcept;

  private:
    RevocableMemory(UniqueFd file, std::uint64_t size);

    UniqueFd file_;
    std::unique_ptr<std::atomic<bool>[]> gone_; // by page
    std::uint64_t faults_ = 0;                  // by any thread
    std::atomic<unsigned> releases_{0};
};

} // namespace vrdma::test
