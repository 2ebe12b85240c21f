// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/seal.h"

#include <endian.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstring>

namespace vrdma::wire::fabric {
namespace {

constexpr std::size_t tag_size = VRDMA_FABRIC_TAG_SIZE;

unsigned char* raw(std::span<std::byte> bytes) noexcept {
    return reinterpret_cast<unsigned char*>(bytes.data());
}

} // namespace

void FreeCipher::operator()(evp_cipher_ctx_st* cipher) const noexcept {
    ::EVP_CIPHER_CTX_free(cipher);
}

Result<MessageCipher> MessageCipher::make(const vrdma_fabric_secret& secret, Does does) {
    MessageCipher made;
    made.cipher_.reset(::EVP_CIPHER_CTX_new());
    std::ranges::copy(secret.nonce, made.nonce_.begin());
    if (made.cipher_ == nullptr ||
        ::EVP_CipherInit_ex(made.cipher_.get(), ::EVP_aes_256_gcm(), nullptr, secret.key,
                            secret.nonce, static_cast<int>(does)) != 1) {
        return fail(std::errc::not_supported);
    }
    return made;
}

// The numbers never end: at a hundred million messages per second, they last for 5,000 years.
bool MessageCipher::begin() noexcept {
    if (messages_ != 0 && messages_ % VRDMA_FABRIC_MESSAGES_PER_KEY == 0 && !replace_key()) {
        return false;
    }
    return number(messages_++);
}

bool MessageCipher::number(std::uint64_t number) noexcept {
    Nonce nonce = nonce_;
    std::uint64_t last = 0;
    std::uint8_t* const at = nonce.data() + nonce.size() - sizeof(last);
    std::memcpy(&last, at, sizeof(last));
    last ^= htobe64(number);
    std::memcpy(at, &last, sizeof(last));
    return ::EVP_CipherInit_ex(cipher_.get(), nullptr, nullptr, nullptr, nonce.data(), -1) == 1;
}

// Like REKEY of the Noise protocol framework. For zeros, opening has the same result as sealing.
bool MessageCipher::replace_key() noexcept {
    std::array<std::byte, sizeof(vrdma_fabric_secret::key)> key{};
    const bool replaced =
        number(UINT64_MAX) && transform(key) &&
        ::EVP_CipherInit_ex(cipher_.get(), nullptr, nullptr, raw(key), nullptr, -1) == 1;
    ::OPENSSL_cleanse(key.data(), key.size());
    return replaced;
}

bool MessageCipher::transform(std::span<std::byte> bytes) noexcept {
    int size = 0;
    return ::EVP_CipherUpdate(cipher_.get(), raw(bytes), &size, raw(bytes),
                              static_cast<int>(bytes.size())) == 1;
}

Result<Sealer> Sealer::create(const vrdma_fabric_secret& secret) {
    return make(secret, Does::seal).map([](MessageCipher&& made) {
        return Sealer{std::move(made)};
    });
}

bool Sealer::seal(std::span<std::byte> message) noexcept {
    const auto tag = message.last(tag_size);
    int none = 0;
    return begin() && transform(message.first(message.size() - tag_size)) &&
           ::EVP_CipherFinal_ex(cipher(), raw(tag), &none) == 1 &&
           ::EVP_CIPHER_CTX_ctrl(cipher(), EVP_CTRL_AEAD_GET_TAG, tag_size, raw(tag)) == 1;
}

Result<Opener> Opener::create(const vrdma_fabric_secret& secret) {
    return make(secret, Does::open).map([](MessageCipher&& made) {
        return Opener{std::move(made)};
    });
}

std::optional<std::span<std::byte>> Opener::open(std::span<std::byte> message) noexcept {
    if (message.size() < tag_size) {
        return std::nullopt;
    }
    const auto sealed = message.first(message.size() - tag_size);
    const auto tag = message.last(tag_size);
    int none = 0;
    if (!begin() || !transform(sealed) ||
        ::EVP_CIPHER_CTX_ctrl(cipher(), EVP_CTRL_AEAD_SET_TAG, tag_size, raw(tag)) != 1 ||
        ::EVP_CipherFinal_ex(cipher(), raw(tag), &none) != 1) {
        return std::nullopt;
    }
    return sealed;
}

Result<Seals> Seals::create(const vrdma_fabric_secrets& secrets, bool connects) {
    auto out = Sealer::create(connects ? secrets.client : secrets.server);
    auto in = Opener::create(connects ? secrets.server : secrets.client);
    if (!out || !in) {
        return fail(!out ? out.error() : in.error());
    }
    return Seals{std::move(*out), std::move(*in)};
}

} // namespace vrdma::wire::fabric
