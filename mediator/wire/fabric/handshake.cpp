// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/handshake.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace vrdma::wire::fabric {
namespace {

SSL* make_tls(const Credentials& credentials) {
    SSL* const tls = ::SSL_new(credentials.context());
    BIO* const in = ::BIO_new(::BIO_s_mem());
    BIO* const out = ::BIO_new(::BIO_s_mem());
    ::BIO_set_mem_eof_return(in, -1); // more may come
    ::SSL_set_bio(tls, in, out);
    return tls;
}

// A TLS peer that selects no protocol does not know ours.
bool speaks_ours(const SSL* tls) {
    const unsigned char* selected = nullptr;
    unsigned size = 0;
    ::SSL_get0_alpn_selected(tls, &selected, &size);
    return std::string_view{reinterpret_cast<const char*>(selected), size} == VRDMA_FABRIC_PROTOCOL;
}

std::string describe_last_error() {
    const auto error = ::ERR_peek_last_error();
    const char* const text = ::ERR_reason_error_string(error);
    const std::string reason = text != nullptr ? text : "it ends it";
    // Reasons from there on are what the other side has found.
    return ERR_GET_REASON(error) >= SSL_AD_REASON_OFFSET
               ? fmt::format("refuses us: {}", reason)
               : fmt::format("does not speak our protocol: {}", reason);
}

} // namespace

void Handshake::FreeTls::operator()(ssl_st* tls) const noexcept {
    ::SSL_free(tls);
}

Handshake::Handshake(const Credentials& credentials, std::string self, std::string peer,
                     bool connects)
    : tls_{make_tls(credentials)},
      self_{std::move(self)},
      peer_{std::move(peer)},
      connects_{connects} {}

Handshake Handshake::connect(const Credentials& credentials, std::string self, std::string peer) {
    Handshake handshake{credentials, std::move(self), std::move(peer), true};
    ::SSL_set_connect_state(handshake.tls_.get());
    ::SSL_set_verify(handshake.tls_.get(), SSL_VERIFY_PEER, &verify);
    return handshake;
}

Handshake Handshake::accept(const Credentials& credentials, std::string self) {
    Handshake handshake{credentials, std::move(self), {}, false};
    ::SSL_set_accept_state(handshake.tls_.get());
    return handshake;
}

// The side that connects knows the peer's name: the peer's certificate must be for that name.
int Handshake::verify(int good, x509_store_ctx_st* chain) {
    const auto* const tls = static_cast<SSL*>(
        ::X509_STORE_CTX_get_ex_data(chain, ::SSL_get_ex_data_X509_STORE_CTX_idx()));
    const auto* const self = static_cast<const Handshake*>(SSL_get_app_data(tls));
    if (good == 1 && ::X509_STORE_CTX_get_error_depth(chain) == 0 &&
        !has_name(::X509_STORE_CTX_get_current_cert(chain), self->peer_)) {
        ::X509_STORE_CTX_set_error(chain, X509_V_ERR_HOSTNAME_MISMATCH);
        return 0;
    }
    return good;
}

std::vector<std::byte> Handshake::receive(std::span<const std::byte> bytes) {
    if (state_ != State::open) {
        return {};
    }
    heard_ += bytes.size();
    if (heard_ > most) {
        refuse("sends too many bytes");
        return {};
    }
    ::ERR_clear_error();
    SSL_set_app_data(tls_.get(), this); // the object may have moved
    ::BIO_write(::SSL_get_rbio(tls_.get()), bytes.data(), static_cast<int>(bytes.size()));
    if (proceed()) {
        hear_hello();
    }
    return take_said();
}

// Whether the handshake of TLS is over, and both sides have certificates.
bool Handshake::proceed() {
    if (::SSL_is_init_finished(tls_.get()) == 1) {
        return true;
    }
    if (const int result = ::SSL_do_handshake(tls_.get()); result != 1) {
        refuse_for(result);
        return false;
    }
    if (!speaks_ours(tls_.get())) {
        refuse("does not speak our protocol");
        return false;
    }
    if (connects_) {
        say_hello();
    }
    return true;
}

void Handshake::hear_hello() {
    vrdma_fabric_hello hello{};
    std::array<std::uint8_t, sizeof(hello)> some{};
    while (hello_.size() < sizeof(hello)) {
        const int got =
            ::SSL_read(tls_.get(), some.data(), static_cast<int>(sizeof(hello) - hello_.size()));
        if (got <= 0) {
            return refuse_for(got);
        }
        hello_.insert(hello_.end(), some.begin(), some.begin() + got);
    }
    std::memcpy(&hello, hello_.data(), sizeof(hello));
    if (const auto names = unpack(hello)) {
        return judge(*names);
    }
    refuse("sends an invalid name");
}

void Handshake::judge(const Hello& hello) {
    if (connects_ && hello.from != peer_) {
        return refuse(fmt::format("calls itself '{}'", hello.from));
    }
    peer_ = hello.from;
    if (hello.to != self_) {
        return refuse(fmt::format("looks for '{}'", hello.to));
    }
    if (!has_name(::SSL_get0_peer_certificate(tls_.get()), peer_)) {
        return refuse("has a certificate of another name");
    }
    state_ = connects_ ? State::done : State::asks;
}

std::vector<std::byte> Handshake::admit(bool admitted) {
    if (state_ != State::asks) {
        return {};
    }
    if (admitted) {
        say_hello();
        state_ = State::done;
    } else {
        refuse("is not known as one that connects to us");
    }
    return take_said();
}

void Handshake::say_hello() {
    const vrdma_fabric_hello hello = pack({self_, peer_});
    ::SSL_write(tls_.get(), &hello, sizeof(hello)); // into memory
}

std::vector<std::byte> Handshake::take_said() {
    BIO* const out = ::SSL_get_wbio(tls_.get());
    std::vector<std::byte> said(::BIO_ctrl_pending(out));
    ::BIO_read(out, said.data(), static_cast<int>(said.size()));
    return said;
}

// The other side is told that nothing more comes, if it can understand that already.
void Handshake::refuse(std::string why) {
    state_ = State::refused;
    why_ = std::move(why);
    ::SSL_shutdown(tls_.get());
    ::ERR_clear_error();
}

void Handshake::refuse_for(int result) {
    const int error = ::SSL_get_error(tls_.get(), result);
    const long verified = ::SSL_get_verify_result(tls_.get());
    if (error == SSL_ERROR_WANT_READ) {
        return;
    }
    if (error == SSL_ERROR_ZERO_RETURN) {
        refuse("refuses us");
    } else if (verified != X509_V_OK) {
        refuse(fmt::format("has a certificate that is not good: {}",
                           ::X509_verify_cert_error_string(verified)));
    } else {
        refuse(describe_last_error());
    }
}

std::optional<Secrets> Handshake::secrets() const {
    constexpr std::string_view label = VRDMA_FABRIC_EXPORTER;
    Secrets secrets;
    const bool exported =
        ::SSL_export_keying_material(tls_.get(), reinterpret_cast<unsigned char*>(&secrets.get()),
                                     sizeof(secrets.get()), label.data(), label.size(), nullptr, 0,
                                     0) == 1;
    return exported ? std::optional{secrets} : std::nullopt;
}

} // namespace vrdma::wire::fabric
