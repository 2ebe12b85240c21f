// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A client that drives a function as a driver in it would.
#pragma once

#include <linux/vfio.h>
#include <sys/mman.h>

#include <algorithm>

#include "mediator/base/mapping.h"
#include "mediator/frontend/vfio_user/tests/client.h"

namespace vrdma::vfio_user::test {

// The driver of a function: registers and an admin queue in the memory that its client shares.
class Driver {
  public:
    static constexpr std::uint64_t shared = 1 << 24; // bytes of it

    explicit Driver(std::unique_ptr<Function> function) : function_{std::move(function)} {
        EXPECT_TRUE(function_->client_memory().map(Iova{0}, shared, copy_of(file_), 0,
                                                   PROT_READ | PROT_WRITE));
        command(PCI_COMMAND_MASTER);
    }

    // Writes the Command register.
    void command(std::uint16_t value) {
        function_->write(VFIO_PCI_CONFIG_REGION_INDEX, PCI_COMMAND,
                         std::as_bytes(std::span{&value, 1}));
    }

    Function& function() { return *function_; }

    std::uint32_t read(std::uint32_t offset) {
        std::uint32_t value = 0;
        function_->read(VFIO_PCI_BAR0_REGION_INDEX, offset,
                        std::as_writable_bytes(std::span{&value, 1}));
        return value;
    }
    void write(std::uint32_t offset, std::uint64_t value) {
        const auto word = static_cast<std::uint32_t>(value);
        function_->write(VFIO_PCI_BAR0_REGION_INDEX, offset, std::as_bytes(std::span{&word, 1}));
    }

    std::uint32_t enable(std::uint64_t status_page = status_page_of_ours) {
        std::fill_n(memory_.data() + submissions, 2 * page, std::byte{});
        posted_ = 0;
        write(VRDMA_REG_ASQ_LOW, submissions);
        write(VRDMA_REG_ACQ_LOW, completions);
        write(VRDMA_REG_AQ_DEPTH, depth);
        write(VRDMA_REG_AQ_VECTOR, 1);
        write(VRDMA_REG_STATUS_PAGE_LOW, status_page);
        write(VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
        return read(VRDMA_REG_STATUS);
    }

    // Runs a command, and returns its completion. Each write to the doorbell gives the device a
    // turn, and a long list takes several turns.
    vrdma_admin_cpl run(std::uint32_t opcode, vrdma_admin_cmd cmd = {}) {
        cmd.header = VRDMA_SET(VRDMA_ADMIN_OPCODE, opcode) | VRDMA_ADMIN_PHASE;
        memory_.as<vrdma_admin_cmd>(submissions)[posted_] = cmd;
        const vrdma_admin_cpl& completion = memory_.as<vrdma_admin_cpl>(completions)[posted_++];
        for (int turns = 0; turns < 1000 && completion.header == 0; ++turns) {
            write(VRDMA_REG_ADMIN_DOORBELL, 1);
        }
        return completion;
    }
    vrdma_admin_cpl completion(std::uint32_t index) const {
        return memory_.as<vrdma_admin_cpl>(completions)[index];
    }

    // A list of 4 KiB blocks, as a tree in shared memory.
    vrdma_page_list list(std::vector<std::uint64_t> entries) {
        vrdma_page_list list{};
        list.count = static_cast<std::uint32_t>(entries.size());
        list.page_shift = VRDMA_PAGE_SHIFT;
        std::uint64_t next = lists;
        for (; entries.size() > 1; ++list.levels) {
            std::vector<std::uint64_t> above;
            for (std::size_t i = 0; i < entries.size();
                 i += VRDMA_PAGE_LIST_ENTRIES, next += page) {
                const auto count =
                    std::min<std::size_t>(VRDMA_PAGE_LIST_ENTRIES, entries.size() - i);
                std::copy_n(entries.begin() + static_cast<std::ptrdiff_t>(i), count,
                            memory_.as<std::uint64_t>(next));
                above.push_back(next);
            }
            entries = std::move(above);
        }
        list.root = entries.front();
        return list;
    }

    std::byte* status_page() const { return memory_.data() + status_page_of_ours; }

    vrdma_admin_cpl create_eq() {
        vrdma_admin_cmd cmd{};
        cmd.create_eq = {list({ring}), 16, 2};
        return run(VRDMA_ADMIN_CREATE_EQ, cmd);
    }

  private:
    static constexpr std::uint64_t page = VRDMA_PAGE_SIZE;
    static constexpr std::uint64_t submissions = 0x1000;
    static constexpr std::uint64_t completions = 0x2000;
    static constexpr std::uint64_t status_page_of_ours = 0x3000;
    static constexpr std::uint64_t ring = 0x4000;
    static constexpr std::uint64_t lists = 0x10000;
    static constexpr std::uint32_t depth = 16;

    UniqueFd file_ = shared_file(shared);
    Mapping memory_ = *Mapping::map(file_.get(), 0, shared, PROT_READ | PROT_WRITE);
    std::unique_ptr<Function> function_;
    std::uint32_t posted_ = 0;
};

} // namespace vrdma::vfio_user::test
