// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/tests/guest/admin_client.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "mediator/memory/shared_words.h"

namespace vrdma::test {
namespace {

vrdma_doorbell_page* new_doorbells(std::size_t pages) {
    const std::size_t size = pages * sizeof(vrdma_doorbell_page);
    void* memory = std::aligned_alloc(sizeof(vrdma_doorbell_page), size);
    if (memory == nullptr) {
        throw std::bad_alloc{};
    }
    return static_cast<vrdma_doorbell_page*>(std::memset(memory, 0, size));
}

} // namespace

GuestPort::GuestPort(std::unique_ptr<GuestMemory> memory, const DeviceType& type)
    : memory_{std::move(memory)},
      registers_(VRDMA_PAGE_SIZE / sizeof(std::uint32_t)),
      doorbell_pages_{new_doorbells(type.limits.doorbell_pages), std::free},
      doorbells_{doorbell_pages_.get(), type.limits.doorbell_pages} {}

void GuestPort::raise(unsigned vector) noexcept {
    raised_.at(vector).fetch_add(1);
}

Iova GuestAllocator::allocate(std::uint64_t size, std::uint64_t alignment) {
    const std::uint64_t begin = (next_ + alignment - 1) & ~(alignment - 1);
    next_ = begin + size;
    if (memory_.at(Iova{begin}, size) == nullptr) {
        std::abort(); // the test needs a larger arena
    }
    return Iova{begin};
}

vrdma_page_list GuestAllocator::page_list(Iova begin, std::uint64_t length, unsigned page_shift,
                                          unsigned min_levels) {
    const std::uint64_t block = 1ull << page_shift;
    const std::uint64_t first = raw(begin) & ~(block - 1);
    std::vector<std::uint64_t> entries;
    for (std::uint64_t at = first; at < raw(begin) + length; at += block) {
        entries.push_back(at);
    }
    vrdma_page_list list{};
    list.count = static_cast<std::uint32_t>(entries.size());
    list.page_shift = static_cast<std::uint8_t>(page_shift);
    if (entries.size() == 1 && min_levels == 0) {
        list.root = entries.front();
        return list;
    }
    while (entries.size() > 1 || list.levels < min_levels) {
        std::vector<std::uint64_t> above;
        for (std::size_t i = 0; i < entries.size(); i += VRDMA_PAGE_LIST_ENTRIES) {
            const auto count = std::min<std::size_t>(VRDMA_PAGE_LIST_ENTRIES, entries.size() - i);
            const Iova page = allocate(VRDMA_PAGE_SIZE);
            std::copy_n(entries.begin() + static_cast<std::ptrdiff_t>(i), count,
                        at<std::uint64_t>(page));
            above.push_back(raw(page));
        }
        entries = std::move(above);
        ++list.levels;
    }
    list.root = entries.front();
    return list;
}

AdminClient::AdminClient(Device& device, GuestPort& port, GuestAllocator& allocator)
    : device_{device},
      port_{port},
      allocator_{allocator},
      submissions_{allocator.allocate(depth * sizeof(vrdma_admin_cmd))},
      completions_{allocator.allocate(depth * sizeof(vrdma_admin_cpl))},
      status_page_{allocator.allocate(VRDMA_PAGE_SIZE)} {}

void AdminClient::set_queue_registers() {
    const auto low = [](Iova iova) { return static_cast<std::uint32_t>(raw(iova)); };
    const auto high = [](Iova iova) { return static_cast<std::uint32_t>(raw(iova) >> 32); };
    write(VRDMA_REG_ASQ_LOW, low(submissions_));
    write(VRDMA_REG_ASQ_HIGH, high(submissions_));
    write(VRDMA_REG_ACQ_LOW, low(completions_));
    write(VRDMA_REG_ACQ_HIGH, high(completions_));
    write(VRDMA_REG_AQ_DEPTH, depth);
    write(VRDMA_REG_AQ_VECTOR, vector);
    write(VRDMA_REG_STATUS_PAGE_LOW, low(status_page_));
    write(VRDMA_REG_STATUS_PAGE_HIGH, high(status_page_));
}

bool AdminClient::enable() {
    std::memset(allocator_.at<vrdma_admin_cmd>(submissions_), 0, depth * sizeof(vrdma_admin_cmd));
    std::memset(allocator_.at<vrdma_admin_cpl>(completions_), 0, depth * sizeof(vrdma_admin_cpl));
    posted_ = taken_ = 0;
    set_queue_registers();
    write(VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
    return status() == VRDMA_STATUS_ENABLED;
}

void AdminClient::reset() {
    write(VRDMA_REG_CONTROL, VRDMA_CONTROL_RESET);
}

std::uint16_t AdminClient::post(std::uint32_t opcode, vrdma_admin_cmd cmd) {
    auto* entry = allocator_.at<vrdma_admin_cmd>(submissions_ + posted_ % depth * sizeof(cmd));
    const auto id = static_cast<std::uint16_t>(posted_);
    const std::uint32_t phase = (posted_ & depth) == 0 ? VRDMA_ADMIN_PHASE : 0;
    // Reserved bits that a test sets stay as they are.
    cmd.header |= VRDMA_SET(VRDMA_ADMIN_OPCODE, opcode) | VRDMA_SET(VRDMA_ADMIN_ID, id);
    std::memcpy(&entry->reserved, &cmd.reserved, sizeof(cmd) - sizeof(cmd.header));
    store_release(entry->header, cmd.header | phase);
    ++posted_;
    return id;
}

void AdminClient::run_device() {
    while (port_.take_wake()) {
        device_.service();
    }
}

std::optional<vrdma_admin_cpl> AdminClient::poll() {
    auto* entry =
        allocator_.at<vrdma_admin_cpl>(completions_ + taken_ % depth * sizeof(vrdma_admin_cpl));
    const std::uint32_t phase = (taken_ & depth) == 0 ? VRDMA_ADMIN_PHASE : 0;
    if ((load_acquire(entry->header) & VRDMA_ADMIN_PHASE) != phase) {
        return std::nullopt;
    }
    ++taken_;
    vrdma_admin_cpl cpl = *entry;
    cpl.header &= ~VRDMA_ADMIN_PHASE;
    return cpl;
}

std::uint32_t AdminClient::admin_steps() const {
    return load_relaxed(allocator_.at<vrdma_status_page>(status_page_)->admin_steps);
}

vrdma_admin_cpl AdminClient::execute(std::uint32_t opcode, const vrdma_admin_cmd& cmd) {
    const std::uint16_t id = post(opcode, cmd);
    ring();
    run_device();
    const auto cpl = poll();
    if (!cpl || VRDMA_GET(VRDMA_ADMIN_ID, cpl->header) != id) {
        std::abort(); // a working device answers at once, in order
    }
    return *cpl;
}

std::int64_t AdminClient::create(std::uint32_t opcode, const vrdma_admin_cmd& cmd) {
    const vrdma_admin_cpl cpl = execute(opcode, cmd);
    return cpl.status == 0 ? std::int64_t{cpl.handle.handle} : -std::int64_t{cpl.status};
}

int AdminClient::run(std::uint32_t opcode, const vrdma_admin_cmd& cmd) {
    return static_cast<int>(execute(opcode, cmd).status);
}

int AdminClient::destroy(std::uint32_t opcode, std::uint32_t handle) {
    vrdma_admin_cmd cmd{};
    cmd.handle.handle = handle;
    return run(opcode, cmd);
}

} // namespace vrdma::test
