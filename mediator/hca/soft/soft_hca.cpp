// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/soft_hca.h"

#include "mediator/hca/soft/slice/network.h"
#include "mediator/hca/soft/soft_slice.h"

namespace vrdma::hca::soft {

Result<std::unique_ptr<SoftHca>> SoftHca::create(const Config& config) {
    auto pollers = Pollers::create(config);
    if (!pollers) {
        return fail(pollers.error());
    }
    return std::unique_ptr<SoftHca>{new SoftHca{std::move(*pollers)}};
}

Result<> SoftHca::add_uplink(std::string name, std::unique_ptr<wire::Uplink> uplink,
                             AddressKeeper* keeper) {
    return pollers_->add_uplink(std::move(name), std::move(uplink), keeper);
}

Result<> SoftHca::renew_uplink(const std::string& name, std::unique_ptr<wire::Uplink> uplink) {
    return pollers_->renew_uplink(name, std::move(uplink));
}

void SoftHca::remove_uplink(const std::string& name) {
    pollers_->remove_uplink(name);
}

void SoftHca::set_link(const std::string& uplink, bool up, std::uint32_t mbps) {
    pollers_->find_uplink(uplink)->run([&](Engine& engine) { engine.set_link(uplink, up, mbps); });
}

Result<std::unique_ptr<Slice>> SoftHca::carve(const SliceSpec& spec, SliceHost& host) {
    if (spec.memory == nullptr) {
        return fail(std::errc::invalid_argument);
    }
    if (!spec.uplink.empty() && pollers_->find_uplink(spec.uplink) == nullptr) {
        return fail(std::errc::no_such_device);
    }
    return SoftSlice::carve(*pollers_, spec, host);
}

std::uint32_t SoftHca::connection_version() const noexcept {
    return NetworkConnection::state_version;
}

} // namespace vrdma::hca::soft
