// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/device/vrdma/admin_queue.h"

#include <cstring>
#include <span>

#include "mediator/memory/shared_words.h"
#include "mediator/verbs/guest_copy.h"

namespace vrdma {
namespace {

constexpr std::uint64_t entry_size = sizeof(vrdma_admin_cmd);
static_assert(entry_size == sizeof(vrdma_admin_cpl));

bool valid_queue(const GuestMemory& memory, Iova queue, std::uint32_t depth) {
    return queue != Iova{0} && raw(queue) % VRDMA_PAGE_SIZE == 0 &&
           memory.at(queue, depth * entry_size) != nullptr;
}

} // namespace

Result<AdminQueue> AdminQueue::create(GuestMemory& memory, const AdminQueueSpec& spec,
                                      std::uint32_t vectors) {
    if (!std::has_single_bit(spec.depth) || spec.depth < 2 || spec.depth > VRDMA_AQ_MAX_DEPTH ||
        spec.vector >= vectors || !valid_queue(memory, spec.submissions, spec.depth) ||
        !valid_queue(memory, spec.completions, spec.depth)) {
        return fail(std::errc::invalid_argument);
    }
    return AdminQueue{memory, spec};
}

Iova AdminQueue::entry(Iova queue, std::uint32_t count) const {
    return queue + (count & (spec_.depth - 1)) * entry_size;
}

std::uint32_t AdminQueue::phase(std::uint32_t count) const {
    return (count & spec_.depth) == 0 ? VRDMA_ADMIN_PHASE : 0;
}

Result<std::optional<vrdma_admin_cmd>> AdminQueue::take() {
    const Iova at = entry(spec_.submissions, position_.taken);
    std::uint32_t header = 0;
    if (const auto read =
            verbs::copy_from_guest(*memory_, at, std::as_writable_bytes(std::span{&header, 1}));
        !read) {
        return fail(read.error());
    }
    if ((header & VRDMA_ADMIN_PHASE) != phase(position_.taken)) {
        return std::nullopt;
    }
    full_fence(); // read the command after the phase that announces it
    vrdma_admin_cmd cmd;
    if (const auto read =
            verbs::copy_from_guest(*memory_, at, std::as_writable_bytes(std::span{&cmd, 1}));
        !read) {
        return fail(read.error());
    }
    ++position_.taken;
    return cmd;
}

void AdminQueue::complete(vrdma_admin_cpl completion) {
    std::byte* to = memory_->at(entry(spec_.completions, position_.given), entry_size);
    const std::uint32_t header = completion.header | phase(position_.given);
    std::memcpy(to + sizeof(header), &completion.status, entry_size - sizeof(header));
    store_release(*reinterpret_cast<std::uint32_t*>(to), header);
    ++position_.given;
}

} // namespace vrdma
