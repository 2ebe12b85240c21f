// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/session.h"

#include <fmt/format.h>
#include <linux/vfio.h>
#include <sys/mman.h>

#include <nlohmann/json.hpp>

namespace vrdma::vfio_user {
namespace {

constexpr auto invalid = std::errc::invalid_argument;

// Returns the structure that is the whole payload of a message.
template <typename T>
Result<T> only(const Message& message) {
    if (message.payload.size() != sizeof(T)) {
        return fail(invalid);
    }
    return message.read<T>();
}

// Returns the structure of a request. The client must have room for it in the reply (argsz).
template <typename T>
Result<T> query(const Message& message) {
    auto request = only<T>(message);
    if (request && request->argsz < sizeof(T)) {
        return fail(invalid);
    }
    return request;
}

// Bounds the parser's work. The text of a client's few capabilities is shorter.
constexpr std::size_t longest_text = 4096;

// Only one of the client's capabilities matters: it must accept at least one descriptor per
// message.
bool acceptable(std::span<const std::byte> text) {
    if (text.empty()) {
        return true;
    }
    if (text.size() > longest_text || text.back() != std::byte{0}) {
        return false;
    }
    const auto* const begin = reinterpret_cast<const char*>(text.data());
    const auto json = nlohmann::json::parse(begin, begin + text.size() - 1, nullptr, false);
    if (!json.is_object()) {
        return false;
    }
    const auto capabilities = json.find("capabilities");
    if (capabilities == json.end()) {
        return true;
    }
    if (!capabilities->is_object()) {
        return false;
    }
    const auto fds = capabilities->find("max_msg_fds");
    return fds == capabilities->end() || (fds->is_number_integer() && *fds >= 1);
}

std::string capabilities(std::size_t most_maps) {
    const nlohmann::json text{{"capabilities",
                               {{"max_msg_fds", max_fds},
                                {"max_data_xfer_size", max_transfer},
                                {"max_dma_maps", most_maps},
                                {"pgsizes", VRDMA_PAGE_SIZE}}}};
    return text.dump();
}

} // namespace

Result<Answer> Session::execute(Message& message) {
    if (negotiated_ == (message.header.command == VFIO_USER_VERSION)) {
        return fail(invalid);
    }
    const bool takes_fds = message.header.command == VFIO_USER_DMA_MAP ||
                           message.header.command == VFIO_USER_DEVICE_SET_IRQS;
    if (!message.fds.empty() && !takes_fds) {
        return fail(invalid);
    }
    if (message.fds_lost) {
        return fail(std::errc::too_many_files_open);
    }
    switch (message.header.command) {
        case VFIO_USER_VERSION:
            return version(message);
        case VFIO_USER_DMA_MAP:
            return map_dma(message);
        case VFIO_USER_DMA_UNMAP:
            return unmap_dma(message);
        case VFIO_USER_DEVICE_GET_INFO:
            return device_info(message);
        case VFIO_USER_DEVICE_GET_REGION_INFO:
            return region_info(message);
        case VFIO_USER_DEVICE_GET_REGION_IO_FDS:
            return region_io_fds(message);
        case VFIO_USER_DEVICE_GET_IRQ_INFO:
            return irq_info(message);
        case VFIO_USER_DEVICE_SET_IRQS:
            return set_irqs(message);
        case VFIO_USER_REGION_READ:
            return read_region(message);
        case VFIO_USER_REGION_WRITE:
            return write_region(message);
        case VFIO_USER_DEVICE_RESET:
            return message.payload.empty() ? reset() : fail(invalid);
        case VFIO_USER_DEVICE_FEATURE:
            return feature(message);
        case VFIO_USER_MIG_DATA_READ:
            return read_state(message);
        case VFIO_USER_MIG_DATA_WRITE:
            return write_state(message);
        default:
            return fail(std::errc::operation_not_supported);
    }
}

Result<Answer> Session::version(const Message& message) {
    const auto theirs = message.read<vfio_user_version>();
    if (!theirs) {
        return fail(theirs.error());
    }
    if (theirs->major != VFIO_USER_MAJOR || !acceptable(message.after<vfio_user_version>())) {
        return fail(invalid);
    }
    negotiated_ = true;
    const vfio_user_version ours{VFIO_USER_MAJOR,
                                 std::min<std::uint16_t>(theirs->minor, VFIO_USER_MINOR)};
    Answer answer;
    answer.add(ours);
    const std::string text = capabilities(function_.client_memory().most_maps());
    const auto bytes = std::as_bytes(std::span{text.c_str(), text.size() + 1});
    answer.payload.insert(answer.payload.end(), bytes.begin(), bytes.end());
    return answer;
}

// Memory without a file could be accessed only by messages (DMA_READ), which a poller cannot use.
// So it is out of the device's reach.
Result<Answer> Session::map_dma(Message& message) {
    const auto map = query<vfio_user_dma_map>(message);
    if (!map) {
        return fail(map.error());
    }
    constexpr std::uint32_t known = VFIO_USER_DMA_READ | VFIO_USER_DMA_WRITE;
    if (map->flags == 0 || (map->flags & ~known) != 0 || message.fds.size() > 1) {
        return fail(invalid);
    }
    UniqueFd file;
    if (message.fds.empty()) {
        log_.debug("{} bytes of memory at {:#x} have no file, so the device cannot access them",
                   map->size, map->address);
    } else {
        file = std::move(message.fds[0]);
    }
    const int protection = ((map->flags & VFIO_USER_DMA_READ) != 0 ? PROT_READ : 0) |
                           ((map->flags & VFIO_USER_DMA_WRITE) != 0 ? PROT_WRITE : 0);
    return function_.client_memory()
        .map(Iova{map->address}, map->size, std::move(file), map->offset, protection)
        .map([] { return Answer{}; });
}

// The protocol knows neither flags nor ranges of several maps. QEMU sends both for a guest with an
// emulated IOMMU, because VFIO has them.
Result<Answer> Session::unmap_dma(const Message& message) {
    const auto unmap = query<vfio_user_dma_unmap>(message);
    if (!unmap) {
        return fail(unmap.error());
    }
    ClientMemory& memory = function_.client_memory();
    Iova first{unmap->address};
    std::uint64_t length = unmap->size;
    if (unmap->flags == VFIO_DMA_UNMAP_FLAG_ALL && unmap->address == 0 && unmap->size == 0) {
        first = Iova{0};
        length = memory.size();
    } else if (unmap->flags != 0) {
        return fail(invalid);
    }
    return memory.unmap_range(first, length).map([&] {
        function_.device().revoke(first, length);
        return Answer{}.add(*unmap);
    });
}

Result<Answer> Session::device_info(const Message& message) {
    return query<vfio_user_device_info>(message).map([](const auto& request) {
        return Answer{}.add(vfio_user_device_info{sizeof(request),
                                                  VFIO_DEVICE_FLAGS_RESET | VFIO_DEVICE_FLAGS_PCI,
                                                  VFIO_PCI_NUM_REGIONS, VFIO_PCI_NUM_IRQS});
    });
}

Result<Answer> Session::region_info(const Message& message) {
    auto info = query<vfio_user_region_info>(message);
    if (!info) {
        return fail(info.error());
    }
    if (info->index >= VFIO_PCI_NUM_REGIONS) {
        return fail(invalid);
    }
    const std::uint64_t size = function_.region_size(info->index);
    const std::uint32_t access = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
    *info = {sizeof(*info), size == 0 ? 0 : access, info->index, 0, size, 0};
    Answer answer;
    if (function_.shares_doorbells() &&
        info->index == VFIO_PCI_BAR0_REGION_INDEX + function_.doorbell_bar()) {
        info->flags |= VFIO_REGION_INFO_FLAG_MMAP;
        answer.fds.push_back(function_.doorbell_file());
    }
    return answer.add(*info);
}

// Gives out the eventfd of the kick page, which the poller itself watches.
Result<Answer> Session::region_io_fds(const Message& message) {
    auto info = query<vfio_user_region_io_fds>(message);
    if (!info) {
        return fail(info.error());
    }
    if (info->flags != 0 || info->count != 0 || info->index >= VFIO_PCI_NUM_REGIONS) {
        return fail(invalid);
    }
    const std::uint32_t room = info->argsz;
    const bool has_kick = function_.shares_doorbells() &&
                          info->index == VFIO_PCI_BAR0_REGION_INDEX + VRDMA_BAR_REGISTERS;
    info->count = has_kick ? 1 : 0;
    info->argsz =
        static_cast<std::uint32_t>(sizeof(*info) + info->count * sizeof(vfio_user_ioeventfd));
    Answer answer;
    answer.add(*info);
    if (has_kick && room >= info->argsz) {
        vfio_user_ioeventfd kick{};
        kick.offset = VRDMA_BAR0_KICK_OFFSET;
        kick.size = sizeof(std::uint32_t);
        kick.type = VFIO_USER_IO_FD_TYPE_IOEVENTFD;
        answer.add(kick).fds.push_back(function_.kick_fd());
    }
    return answer;
}

Session::Vectors Session::vectors_of(std::uint32_t index) const noexcept {
    const Interrupts& interrupts = function_.interrupts();
    switch (index) {
        case VFIO_PCI_MSIX_IRQ_INDEX:
            return {0, interrupts.count()};
        case VFIO_PCI_REQ_IRQ_INDEX:
            return {interrupts.request(), 1};
        default:
            return {};
    }
}

Result<Answer> Session::irq_info(const Message& message) {
    const auto info = query<vfio_user_irq_info>(message);
    if (!info) {
        return fail(info.error());
    }
    if (info->index >= VFIO_PCI_NUM_IRQS) {
        return fail(invalid);
    }
    const unsigned count = vectors_of(info->index).count;
    return Answer{}.add(vfio_user_irq_info{
        sizeof(*info), count == 0 ? 0 : std::uint32_t{VFIO_IRQ_INFO_EVENTFD}, info->index, count});
}

// Masking is not supported, because the client masks MSI-X vectors in its own table.
Result<Answer> Session::set_irqs(Message& message) {
    const auto set = message.read<vfio_user_irq_set>();
    if (!set) {
        return fail(set.error());
    }
    const auto [begin, count] = vectors_of(set->index);
    if (set->argsz < sizeof(*set) || set->start > count || set->count > count - set->start) {
        return fail(invalid);
    }
    const unsigned first = begin + set->start;
    Interrupts& interrupts = function_.interrupts();
    const auto data = message.after<vfio_user_irq_set>();
    switch (set->flags) {
        case VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_EVENTFD:
            if (!data.empty() || (!message.fds.empty() && message.fds.size() != set->count)) {
                return fail(invalid);
            }
            if (message.fds.empty()) {
                interrupts.clear(first, set->count);
                return Answer{};
            }
            return interrupts.set(first, std::move(message.fds)).map([] { return Answer{}; });
        case VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_NONE:
        case VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_BOOL:
            return trigger(*set, message);
        default:
            return fail(std::errc::operation_not_supported);
    }
}

// A client tests its own interrupts. In VFIO, DATA_NONE with a count of 0 removes all eventfds.
Result<Answer> Session::trigger(const vfio_user_irq_set& set, const Message& message) {
    Interrupts& interrupts = function_.interrupts();
    const auto wanted = message.after<vfio_user_irq_set>();
    const bool by_byte = (set.flags & VFIO_IRQ_SET_DATA_BOOL) != 0;
    if (!message.fds.empty() || wanted.size() != (by_byte ? set.count : 0)) {
        return fail(invalid);
    }
    const auto [first, count] = vectors_of(set.index);
    if (set.count == 0 && !by_byte) {
        interrupts.clear(first, count);
    }
    for (unsigned i = 0; i < set.count; ++i) {
        if (!by_byte || wanted[i] != std::byte{0}) {
            interrupts.raise(first + set.start + i);
        }
    }
    return Answer{};
}

Result<vfio_user_region_access> Session::access(const Message& message) const {
    const auto access = message.read<vfio_user_region_access>();
    if (!access) {
        return access;
    }
    const std::uint64_t size = function_.region_size(access->region);
    if (access->count == 0 || access->count > max_transfer || access->offset > size ||
        access->count > size - access->offset) {
        return fail(invalid);
    }
    return access;
}

Result<Answer> Session::read_region(const Message& message) {
    const auto read = access(message);
    if (!read || message.payload.size() != sizeof(*read)) {
        return fail(invalid);
    }
    Answer answer;
    answer.add(*read).payload.resize(sizeof(*read) + read->count);
    function_.read(read->region, read->offset, std::span{answer.payload}.subspan(sizeof(*read)));
    return answer;
}

Result<Answer> Session::write_region(const Message& message) {
    const auto write = access(message);
    if (!write || message.payload.size() != sizeof(*write) + write->count) {
        return fail(invalid);
    }
    if ((message.header.flags & VFIO_USER_F_NO_REPLY) != 0) {
        warn_of_posted_write(write->region);
    }
    function_.write(write->region, write->offset, message.after<vfio_user_region_access>());
    return Answer{}.add(*write);
}

// PVRDMA's driver looks for the effects of its writes in memory, as soon as they are done.
void Session::warn_of_posted_write(std::uint32_t region) {
    if (!warned_ && function_.needs_answered_writes() &&
        region == VFIO_PCI_BAR0_REGION_INDEX + function_.registers_bar()) {
        warned_ = true;
        log_.warn(
            "its client does not await writes, so the guest's driver may find no "
            "capabilities (QEMU: x-no-posted-writes=true)");
    }
}

Result<Answer> Session::reset() {
    function_.reset();
    return Answer{};
}

// A GET may bring room for the data that it asks for.
Result<Answer> Session::feature(const Message& message) {
    constexpr std::uint32_t methods = VFIO_DEVICE_FEATURE_GET | VFIO_DEVICE_FEATURE_SET;
    const auto feature = message.read<vfio_user_device_feature>();
    if (!feature || feature->argsz < sizeof(*feature) ||
        (feature->flags & ~(VFIO_DEVICE_FEATURE_MASK | methods | VFIO_DEVICE_FEATURE_PROBE)) != 0) {
        return fail(invalid);
    }
    const bool probes = (feature->flags & VFIO_DEVICE_FEATURE_PROBE) != 0;
    const std::uint32_t asked = feature->flags & methods;
    if (!probes && asked != VFIO_DEVICE_FEATURE_GET && asked != VFIO_DEVICE_FEATURE_SET) {
        return fail(invalid);
    }
    switch (feature->flags & VFIO_DEVICE_FEATURE_MASK) {
        case VFIO_DEVICE_FEATURE_MIGRATION:
            return migration(feature->flags, feature->argsz);
        case VFIO_DEVICE_FEATURE_MIG_DEVICE_STATE:
            return migration_state(feature->flags, feature->argsz, message);
        default:
            return fail(std::errc::inappropriate_io_control_operation);
    }
}

Result<Answer> Session::migration(std::uint32_t flags, std::uint32_t room) {
    const vfio_user_migration data{VFIO_MIGRATION_STOP_COPY};
    vfio_user_device_feature feature{room, flags};
    if ((flags & VFIO_DEVICE_FEATURE_SET) != 0) {
        return fail(invalid);
    }
    function_.offer_migration();
    if ((flags & VFIO_DEVICE_FEATURE_PROBE) != 0) {
        return Answer{}.add(feature);
    }
    feature.argsz = sizeof(feature) + sizeof(data);
    return room < feature.argsz ? fail(invalid) : Result<Answer>{Answer{}.add(feature).add(data)};
}

Result<Answer> Session::migration_state(std::uint32_t flags, std::uint32_t room,
                                        const Message& message) {
    vfio_user_device_feature feature{room, flags};
    if ((flags & VFIO_DEVICE_FEATURE_PROBE) != 0) {
        return Answer{}.add(feature);
    }
    vfio_user_mig_state state{};
    if (room < sizeof(feature) + sizeof(state)) {
        return fail(invalid);
    }
    if ((flags & VFIO_DEVICE_FEATURE_GET) != 0) {
        feature.argsz = sizeof(feature) + sizeof(state);
        state.device_state = function_.migration().state();
        return Answer{}.add(feature).add(state);
    }
    const auto data = message.after<vfio_user_device_feature>();
    if (data.size() != sizeof(state)) {
        return fail(invalid);
    }
    std::memcpy(&state, data.data(), sizeof(state));
    return function_.migration().go_to(state.device_state).map([&] {
        return Answer{}.add(feature).add(state);
    });
}

Result<Answer> Session::read_state(const Message& message) {
    const auto asked = query<vfio_user_mig_data>(message);
    if (!asked || asked->size > max_transfer || asked->argsz - sizeof(*asked) < asked->size) {
        return fail(invalid);
    }
    return function_.migration().read(asked->size).map([](std::span<const std::byte> piece) {
        const auto size = static_cast<std::uint32_t>(piece.size());
        Answer answer;
        answer.add(vfio_user_mig_data{static_cast<std::uint32_t>(sizeof(*asked)) + size, size});
        answer.payload.insert(answer.payload.end(), piece.begin(), piece.end());
        return answer;
    });
}

Result<Answer> Session::write_state(const Message& message) {
    const auto head = message.read<vfio_user_mig_data>();
    if (!head || head->size > max_transfer ||
        message.payload.size() != sizeof(*head) + head->size) {
        return fail(invalid);
    }
    return function_.migration().write(message.after<vfio_user_mig_data>()).map([] {
        return Answer{};
    });
}

} // namespace vrdma::vfio_user
