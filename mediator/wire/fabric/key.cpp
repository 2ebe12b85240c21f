// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/key.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <sys/stat.h>

#include "mediator/base/errno.h"
#include "mediator/base/unique_fd.h"

namespace vrdma::wire::fabric {

// The file that was looked at is the one that is read.
tl::expected<Key, std::string> Key::load(const std::string& path) {
    const auto complain = [&](const std::string& what) {
        return tl::unexpected{fmt::format("{}: {}", path, what)};
    };
    const UniqueFd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0) {
        return complain(describe(static_cast<std::errc>(errno)));
    }
    if (!S_ISREG(status.st_mode)) {
        return complain("is no file");
    }
    if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return complain("others than its owner may use it");
    }
    std::vector<std::uint8_t> secret(largest + 1);
    const ssize_t size = ::read(file.get(), secret.data(), secret.size());
    if (size < static_cast<ssize_t>(smallest) || size > static_cast<ssize_t>(largest)) {
        return complain(fmt::format("has to have {} to {} bytes", smallest, largest));
    }
    secret.resize(static_cast<std::size_t>(size));
    return Key{std::move(secret)};
}

Proof Key::prove(const vrdma_fabric_transcript& transcript) const {
    Proof proof{};
    unsigned size = 0;
    ::HMAC(::EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()),
           reinterpret_cast<const unsigned char*>(&transcript), sizeof(transcript), proof.data(),
           &size);
    return proof;
}

bool Key::proves(const vrdma_fabric_transcript& transcript,
                 std::span<const std::uint8_t, VRDMA_FABRIC_PROOF_SIZE> proof) const {
    return ::CRYPTO_memcmp(prove(transcript).data(), proof.data(), proof.size()) == 0;
}

} // namespace vrdma::wire::fabric
