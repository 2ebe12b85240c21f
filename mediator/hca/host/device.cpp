// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/host/device.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "mediator/base/errno.h"

namespace vrdma::hca::host {
namespace {

// A function that returns nullptr has set errno, most often.
tl::unexpected<std::errc> fail_library() {
    return fail(errno != 0 ? static_cast<std::errc>(errno) : std::errc::io_error);
}

// Hands over an object that a function of libibverbs has made.
template <typename Object, typename T>
Result<Object> own(const SharedDevice& device, T* object) {
    return object != nullptr ? Result<Object>{Object{object, {device}}} : fail_library();
}

ibv_context* open_named(const Libibverbs& library, const std::string& name) {
    ibv_device** const list = library.get_device_list(nullptr);
    if (list == nullptr) {
        return nullptr;
    }
    ibv_context* context = nullptr;
    errno = ENODEV;
    for (ibv_device** device = list; *device != nullptr; ++device) {
        if (name == library.get_device_name(*device)) {
            context = library.open_device(*device);
            break;
        }
    }
    const int error = errno;
    library.free_device_list(list);
    errno = error;
    return context;
}

bool make_nonblocking(int fd) {
    const int flags = ::fcntl(fd, F_GETFL);
    return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

} // namespace

tl::expected<std::shared_ptr<Device>, std::string> Device::open(const Libibverbs& library,
                                                                const std::string& name) {
    ibv_context* const context = open_named(library, name);
    if (context == nullptr) {
        return tl::unexpected{fmt::format("{}: {}", name, std::strerror(errno))};
    }
    std::shared_ptr<Device> device{new Device{library, context, name}};
    if (const int error = library.query_device(context, &device->attr_); error != 0) {
        return tl::unexpected{fmt::format("{}: {}", name, std::strerror(error))};
    }
    const auto port = device->port();
    if (!port || port->link_layer != IBV_LINK_LAYER_ETHERNET) {
        return tl::unexpected{fmt::format("{}: its port {} is not one of RoCE", name, port_number)};
    }
    if (!make_nonblocking(context->async_fd)) {
        return tl::unexpected{fmt::format("{}: {}", name, std::strerror(errno))};
    }
    return device;
}

Device::~Device() {
    library_.close_device(context_);
}

Result<ibv_port_attr> Device::port() const {
    ibv_port_attr attr{};
    const int error = library_.query_port(context_, port_number, &attr);
    return error == 0 ? Result<ibv_port_attr>{attr} : fail(static_cast<std::errc>(error));
}

Result<std::uint8_t> Device::find_gid(const Gid& gid, std::uint32_t type) const {
    constexpr std::size_t most = 1024;
    std::vector<ibv_gid_entry> entries(most);
    const ssize_t count = library_.query_gid_table(context_, entries.data(), entries.size());
    if (count < 0) {
        return fail(static_cast<std::errc>(-count));
    }
    entries.resize(std::min(static_cast<std::size_t>(count), most));
    const auto found = std::ranges::find_if(entries, [&](const ibv_gid_entry& entry) {
        return entry.port_num == port_number && entry.gid_type == type &&
               std::ranges::equal(entry.gid.raw, gid);
    });
    if (found == entries.end() || found->gid_index > UINT8_MAX) {
        return fail(std::errc::no_such_device);
    }
    return static_cast<std::uint8_t>(found->gid_index);
}

std::optional<Device::Event> Device::next_event() const {
    ibv_async_event event{};
    if (library_.get_async_event(context_, &event) != 0) {
        return std::nullopt;
    }
    Event taken{event.event_type, 0};
    switch (event.event_type) {
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
        case IBV_EVENT_COMM_EST:
        case IBV_EVENT_SQ_DRAINED:
        case IBV_EVENT_PATH_MIG:
        case IBV_EVENT_PATH_MIG_ERR:
        case IBV_EVENT_QP_LAST_WQE_REACHED:
            taken.qpn = event.element.qp->qp_num; // destroying it waits for the answer below
            break;
        default:
            break;
    }
    library_.ack_async_event(&event);
    return taken;
}

Result<std::shared_ptr<Pd>> alloc_pd(const SharedDevice& device) {
    auto pd = own<Pd>(device, device->library().alloc_pd(device->context()));
    if (!pd) {
        return fail(pd.error());
    }
    return std::make_shared<Pd>(std::move(*pd));
}

Result<Channel> create_channel(const SharedDevice& device) {
    auto channel = own<Channel>(device, device->library().create_comp_channel(device->context()));
    if (channel && !make_nonblocking((*channel)->fd)) {
        return fail_errno();
    }
    return channel;
}

Result<OwnedCq> create_cq(const SharedDevice& device, int entries, const Channel& channel) {
    return own<OwnedCq>(
        device, device->library().create_cq(device->context(), entries, nullptr, channel.get(), 0));
}

Result<OwnedQp> create_qp(const Pd& pd, ibv_qp_init_attr& attr) {
    const SharedDevice& device = pd.get_deleter().device;
    return own<OwnedQp>(device, device->library().create_qp(pd.get(), &attr));
}

Result<> modify_qp(const OwnedQp& qp, ibv_qp_attr& attr, int mask) {
    const int error = qp.get_deleter().device->library().modify_qp(qp.get(), &attr, mask);
    return error == 0 ? Result<>{} : fail(static_cast<std::errc>(error));
}

Result<Ah> create_ah(const Pd& pd, ibv_ah_attr& attr) {
    const SharedDevice& device = pd.get_deleter().device;
    return own<Ah>(device, device->library().create_ah(pd.get(), &attr));
}

Result<OwnedMr> register_memory(const Pd& pd, void* address, std::size_t length, std::uint64_t iova,
                                unsigned access) {
    const SharedDevice& device = pd.get_deleter().device;
    return own<OwnedMr>(device, device->library().reg_mr(pd.get(), address, length, iova, access));
}

} // namespace vrdma::hca::host
