// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/tests/client.h"

#include <fcntl.h>
#include <sys/mman.h>

namespace vrdma::vfio_user::test {

DeviceType device_type() {
    DeviceType type{"test", 1, 1 << 30, {}};
    type.limits.doorbell_pages = 4;
    type.limits.vectors = 4;
    return type;
}

std::unique_ptr<hca::soft::SoftHca> make_hca() {
    hca::soft::Config config;
    config.threads = false;
    return std::move(*hca::soft::SoftHca::create(config));
}

std::vector<std::unique_ptr<Function>> Bench::make_functions(const std::string& name,
                                                             unsigned count,
                                                             PersonalityKind personality) {
    constexpr std::uint64_t window = 1 << 30;
    verbs::Identity identity;
    identity.mac = {2, 0, 0, 0, 0, static_cast<std::uint8_t>(name.size())};
    const auto endport = std::make_shared<verbs::Endport>(identity, count);
    std::vector<std::unique_ptr<Function>> functions;
    for (unsigned i = 0; i < count; ++i) {
        functions.push_back(std::move(*Function::create(
            {name, type, {endport, i}, window, ClientMemory::max_maps, personality},
            {loop, *hca, gids, {}})));
    }
    return functions;
}

std::unique_ptr<Function> Bench::make_function() {
    return std::move(make_functions().front());
}

UniqueFd shared_file(std::uint64_t size) {
    UniqueFd file{::memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(size)), 0);
    return file;
}

UniqueFd copy_of(const UniqueFd& fd) {
    return UniqueFd{::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)};
}

Message version_command(const std::string& json) {
    Message message = command(VFIO_USER_VERSION, vfio_user_version{0, 1});
    if (!json.empty()) {
        const auto bytes = std::as_bytes(std::span{json.c_str(), json.size() + 1});
        message.payload.insert(message.payload.end(), bytes.begin(), bytes.end());
        message.header.size += static_cast<std::uint32_t>(bytes.size());
    }
    return message;
}

} // namespace vrdma::vfio_user::test
