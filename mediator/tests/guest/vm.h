// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A guest with a device on an HCA. Its control path uses registers and the admin queue. Its data
// path uses the queues that it has set up.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "mediator/device/device.h"
#include "mediator/tests/guest/admin_client.h"
#include "mediator/tests/guest/guest.h"

namespace vrdma::test {

class Vm {
  public:
    static constexpr std::uint64_t start = 0x7f0000000000; // of its memory region

    // Its MAC and its IP address end in `number`.
    Vm(hca::Hca& hca, verbs::GidRegistry& gids, std::uint8_t number,
       std::unique_ptr<GuestMemory> memory, std::string uplink = {});

    // Plugs in a device of the same kind, in place of the present one if there is one.
    void plug_in();
    // Enables the device, and creates all objects that are named below.
    void set_up();
    // From RESET to RTS.
    void connect(const Vm& peer);
    void modify(const vrdma_qp_attr& attr);
    // Registers all of `data`.
    Key register_data();
    void deregister(Key region);

    vrdma_sge sge(std::uint32_t length) const { return {start, length, key.value}; }

    std::uint32_t create(std::uint32_t opcode, const vrdma_admin_cmd& cmd = {});
    // Pages of the guest's memory; the page list that describes them to the device.
    Buffer allocate(std::uint64_t size);
    vrdma_page_list list(const Buffer& buffer);

  private:
    void set_address();
    void set_up_cq();
    void set_up_qp();

    hca::Hca& hca_;
    verbs::GidRegistry& gids_;
    const std::string uplink_; // that its device is bound to, or none
    const DeviceType type_{"test", 1, 1 << 20, {}};
    std::uint32_t pd_ = 0;
    vrdma_page_list data_list_{};

  public:
    const hca::Gid gid;
    GuestPort port;
    GuestAllocator allocator{port.memory()};
    std::optional<Device> device;
    std::optional<AdminClient> admin;
    std::optional<GuestCq> cq;
    std::optional<GuestQp> qp;
    Buffer data;
    Key key;
};

} // namespace vrdma::test
