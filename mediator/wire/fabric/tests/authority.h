// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A CA of the test's own, which signs what it is asked to. Its files are in a folder that is
// removed with it.
#pragma once

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "mediator/wire/fabric/credentials.h"

namespace vrdma::wire::fabric {

class Authority {
  public:
    static constexpr long hour = 3600;

    Authority()
        : key_{::EVP_EC_gen("P-256"), &::EVP_PKEY_free},
          certificate_{make_certificate(*key_, "CA:TRUE", {}, hour)} {
        sign(*certificate_);
        write(path("ca"), [&](FILE* file) { ::PEM_write_X509(file, certificate_.get()); });
    }
    Authority(const Authority&) = delete;
    Authority& operator=(const Authority&) = delete;
    ~Authority() { std::filesystem::remove_all(folder_); }

    // Issues a certificate of a host with that subjectAltName ("DNS:alpha"), valid for `seconds`.
    CredentialFiles issue(const std::string& file, const std::string& names, long seconds = hour) {
        const Key key{::EVP_EC_gen("P-256"), &::EVP_PKEY_free};
        const Certificate certificate = make_certificate(*key, "CA:FALSE", names, seconds);
        sign(*certificate);
        CredentialFiles files{path(file), path(file + ".key"), path("ca")};
        write(files.certificate, [&](FILE* to) { ::PEM_write_X509(to, certificate.get()); });
        write(files.private_key, [&](FILE* to) {
            ::PEM_write_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
        });
        ::chmod(files.private_key.c_str(), S_IRUSR);
        return files;
    }
    Credentials credentials(const std::string& host, long seconds = hour) {
        return *Credentials::load(issue(host, "DNS:" + host, seconds), host);
    }
    std::string path(const std::string& file) const { return folder_ + "/" + file; }

  private:
    using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
    using Certificate = std::unique_ptr<X509, void (*)(X509*)>;

    template <typename Write>
    static void write(const std::string& path, const Write& what) {
        const std::unique_ptr<FILE, int (*)(FILE*)> file{std::fopen(path.c_str(), "w"), &::fclose};
        what(file.get());
    }
    static void extend(X509& certificate, int extension, const std::string& value) {
        X509V3_CTX context;
        ::X509V3_set_ctx(&context, &certificate, &certificate, nullptr, nullptr, 0);
        X509_EXTENSION* const made =
            ::X509V3_EXT_conf_nid(nullptr, &context, extension, value.c_str());
        ::X509_add_ext(&certificate, made, -1);
        ::X509_EXTENSION_free(made);
    }
    Certificate make_certificate(EVP_PKEY& key, const std::string& constraints,
                                 const std::string& names, long seconds) {
        Certificate made{::X509_new(), &::X509_free};
        ::X509_set_version(made.get(), X509_VERSION_3);
        ::ASN1_INTEGER_set(::X509_get_serialNumber(made.get()), ++serial_);
        ::X509_gmtime_adj(::X509_getm_notBefore(made.get()), -2 * hour);
        ::X509_gmtime_adj(::X509_getm_notAfter(made.get()), seconds);
        ::X509_set_pubkey(made.get(), &key);
        X509_NAME* const subject = ::X509_get_subject_name(made.get());
        const std::string name = names.empty() ? folder_ : names;
        ::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                     reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1,
                                     0);
        extend(*made, NID_basic_constraints, constraints);
        if (!names.empty()) {
            extend(*made, NID_subject_alt_name, names);
        }
        return made;
    }
    void sign(X509& certificate) const {
        const X509* const issuer = certificate_ != nullptr ? certificate_.get() : &certificate;
        ::X509_set_issuer_name(&certificate, ::X509_get_subject_name(issuer));
        ::X509_sign(&certificate, key_.get(), ::EVP_sha256());
    }
    static std::string make_folder() {
        std::string folder = std::filesystem::temp_directory_path() / "vrdma-ca-XXXXXX";
        return ::mkdtemp(folder.data());
    }

    const std::string folder_ = make_folder();
    long serial_ = 0;
    Key key_;
    Certificate certificate_{nullptr, &::X509_free};
};

} // namespace vrdma::wire::fabric
