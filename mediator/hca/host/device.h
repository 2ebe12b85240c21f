// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device of the host's own HCA, and what is made of it. Each object keeps what it was made of.
// A call to the device may wait, so it is for the control thread, unless the caller says why not.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <optional>
#include <string>

#include "mediator/base/gid.h"
#include "mediator/base/result.h"
#include "mediator/hca/host/libibverbs.h"

namespace vrdma::hca::host {

inline constexpr std::uint8_t port_number = 1;

class Device {
  public:
    // Opens the device. The thread that will post must call this: some devices post by write(2),
    // which the kernel takes only from threads with the credentials of the one that opened the
    // device. The error is for people.
    static tl::expected<std::shared_ptr<Device>, std::string> open(const Libibverbs& library,
                                                                   const std::string& name);
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    ~Device();

    const Libibverbs& library() const noexcept { return library_; }
    ibv_context* context() const noexcept { return context_; }
    const std::string& name() const noexcept { return name_; }
    const ibv_device_attr& attr() const noexcept { return attr_; }

    // The state of its port now.
    Result<ibv_port_attr> port() const;
    // Where the port's GID table has the GID for packets of that RoCE version (enum ibv_gid_type).
    // ENODEV: nowhere.
    Result<std::uint8_t> find_gid(const Gid& gid, std::uint32_t type) const;

    // The next event that nobody has taken; nothing if there is none. Its object may have been
    // destroyed meanwhile, so that only the number of a QP counts.
    struct Event {
        ibv_event_type type;
        std::uint32_t qpn; // of a QP's event, else 0
    };
    std::optional<Event> next_event() const;
    int event_fd() const noexcept { return context_->async_fd; }

  private:
    Device(const Libibverbs& library, ibv_context* context, std::string name)
        : library_{library}, context_{context}, name_{std::move(name)} {}

    const Libibverbs& library_;
    ibv_context* const context_;
    const std::string name_;
    ibv_device_attr attr_{};
};

// Destroys an object by the function of the table that is named.
template <typename T, auto destroy>
struct Destroy {
    std::shared_ptr<const Device> device{};
    void operator()(T* object) const noexcept { (device->library().*destroy)(object); }
};
template <typename T, auto destroy>
using Owned = std::unique_ptr<T, Destroy<T, destroy>>;

using Pd = Owned<ibv_pd, &Libibverbs::dealloc_pd>;
using Channel = Owned<ibv_comp_channel, &Libibverbs::destroy_comp_channel>;
using OwnedMr = Owned<ibv_mr, &Libibverbs::dereg_mr>;
using OwnedCq = Owned<ibv_cq, &Libibverbs::destroy_cq>;
using OwnedQp = Owned<ibv_qp, &Libibverbs::destroy_qp>;
using Ah = Owned<ibv_ah, &Libibverbs::destroy_ah>;

using SharedDevice = std::shared_ptr<const Device>;

Result<std::shared_ptr<Pd>> alloc_pd(const SharedDevice& device);
Result<Channel> create_channel(const SharedDevice& device);
Result<OwnedCq> create_cq(const SharedDevice& device, int entries, const Channel& channel);
Result<OwnedQp> create_qp(const Pd& pd, ibv_qp_init_attr& attr);
Result<> modify_qp(const OwnedQp& qp, ibv_qp_attr& attr, int mask);
Result<Ah> create_ah(const Pd& pd, ibv_ah_attr& attr);

// Registers memory of this process. Peers and WQEs name its first byte `iova`.
Result<OwnedMr> register_memory(const Pd& pd, void* address, std::size_t length, std::uint64_t iova,
                                unsigned access);

} // namespace vrdma::hca::host
