// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/credentials.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>
#include <vector>

#include "mediator/base/errno.h"
#include "mediator/base/unique_fd.h"
#include "vrdma/fabric.h"

namespace vrdma::wire::fabric {
namespace {

template <auto free>
struct Free {
    template <typename T>
    void operator()(T* object) const noexcept {
        free(object);
    }
};
using Bio = std::unique_ptr<BIO, Free<&BIO_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Free<&EVP_PKEY_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, Free<&GENERAL_NAMES_free>>;

using Error = tl::unexpected<std::string>;

Error complain(const std::string& path, std::string_view what) {
    return Error{fmt::format("{}: {}", path, what)};
}

// Reports OpenSSL's last error, or the system call's if one failed before.
Error complain(const std::string& path) {
    if (const unsigned long first = ::ERR_peek_error(); ERR_SYSTEM_ERROR(first)) {
        return complain(path, describe(static_cast<std::errc>(ERR_GET_REASON(first))));
    }
    const char* const reason = ::ERR_reason_error_string(::ERR_peek_last_error());
    return complain(path, reason != nullptr ? reason : "cannot be used");
}

// The bytes of a file. They are wiped.
struct Secret {
    static constexpr std::size_t largest = 64 << 10;

    Secret() = default;
    Secret(const Secret&) = delete;
    Secret& operator=(const Secret&) = delete;
    ~Secret() { ::OPENSSL_cleanse(bytes.data(), bytes.size()); }

    std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(largest);
    std::size_t size = 0;
};

// Reads the same open file that it has checked.
tl::expected<void, std::string> read_secret(const std::string& path, Secret& secret) {
    const UniqueFd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0) {
        return complain(path, describe(static_cast<std::errc>(errno)));
    }
    if (!S_ISREG(status.st_mode)) {
        return complain(path, "is not a regular file");
    }
    if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return complain(path, "group or others may use it (its mode must be 0600)");
    }
    const ssize_t size = ::read(file.get(), secret.bytes.data(), secret.bytes.size());
    if (size <= 0) {
        return complain(path, "is empty or unreadable");
    }
    secret.size = static_cast<std::size_t>(size);
    return {};
}

// There is nobody to ask for a password.
int no_password(char* /*to*/, int /*size*/, int /*writes*/, void* /*context*/) {
    return -1;
}

tl::expected<PrivateKey, std::string> load_private_key(const std::string& path) {
    Secret secret;
    if (const auto read = read_secret(path, secret); !read) {
        return Error{read.error()};
    }
    const Bio bio{::BIO_new_mem_buf(secret.bytes.data(), static_cast<int>(secret.size))};
    PrivateKey key{::PEM_read_bio_PrivateKey(bio.get(), nullptr, &no_password, nullptr)};
    if (key == nullptr) {
        return complain(path);
    }
    return key;
}

// The version of the protocol between mediators, behind its size.
constexpr std::string_view protocols = "\x0e" VRDMA_FABRIC_PROTOCOL;
static_assert(protocols.front() == protocols.size() - 1);

const unsigned char* our_protocols() {
    return reinterpret_cast<const unsigned char*>(protocols.data());
}

int select_protocol(SSL* /*ssl*/, const unsigned char** selected, unsigned char* size,
                    const unsigned char* offered, unsigned offered_size, void* /*context*/) {
    unsigned char* found = nullptr;
    if (::SSL_select_next_proto(&found, size, our_protocols(), protocols.size(), offered,
                                offered_size) != OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    *selected = found;
    return SSL_TLSEXT_ERR_OK;
}

// No session outlives its connection, so there is nothing to resume.
bool restrict(SSL_CTX* context) {
    ::SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    ::SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    ::SSL_CTX_set_mode(context, SSL_MODE_NO_AUTO_CHAIN); // only those of the file
    ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    ::SSL_CTX_set_alpn_select_cb(context, &select_protocol, nullptr);
    return ::SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
           ::SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
           ::SSL_CTX_set_num_tickets(context, 0) == 1 &&
           ::SSL_CTX_set_alpn_protos(context, our_protocols(), protocols.size()) == 0;
}

} // namespace

tl::expected<Credentials, std::string> Credentials::load(const CredentialFiles& files,
                                                         const std::string& host) {
    ::ERR_clear_error();
    const std::shared_ptr<SSL_CTX> context{::SSL_CTX_new(::TLS_method()), Free<&SSL_CTX_free>{}};
    if (context == nullptr || !restrict(context.get())) {
        return complain("TLS 1.3");
    }
    if (::SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1) {
        return complain(files.certificate);
    }
    if (!has_name(::SSL_CTX_get0_certificate(context.get()), host)) {
        return complain(files.certificate,
                        fmt::format("is not for '{}' (DNS of subjectAltName)", host));
    }
    const auto key = load_private_key(files.private_key);
    if (!key) {
        return Error{key.error()};
    }
    if (::SSL_CTX_use_PrivateKey(context.get(), key->get()) != 1) {
        return complain(files.private_key, "does not belong to the certificate");
    }
    if (::SSL_CTX_load_verify_file(context.get(), files.ca.c_str()) != 1) {
        return complain(files.ca);
    }
    return Credentials{context};
}

bool has_name(x509_st* certificate, const std::string& name) {
    const Names names{static_cast<GENERAL_NAMES*>(
        ::X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr))};
    for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
        const GENERAL_NAME* const found = sk_GENERAL_NAME_value(names.get(), i);
        if (found->type == GEN_DNS) {
            const auto* const text = ::ASN1_STRING_get0_data(found->d.dNSName);
            const auto size = static_cast<std::size_t>(::ASN1_STRING_length(found->d.dNSName));
            if (std::string_view{reinterpret_cast<const char*>(text), size} == name) {
                return true;
            }
        }
    }
    return false;
}

} // namespace vrdma::wire::fabric
