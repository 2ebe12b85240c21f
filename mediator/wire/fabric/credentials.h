// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The credentials by which a mediator proves its name to others, and verifies theirs: a
// certificate, its private key, and the CA that signs certificates.
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "mediator/wire/fabric/credential_files.h"

struct ssl_ctx_st; // OpenSSL's SSL_CTX
struct x509_st;    // OpenSSL's X509

namespace vrdma::wire::fabric {

class Credentials {
  public:
    // Loads the credentials of the host with that name. The error is for people.
    static tl::expected<Credentials, std::string> load(const CredentialFiles& files,
                                                       const std::string& host);

    // For connections by TLS 1.3 whose sides both have certificates.
    ssl_ctx_st* context() const { return context_.get(); }

  private:
    explicit Credentials(std::shared_ptr<ssl_ctx_st> context) : context_{std::move(context)} {}

    std::shared_ptr<ssl_ctx_st> context_;
};

// The name must match exactly: no wildcards, and no fields other than the DNS names.
bool has_name(x509_st* certificate, const std::string& name);

} // namespace vrdma::wire::fabric
