// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// An etcd of the test's own: Debian's etcd-server on a free port, with its data in a directory that
// is removed with it. It is separate from an etcd that Debian may have started as a service.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "mediator/directory/etcd.h"
#include "mediator/directory/http_client.h"
#include "mediator/wire/fabric/tests/free_address.h"

namespace vrdma::directory {

inline std::uint16_t free_port() {
    return static_cast<std::uint16_t>(std::stoi(wire::fabric::free_address().service));
}

// Waits until that is so.
inline void until(const std::function<bool()>& so) {
    constexpr std::chrono::seconds most{60};
    const auto end = std::chrono::steady_clock::now() + most;
    while (!so()) {
        ASSERT_LT(std::chrono::steady_clock::now(), end);
        std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
}

// A self-signed certificate of 127.0.0.1.
class SelfSigned {
  public:
    SelfSigned() {
        std::string name = "/tmp/vrdma-etcd-tls-XXXXXX";
        directory_ = ::mkdtemp(name.data());
        const std::string command =
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
            "-subj /CN=vrdma -addext subjectAltName=IP:127.0.0.1 -keyout " +
            key() + " -out " + certificate() + " 2>/dev/null";
        EXPECT_EQ(std::system(command.c_str()), 0); // NOLINT(cert-env33-c,concurrency-mt-unsafe)
    }
    SelfSigned(const SelfSigned&) = delete;
    SelfSigned& operator=(const SelfSigned&) = delete;
    ~SelfSigned() { std::filesystem::remove_all(directory_); }

    std::string certificate() const { return directory_ + "/certificate.pem"; }
    std::string key() const { return directory_ + "/key.pem"; }
    // Arguments of a server that requires the certificate of its clients.
    std::vector<std::string> arguments() const {
        return {"--cert-file=" + certificate(), "--key-file=" + key(), "--client-cert-auth",
                "--trusted-ca-file=" + certificate()};
    }
    EtcdOptions options() const { return {{}, certificate(), certificate(), key()}; }

  private:
    std::string directory_;
};

class EtcdServer {
  public:
    // `arguments` are added to those that say where it is.
    explicit EtcdServer(bool tls = false, std::vector<std::string> arguments = {})
        : tls_{tls}, arguments_{std::move(arguments)} {
        (void)std::signal(SIGPIPE, SIG_IGN); // as in vrdmad
        std::string name = "/tmp/vrdma-etcd-XXXXXX";
        directory_ = ::mkdtemp(name.data());
    }
    EtcdServer(const EtcdServer&) = delete;
    EtcdServer& operator=(const EtcdServer&) = delete;
    ~EtcdServer() {
        stop();
        std::filesystem::remove_all(directory_);
    }

    // Waits until the server answers. A second start has the data of the first.
    void start(EtcdOptions options = {}) {
        const std::string url = (tls_ ? "https://127.0.0.1:" : "http://127.0.0.1:");
        const std::string here = url + std::to_string(port_);
        const std::string peers = "http://127.0.0.1:" + std::to_string(peer_port_);
        std::vector<std::string> words{"etcd",
                                       "--data-dir=" + directory_ + "/data",
                                       "--listen-client-urls=" + here,
                                       "--advertise-client-urls=" + here,
                                       "--listen-peer-urls=" + peers,
                                       "--initial-advertise-peer-urls=" + peers,
                                       "--initial-cluster=default=" + peers};
        words.insert(words.end(), arguments_.begin(), arguments_.end());
        run(words);
        options.endpoints = {endpoint()};
        Etcd etcd{options};
        until([&] { return etcd.range("nothing").has_value(); });
    }

    void stop(int signal = SIGKILL) {
        if (child_ > 0) {
            ::kill(child_, signal);
            ::waitpid(child_, nullptr, 0);
            child_ = 0;
        }
    }
    // The server answers no more, and does not say so. Its threads stop one after the other.
    void freeze() const {
        ::kill(child_, SIGSTOP);
        ::waitpid(child_, nullptr, WUNTRACED);
    }
    void thaw() const { ::kill(child_, SIGCONT); }

    void compact(std::int64_t revision) const {
        HttpClient client{options(), Etcd::connect_limit};
        const auto answer =
            client.post(endpoint(),
                        {"/v3/kv/compaction",
                         R"({"physical": true, "revision": ")" + std::to_string(revision) + "\"}",
                         Etcd::answer_limit},
                        [](std::string_view) { return true; });
        ASSERT_TRUE(answer) << answer.error();
    }
    void forget_all() const { std::filesystem::remove_all(directory_ + "/data"); }

    Endpoint endpoint() const { return {tls_, "127.0.0.1", port_}; }
    EtcdOptions options() const { return {{endpoint()}, {}, {}, {}}; }
    const std::string& directory() const { return directory_; }

  private:
    void run(const std::vector<std::string>& words) {
        std::vector<char*> argv;
        argv.reserve(words.size() + 1);
        for (const std::string& word : words) {
            argv.push_back(const_cast<char*>(word.c_str()));
        }
        argv.push_back(nullptr);
        const std::string log = directory_ + "/log";
        child_ = ::fork();
        if (child_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
            ::dup2(file, STDOUT_FILENO);
            ::dup2(file, STDERR_FILENO);
            ::execvp(argv[0], argv.data());
            ::_exit(EXIT_FAILURE);
        }
        ASSERT_GT(child_, 0);
    }

    const bool tls_;
    const std::vector<std::string> arguments_;
    std::string directory_;
    const std::uint16_t port_ = free_port();
    const std::uint16_t peer_port_ = free_port();
    pid_t child_ = 0;
};

} // namespace vrdma::directory
