// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/hostile/function.h"

#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "torture/hostile/messages.h"

namespace vrdma::torture::hostile {
namespace {

constexpr std::uint32_t depth = 16; // of the admin queue
constexpr std::uint32_t vector = 1;
constexpr std::chrono::microseconds look_again{200};
constexpr std::chrono::seconds patience{60};

std::uint32_t phase_of(std::uint32_t number) {
    return (number & depth) == 0 ? VRDMA_ADMIN_PHASE : 0;
}

template <typename Done>
void await(Done&& done, const char* what) {
    for (const auto end = std::chrono::steady_clock::now() + patience; !done();) {
        require(std::chrono::steady_clock::now() < end, what);
        std::this_thread::sleep_for(look_again);
    }
}

vfio_user_region_access register_access(std::uint32_t offset) {
    return {offset, VFIO_PCI_BAR0_REGION_INDEX, sizeof(std::uint32_t)};
}

} // namespace

Function::Function(const std::string& socket, std::uint64_t memory)
    : socket_{connect_to(socket)},
      file_{::memfd_create("hostile", MFD_CLOEXEC)},
      memory_{memory},
      submissions_{allocate(depth * sizeof(vrdma_admin_cmd))},
      completions_{allocate(depth * sizeof(vrdma_admin_cpl))},
      status_page_{allocate(VRDMA_PAGE_SIZE)} {
    command(socket_, VFIO_USER_VERSION, vfio_user_version{VFIO_USER_MAJOR, VFIO_USER_MINOR});
    map_memory();
    map_doorbells();
    command(
        socket_, VFIO_USER_REGION_WRITE,
        vfio_user_region_access{PCI_COMMAND, VFIO_PCI_CONFIG_REGION_INDEX, sizeof(std::uint16_t)},
        std::uint16_t{PCI_COMMAND_MASTER});
    enable();
}

void Function::map_memory() const {
    check(::ftruncate(file_.get(), static_cast<off_t>(memory_.size())) != 0 ? errno : 0,
          "ftruncate");
    require(::mmap(memory_.data(), memory_.size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                   file_.get(), 0) != MAP_FAILED,
            "mmap");
    const vfio_user_dma_map map{sizeof(map), VFIO_USER_DMA_READ | VFIO_USER_DMA_WRITE, 0, 0,
                                memory_.size()};
    converse(socket_, VFIO_USER_DMA_MAP, std::as_bytes(std::span{&map, 1}), file_.get());
}

void Function::map_doorbells() {
    constexpr std::uint32_t bar = VFIO_PCI_BAR0_REGION_INDEX + VRDMA_BAR_DOORBELLS;
    const Reply reply =
        command(socket_, VFIO_USER_DEVICE_GET_REGION_INFO,
                vfio_user_region_info{sizeof(vfio_user_region_info), 0, bar, 0, 0, 0});
    const auto info = reply.part<vfio_user_region_info>();
    void* const start = ::mmap(nullptr, info.size, PROT_READ | PROT_WRITE, MAP_SHARED,
                               reply.fd.get(), static_cast<off_t>(info.offset));
    require(start != MAP_FAILED, "mmap of the doorbells");
    doorbells_ = {static_cast<vrdma_doorbell_page*>(start),
                  info.size / sizeof(vrdma_doorbell_page)};
}

std::uint64_t Function::allocate(std::uint64_t size) {
    const std::uint64_t begin = next_;
    next_ += (size + VRDMA_PAGE_SIZE - 1) & ~std::uint64_t{VRDMA_PAGE_SIZE - 1};
    require(next_ <= memory_.size(), "a function has too little memory");
    return begin;
}

vrdma_page_list Function::contiguous(std::uint64_t address, std::uint32_t pages) {
    std::vector<std::uint64_t> list;
    for (std::uint32_t i = 0; i < pages; ++i) {
        list.push_back(address + std::uint64_t{i} * VRDMA_PAGE_SIZE);
    }
    return scattered(list);
}

vrdma_page_list Function::scattered(std::span<const std::uint64_t> pages) {
    vrdma_page_list list{};
    list.count = static_cast<std::uint32_t>(pages.size());
    list.page_shift = VRDMA_PAGE_SHIFT;
    std::vector<std::uint64_t> level{pages.begin(), pages.end()};
    while (level.size() > 1) {
        std::vector<std::uint64_t> above;
        for (std::size_t i = 0; i < level.size(); i += VRDMA_PAGE_LIST_ENTRIES) {
            const auto part = std::span{level}.subspan(
                i, std::min<std::size_t>(VRDMA_PAGE_LIST_ENTRIES, level.size() - i));
            above.push_back(allocate(VRDMA_PAGE_SIZE));
            std::ranges::copy(part, at<std::uint64_t>(above.back()));
        }
        level = std::move(above);
        ++list.levels;
    }
    list.root = level.front();
    return list;
}

void Function::write_register(std::uint32_t offset, std::uint32_t value) const {
    command(socket_, VFIO_USER_REGION_WRITE, register_access(offset), value);
}

std::uint32_t Function::read_register(std::uint32_t offset) const {
    const Reply reply = command(socket_, VFIO_USER_REGION_READ, register_access(offset));
    return reply.part<std::uint32_t>(sizeof(vfio_user_region_access));
}

void Function::enable() {
    const auto write_address = [&](std::uint32_t offset, std::uint64_t address) {
        write_register(offset, static_cast<std::uint32_t>(address));
        write_register(offset + sizeof(std::uint32_t), static_cast<std::uint32_t>(address >> 32));
    };
    await([&] { return (read_register(VRDMA_REG_STATUS) & VRDMA_STATUS_READY) != 0; },
          "a device does not get ready");
    std::memset(at<std::byte>(submissions_), 0, depth * sizeof(vrdma_admin_cmd));
    std::memset(at<std::byte>(completions_), 0, depth * sizeof(vrdma_admin_cpl));
    posted_ = 0;
    write_address(VRDMA_REG_ASQ_LOW, submissions_);
    write_address(VRDMA_REG_ACQ_LOW, completions_);
    write_register(VRDMA_REG_AQ_DEPTH, depth);
    write_register(VRDMA_REG_AQ_VECTOR, vector);
    write_address(VRDMA_REG_STATUS_PAGE_LOW, status_page_);
    write_register(VRDMA_REG_CONTROL, VRDMA_CONTROL_ENABLE);
    await([&] { return (read_register(VRDMA_REG_STATUS) & VRDMA_STATUS_ENABLED) != 0; },
          "a device cannot be enabled");
}

void Function::reset() const {
    write_register(VRDMA_REG_CONTROL, VRDMA_CONTROL_RESET);
}

vrdma_admin_cmd& Function::submission(std::uint32_t number) const {
    return at<vrdma_admin_cmd>(submissions_)[number % depth];
}

vrdma_admin_cpl& Function::completion(std::uint32_t number) const {
    return at<vrdma_admin_cpl>(completions_)[number % depth];
}

vrdma_admin_cpl Function::execute(std::uint32_t opcode, const vrdma_admin_cmd& command) {
    const std::uint32_t phase = phase_of(posted_);
    vrdma_admin_cmd& entry = submission(posted_);
    const vrdma_admin_cpl& answer = completion(posted_);
    std::memcpy(&entry.reserved, &command.reserved, sizeof(entry) - sizeof(entry.header));
    __atomic_store_n(&entry.header,
                     phase | VRDMA_SET(VRDMA_ADMIN_OPCODE, opcode) |
                         VRDMA_SET(VRDMA_ADMIN_ID, posted_ & 0xffffu),
                     __ATOMIC_RELEASE);
    ++posted_;
    write_register(VRDMA_REG_ADMIN_DOORBELL, 1);
    await(
        [&] {
            return (__atomic_load_n(&answer.header, __ATOMIC_ACQUIRE) & VRDMA_ADMIN_PHASE) == phase;
        },
        "an admin command is not answered");
    return answer;
}

std::uint32_t Function::create(std::uint32_t opcode, const vrdma_admin_cmd& command) {
    const vrdma_admin_cpl answer = execute(opcode, command);
    check(static_cast<int>(answer.status), "an admin command");
    return answer.handle.handle;
}

} // namespace vrdma::torture::hostile
