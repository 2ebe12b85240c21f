// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/wire/fabric/credentials.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <fstream>

#include "mediator/wire/fabric/tests/authority.h"

namespace vrdma::wire::fabric {
namespace {

class CredentialsTest : public testing::Test {
  protected:
    static std::string error_of(const CredentialFiles& files) {
        const auto loaded = Credentials::load(files, "alpha");
        return loaded ? std::string{} : loaded.error();
    }

    Authority authority;
    CredentialFiles files = authority.issue("alpha", "DNS:alpha");
};

TEST_F(CredentialsTest, OfThisHost) {
    EXPECT_EQ(error_of(files), "");
}

TEST_F(CredentialsTest, NobodyElseMayUseThePrivateKey) {
    for (const mode_t mode : {0640, 0604, 0620, 0601}) {
        ::chmod(files.private_key.c_str(), mode);
        EXPECT_EQ(error_of(files),
                  files.private_key + ": group or others may use it (its mode must be 0600)");
    }
}

TEST_F(CredentialsTest, FilesThatAreNone) {
    const std::string none = authority.path("none");
    EXPECT_EQ(error_of({files.certificate, none, files.ca}), none + ": No such file or directory");
    EXPECT_EQ(error_of({files.certificate, "/", files.ca}), "/: is not a regular file");
    EXPECT_EQ(error_of({none, files.private_key, files.ca}), none + ": No such file or directory");
    EXPECT_EQ(error_of({files.certificate, files.private_key, none}),
              none + ": No such file or directory");
    std::ofstream{none} << "";
    ::chmod(none.c_str(), S_IRUSR);
    EXPECT_EQ(error_of({files.certificate, none, files.ca}), none + ": is empty or unreadable");
    ::chmod(none.c_str(), S_IRUSR | S_IWUSR);
    std::ofstream{none} << "no PEM";
    EXPECT_TRUE(error_of({files.certificate, none, files.ca}).starts_with(none + ": "));
    EXPECT_TRUE(error_of({files.certificate, files.private_key, none}).starts_with(none + ": "));
}

TEST_F(CredentialsTest, TheKeyOfAnotherCertificate) {
    const auto other = authority.issue("other", "DNS:alpha");
    EXPECT_EQ(error_of({files.certificate, other.private_key, files.ca}),
              other.private_key + ": does not belong to the certificate");
}

TEST_F(CredentialsTest, TheCertificateOfAnotherHost) {
    for (const std::string names :
         {"DNS:beta", "DNS:alpha.example.net", "DNS:alph", "DNS:*", "DNS:Alpha", "IP:10.0.0.1",
          "email:alpha@example.net", "URI:alpha"}) {
        const auto other = authority.issue("other", names);
        EXPECT_EQ(error_of(other),
                  other.certificate + ": is not for 'alpha' (DNS of subjectAltName)")
            << names;
        ::unlink(other.private_key.c_str());
    }
    EXPECT_EQ(error_of(authority.issue("both", "DNS:beta,DNS:alpha")), "");
}

// Each name would match as a pattern, in a check that knows patterns.
TEST_F(CredentialsTest, NamesAreNoPatterns) {
    const auto credentials = authority.credentials("a.example.net");
    X509* const certificate = ::SSL_CTX_get0_certificate(credentials.context());
    EXPECT_TRUE(has_name(certificate, "a.example.net"));
    for (const std::string name : {".example.net", "*.example.net", "A.example.net", ""}) {
        EXPECT_FALSE(has_name(certificate, name)) << name;
    }
}

} // namespace
} // namespace vrdma::wire::fabric
