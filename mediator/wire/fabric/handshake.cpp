// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/handshake.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

#include "mediator/base/random.h"
#include "mediator/wire/bytes.h"

namespace vrdma::wire::fabric {
namespace {

using Bytes = std::vector<std::byte>;

template <typename T>
Bytes bytes_of(const T& message) {
    const auto bytes = std::as_bytes(std::span{&message, 1});
    return {bytes.begin(), bytes.end()};
}

void fill_random(std::span<std::uint8_t> nonce) {
    for (std::size_t at = 0; at < nonce.size(); at += sizeof(std::uint32_t)) {
        const std::uint32_t word = random_u32();
        std::memcpy(nonce.data() + at, &word, sizeof(word));
    }
}

void write_name(std::span<std::uint8_t, VRDMA_FABRIC_NAME_SIZE> field, const std::string& name) {
    std::copy_n(name.begin(), std::min(name.size(), field.size() - 1), field.begin());
}

// Empty if that is no name.
std::string read_name(std::span<const std::uint8_t, VRDMA_FABRIC_NAME_SIZE> field) {
    const auto end = std::ranges::find(field, 0);
    std::string name{field.begin(), end};
    return valid_host(name) && std::all_of(end, field.end(), [](auto byte) { return byte == 0; })
               ? name
               : std::string{};
}

template <typename T>
bool is_ours(const T& message) {
    return be32toh(message.magic) == VRDMA_FABRIC_MAGIC &&
           be32toh(message.version) == VRDMA_FABRIC_VERSION;
}

} // namespace

bool valid_host(std::string_view name) {
    return !name.empty() && name.size() < VRDMA_FABRIC_NAME_SIZE &&
           name.find_first_not_of(
               "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
               "0123456789-._") == name.npos;
}

Handshake Handshake::connect(const std::string& self, std::string peer, const Key& key) {
    Handshake handshake{self, std::move(peer)};
    handshake.key_ = &key;
    vrdma_fabric_hello& hello = handshake.hello_;
    hello.magic = htobe32(VRDMA_FABRIC_MAGIC);
    hello.version = htobe32(VRDMA_FABRIC_VERSION);
    write_name(hello.from, self);
    write_name(hello.to, handshake.peer_);
    fill_random(hello.nonce);
    return handshake;
}

Handshake Handshake::accept(const std::string& self, FindKey find_key) {
    Handshake handshake{self, {}};
    handshake.find_key_ = std::move(find_key);
    fill_random(handshake.nonce_);
    return handshake;
}

Bytes Handshake::hello() const {
    return bytes_of(hello_);
}

Bytes Handshake::receive(std::span<const std::byte> frame) {
    if (state_ != State::open) {
        return {};
    }
    if (!find_key_) {
        return receive_answer(frame);
    }
    return key_ == nullptr ? receive_hello(frame) : receive_proof(frame);
}

Bytes Handshake::receive_hello(std::span<const std::byte> frame) {
    if (frame.size() != sizeof(hello_)) {
        return refuse("speaks another language");
    }
    hello_ = load<vrdma_fabric_hello>(frame, 0);
    if (!is_ours(hello_)) {
        return refuse("speaks another language");
    }
    peer_ = read_name(hello_.from);
    if (read_name(hello_.to) != self_) {
        return refuse("looks for somebody else");
    }
    key_ = peer_.empty() ? nullptr : find_key_(peer_);
    if (key_ == nullptr) {
        return refuse("is not known as one that connects to us");
    }
    vrdma_fabric_answer answer{};
    answer.magic = htobe32(VRDMA_FABRIC_MAGIC);
    answer.version = htobe32(VRDMA_FABRIC_VERSION);
    std::ranges::copy(nonce_, std::begin(answer.nonce));
    std::ranges::copy(key_->prove(transcript(VRDMA_FABRIC_ANSWERS)), std::begin(answer.proof));
    return bytes_of(answer);
}

Bytes Handshake::receive_answer(std::span<const std::byte> frame) {
    if (frame.size() != sizeof(vrdma_fabric_answer)) {
        return refuse("speaks another language");
    }
    const auto answer = load<vrdma_fabric_answer>(frame, 0);
    if (!is_ours(answer)) {
        return refuse("speaks another language");
    }
    std::ranges::copy(answer.nonce, nonce_.begin());
    if (!key_->proves(transcript(VRDMA_FABRIC_ANSWERS), answer.proof)) {
        return refuse("has another key");
    }
    vrdma_fabric_proof proof{};
    std::ranges::copy(key_->prove(transcript(VRDMA_FABRIC_CONNECTS)), std::begin(proof.proof));
    state_ = State::done;
    return bytes_of(proof);
}

Bytes Handshake::receive_proof(std::span<const std::byte> frame) {
    if (frame.size() != sizeof(vrdma_fabric_proof)) {
        return refuse("speaks another language");
    }
    const auto proof = load<vrdma_fabric_proof>(frame, 0);
    if (!key_->proves(transcript(VRDMA_FABRIC_CONNECTS), proof.proof)) {
        return refuse("has another key");
    }
    state_ = State::done;
    return {};
}

Bytes Handshake::refuse(std::string why) {
    state_ = State::refused;
    why_ = std::move(why);
    return {};
}

vrdma_fabric_transcript Handshake::transcript(vrdma_fabric_role prover) const {
    vrdma_fabric_transcript transcript{};
    transcript.role = htobe32(prover);
    transcript.version = htobe32(VRDMA_FABRIC_VERSION);
    transcript.hello = hello_;
    std::ranges::copy(nonce_, std::begin(transcript.nonce));
    return transcript;
}

} // namespace vrdma::wire::fabric
