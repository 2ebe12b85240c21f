// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Messages that nobody on the way can read, change, repeat, leave out or reorder: AES-256-GCM with
// a key per direction and a number per message (see vrdma/fabric.h). Everything that it needs is
// made before the first message.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "mediator/base/result.h"
#include "vrdma/fabric.h"

struct evp_cipher_ctx_st; // OpenSSL's EVP_CIPHER_CTX

namespace vrdma::wire::fabric {

struct FreeCipher {
    void operator()(evp_cipher_ctx_st* cipher) const noexcept; // this wipes it
};

// The common part of both sides of a direction.
class MessageCipher {
  protected:
    enum class Does : int { open = 0, seal = 1 };

    static Result<MessageCipher> make(const vrdma_fabric_secret& secret, Does does);

    // Prepares key and nonce of the next message. False: there are none.
    bool begin() noexcept;
    bool transform(std::span<std::byte> bytes) noexcept;
    evp_cipher_ctx_st* cipher() const noexcept { return cipher_.get(); }

  private:
    using Nonce = std::array<std::uint8_t, sizeof(vrdma_fabric_secret::nonce)>;

    bool number(std::uint64_t number) noexcept;
    bool replace_key() noexcept;

    std::unique_ptr<evp_cipher_ctx_st, FreeCipher> cipher_;
    Nonce nonce_{};
    std::uint64_t messages_ = 0;
};

class Sealer : private MessageCipher {
  public:
    static Result<Sealer> create(const vrdma_fabric_secret& secret);

    // The last VRDMA_FABRIC_TAG_SIZE bytes are room for the tag. False: it cannot be sent.
    bool seal(std::span<std::byte> message) noexcept;

  private:
    explicit Sealer(MessageCipher cipher) : MessageCipher{std::move(cipher)} {}
};

class Opener : private MessageCipher {
  public:
    static Result<Opener> create(const vrdma_fabric_secret& secret);

    // Returns the content; none if it is not the next message of the side that has the secret.
    std::optional<std::span<std::byte>> open(std::span<std::byte> message) noexcept;

  private:
    explicit Opener(MessageCipher cipher) : MessageCipher{std::move(cipher)} {}
};

// The seals of one side of a connection.
struct Seals {
    static Result<Seals> create(const vrdma_fabric_secrets& secrets, bool connects);

    Sealer out;
    Opener in;
};

} // namespace vrdma::wire::fabric
