// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A client of a device's socket, without a driver. It writes anything to registers, admin queue and
// doorbells. Its memory is one file, whose addresses begin at 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "mediator/base/unique_fd.h"
#include "torture/device.h"
#include "vrdma/device.h"
#include "vrdma/queue.h"

namespace vrdma::torture::hostile {

class Function {
  public:
    Function(const std::string& socket, std::uint64_t memory);

    std::uint64_t memory_size() const { return memory_.size(); }
    // Allocates pages. The first page of the memory is never among them.
    std::uint64_t allocate(std::uint64_t size);
    template <typename T>
    T* at(std::uint64_t address) const {
        return reinterpret_cast<T*>(memory_.data() + address);
    }

    // The pages of the list itself are allocated anew by each call.
    vrdma_page_list contiguous(std::uint64_t address, std::uint32_t pages);
    vrdma_page_list scattered(std::span<const std::uint64_t> pages);

    // Sets the queue registers, and ENABLE; again after a reset.
    void enable();
    void reset() const;
    void write_register(std::uint32_t offset, std::uint32_t value) const;
    std::uint32_t read_register(std::uint32_t offset) const;

    // Waits for the answer. Sleeps between two polls.
    vrdma_admin_cpl execute(std::uint32_t opcode, const vrdma_admin_cmd& command = {});
    // Executes a command that has to succeed. Returns the handle.
    std::uint32_t create(std::uint32_t opcode, const vrdma_admin_cmd& command = {});

    std::span<vrdma_doorbell_page> doorbells() const { return doorbells_; }

  private:
    void map_memory() const;
    void map_doorbells();
    vrdma_admin_cmd& submission(std::uint32_t number) const;
    vrdma_admin_cpl& completion(std::uint32_t number) const;

    UniqueFd socket_;
    UniqueFd file_;
    Memory memory_;
    std::uint64_t next_ = VRDMA_PAGE_SIZE;
    std::uint64_t submissions_ = 0;
    std::uint64_t completions_ = 0;
    std::uint64_t status_page_ = 0;
    std::uint32_t posted_ = 0;
    std::span<vrdma_doorbell_page> doorbells_;
};

} // namespace vrdma::torture::hostile
