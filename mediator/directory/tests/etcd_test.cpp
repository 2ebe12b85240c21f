// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Tests with Debian's etcd.
#include <sys/socket.h>

#include <atomic>

#include "etcd_server.h"
#include "loopback.h"

namespace vrdma::directory {
namespace {

constexpr std::chrono::seconds lease_time{60};

class EtcdTest : public testing::Test {
  protected:
    EtcdTest() { server.start(); }

    EtcdServer server;
    Etcd etcd{server.options()};
};

TEST(Endpoint, IsAUrl) {
    const auto named = parse_endpoint("http://etcd-1.example.net:2379");
    ASSERT_TRUE(named);
    EXPECT_FALSE(named->tls);
    EXPECT_EQ(named->host, "etcd-1.example.net");
    EXPECT_EQ(named->port, 2379);
    const auto secure = parse_endpoint("https://[fd00::a]:1");
    ASSERT_TRUE(secure);
    EXPECT_TRUE(secure->tls);
    EXPECT_EQ(secure->host, "fd00::a");
    for (const char* const text :
         {"", "etcd:2379", "http://etcd", "http://:2379", "http://etcd:", "http://etcd:0",
          "http://etcd:65536", "http://etcd:2379/", "http://user@etcd:2379", "http://fd00::a:1",
          "http://[]:1", "ftp://etcd:1", "http://et cd:1"}) {
        EXPECT_FALSE(parse_endpoint(text)) << text;
    }
}

TEST_F(EtcdTest, ValuesOfAnyBytes) {
    const auto lease = etcd.grant(lease_time);
    ASSERT_TRUE(lease) << lease.error();
    std::string bytes;
    for (int i = 0; i < 256; ++i) {
        bytes += static_cast<char>(i);
        const auto put = etcd.put("/a/" + bytes, bytes, *lease);
        ASSERT_TRUE(put) << put.error();
        const auto range = etcd.range("/a/" + bytes);
        ASSERT_TRUE(range) << range.error();
        ASSERT_EQ(range->values.size(), 1u);
        EXPECT_EQ(range->values[0].key, "/a/" + bytes);
        EXPECT_EQ(range->values[0].value, bytes);
        EXPECT_EQ(range->values[0].revision, *put);
        EXPECT_EQ(range->revision, *put);
    }
    ASSERT_TRUE(etcd.put("/b", "", *lease));
    EXPECT_EQ(etcd.range("/a/")->values.size(), 256u);
    EXPECT_EQ(etcd.range("/b")->values[0].value, "");
    EXPECT_TRUE(etcd.range("/c")->values.empty());
}

TEST_F(EtcdTest, LeasesEnd) {
    const auto lease = etcd.grant(lease_time);
    ASSERT_TRUE(lease);
    ASSERT_TRUE(etcd.put("/a", "1", *lease));
    EXPECT_EQ(etcd.keep_alive(*lease), true);
    ASSERT_TRUE(etcd.revoke(*lease));
    EXPECT_EQ(etcd.keep_alive(*lease), false);
    EXPECT_TRUE(etcd.range("/a")->values.empty());
    const auto put = etcd.put("/a", "1", *lease);
    ASSERT_FALSE(put);
    EXPECT_NE(put.error().find("requested lease not found"), std::string::npos) << put.error();
}

TEST_F(EtcdTest, AWatchTellsOfEachChange) {
    const auto lease = etcd.grant(lease_time);
    const auto first = etcd.put("/a/1", "one", *lease);
    ASSERT_TRUE(first);
    std::vector<Etcd::Value> seen;
    bool heard = false;
    Etcd watcher{server.options()};
    const auto watched = watcher.watch("/a/", *first, [&](const std::vector<Etcd::Value>& changes) {
        seen.insert(seen.end(), changes.begin(), changes.end());
        if (!std::exchange(heard, true)) {
            EXPECT_TRUE(etcd.put("/b", "no", *lease));
            EXPECT_TRUE(etcd.put("/a/2", std::string(100'000, 'x'), *lease));
            EXPECT_TRUE(etcd.revoke(*lease));
        }
        return seen.size() < 4;
    });
    EXPECT_TRUE(watched) << watched.error();
    ASSERT_EQ(seen.size(), 4u);
    EXPECT_EQ(seen[0].value, "one") << "which was there before";
    EXPECT_EQ(seen[1].key, "/a/2");
    EXPECT_EQ(seen[1].value, std::string(100'000, 'x'));
    EXPECT_FALSE(seen[2].value);
    EXPECT_FALSE(seen[3].value);
}

TEST_F(EtcdTest, AWatchIsInterrupted) {
    for (const bool soon : {false, true}) {
        Etcd watcher{server.options()};
        std::atomic<bool> heard = false;
        std::thread thread{[&] {
            const auto watched = watcher.watch("/a/", 1, [&](const auto&) { return heard = true; });
            EXPECT_TRUE(watched) << watched.error();
        }};
        until([&] { return soon || heard; });
        watcher.interrupt();
        thread.join();
        EXPECT_TRUE(watcher.watch("/a/", 1, [](const auto&) { return true; }));
    }
}

// Interrupt a call whose server is silent; expect it to fail sooner than the silence is noticed.
TEST_F(EtcdTest, ACallIsInterrupted) {
    Etcd caller{server.options()};
    ASSERT_TRUE(caller.range("/"));
    server.freeze();
    const auto begun = std::chrono::steady_clock::now();
    std::thread thread{[&] { EXPECT_FALSE(caller.range("/")); }};
    std::this_thread::sleep_for(std::chrono::milliseconds{100}); // it waits now, or soon
    caller.interrupt();
    thread.join();
    EXPECT_LT(std::chrono::steady_clock::now() - begun, Etcd::answer_limit);
}

TEST_F(EtcdTest, AWatchOfWhatIsForgottenFails) {
    const auto lease = etcd.grant(lease_time);
    ASSERT_TRUE(etcd.put("/a", "1", *lease));
    const auto last = etcd.put("/a", "2", *lease);
    ASSERT_TRUE(last);
    server.compact(*last);
    const auto watched = etcd.watch("/a", 1, [](const auto&) { return true; });
    ASSERT_FALSE(watched);
    EXPECT_NE(watched.error().find("compact_revision"), std::string::npos) << watched.error();
}

TEST_F(EtcdTest, WhoIsGoneIsTriedElsewhere) {
    EtcdOptions options = server.options();
    options.endpoints.insert(options.endpoints.begin(), Endpoint{false, "127.0.0.1", free_port()});
    Etcd both{options};
    const auto gone = both.range("/");
    ASSERT_FALSE(gone);
    EXPECT_NE(gone.error().find(std::to_string(options.endpoints[0].port)), std::string::npos);
    EXPECT_TRUE(both.range("/"));
    EXPECT_TRUE(both.range("/"));
}

TEST_F(EtcdTest, WhoSaysNothingIsWaitedForSoLong) {
    server.freeze();
    EXPECT_FALSE(etcd.range("/"));
    server.thaw();
    until([&] { return etcd.range("/").has_value(); });
}

TEST_F(EtcdTest, AWatchEndsWithItsServer) {
    std::thread thread{[&] {
        EXPECT_FALSE(etcd.watch("/a/", 1, [this](const auto&) {
            server.stop();
            return true;
        }));
    }};
    thread.join();
    server.start();
    EXPECT_TRUE(etcd.range("/"));
}

TEST(EtcdOverTls, BothKnowEachOther) {
    const SelfSigned identity;
    EtcdServer server{true, identity.arguments()};
    server.start(identity.options());
    Etcd anonymous{{{server.endpoint()}, identity.certificate(), {}, {}}};
    EXPECT_FALSE(anonymous.range("/"));
    Etcd stranger{{{server.endpoint()}, {}, identity.certificate(), identity.key()}};
    const auto untrusted = stranger.range("/");
    ASSERT_FALSE(untrusted);
    EXPECT_NE(untrusted.error().find("certificate"), std::string::npos) << untrusted.error();
}

// Sends the same answer to every client, and closes the connection.
class Liar {
  public:
    explicit Liar(std::string answer) : answer_{std::move(answer)} {
        (void)std::signal(SIGPIPE, SIG_IGN); // as in vrdmad
        thread_ = std::thread{[this] { answer_all(); }};
    }
    Liar(const Liar&) = delete;
    Liar& operator=(const Liar&) = delete;
    ~Liar() {
        ::shutdown(listener_.get(), SHUT_RDWR);
        thread_.join();
    }

    EtcdOptions options() const { return {{{false, "127.0.0.1", port_}}, {}, {}, {}}; }

  private:
    void answer_all() const {
        for (;;) {
            const UniqueFd client{::accept(listener_.get(), nullptr, nullptr)};
            if (!client) {
                return;
            }
            constexpr timeval most{10, 0};
            ::setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
            std::array<char, 4096> request;
            (void)::recv(client.get(), request.data(), request.size(), 0);
            for (std::size_t sent = 0; sent < answer_.size();) {
                const auto size = ::send(client.get(), answer_.data() + sent, answer_.size() - sent,
                                         MSG_NOSIGNAL);
                if (size <= 0) {
                    break;
                }
                sent += static_cast<std::size_t>(size);
            }
            // Closing while part of the request is unread would discard the answer.
            ::shutdown(client.get(), SHUT_WR);
            while (::recv(client.get(), request.data(), request.size(), 0) > 0) {
            }
        }
    }

    const std::string answer_;
    const std::uint16_t port_ = free_port();
    UniqueFd listener_ = listen_on_loopback(port_);
    std::thread thread_;
};

constexpr std::size_t million = 1'000'000;

// An earlier library's pattern for a status line took a stack frame per character.
TEST(EtcdThatLies, HasNoLineWithoutEnd) {
    for (const std::string& answer :
         {"HTTP/1.1 200 " + std::string(million, 'A') + "\r\n\r\n{}",
          "HTTP/1.1 200 OK\r\nA: " + std::string(million, 'A') + "\r\n\r\n{}",
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(million, '0') +
              "\r\n\r\n"}) {
        const Liar liar{answer};
        EXPECT_FALSE(Etcd{liar.options()}.range("/"));
    }
}

// Let an answer have a million lines before its body, before its status, and behind its body;
// expect none to be read to the end.
TEST(EtcdThatLies, HasAHeadThatEnds) {
    const auto repeated = [](std::string_view text) {
        std::string all;
        for (std::size_t i = 0; i < million; ++i) {
            all += text;
        }
        return all;
    };
    for (const std::string& answer :
         {"HTTP/1.1 200 OK\r\n" + repeated("A: b\r\n") + "\r\n{}",
          repeated("HTTP/1.1 100 Continue\r\n\r\n") + "HTTP/1.1 200 OK\r\n\r\n{}",
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" +
              repeated("A: b\r\n") + "\r\n"}) {
        const Liar liar{answer};
        EXPECT_FALSE(Etcd{liar.options()}.range("/"));
    }
}

TEST(EtcdThatLies, MayNestAsDeepAsItLikes) {
    const Liar liar{"HTTP/1.1 200 OK\r\n\r\n{\"result\": {\"events\": " +
                    std::string(million, '[') + std::string(million, ']') + "}}\n"};
    Etcd etcd{liar.options()};
    std::size_t heard = 0;
    EXPECT_FALSE(etcd.watch("/", 1, [&](const auto& changes) {
        heard += changes.size();
        return true;
    }));
    EXPECT_EQ(heard, 1u) << "which is empty";
    EXPECT_TRUE(etcd.range("/")) << "which is empty as well";
}

TEST(EtcdThatLies, HasNoLastRevision) {
    const Liar liar{
        "HTTP/1.1 200 OK\r\n\r\n"
        R"({"header": {"revision": "9223372036854775807"},)"
        R"( "kvs": [{"mod_revision": "-9223372036854775808"}]})"};
    const auto range = Etcd{liar.options()}.range("/");
    ASSERT_TRUE(range) << range.error();
    EXPECT_EQ(range->revision, 0);
    EXPECT_EQ(range->values.at(0).revision, 0);
}

} // namespace
} // namespace vrdma::directory
