// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/http_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <vector>

namespace vrdma::management {
namespace {

using std::chrono::milliseconds;

constexpr uid_t alice = 1000;
constexpr uid_t bob = 1001;

class HttpServerTest : public testing::Test {
  protected:
    // The client's end of a connection.
    UniqueFd connect(uid_t user = alice) {
        std::array<int, 2> ends{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
        server->add(UniqueFd{ends[0]}, user);
        return UniqueFd{ends[1]};
    }
    void say(const UniqueFd& client, const std::string& text) {
        EXPECT_EQ(::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(text.size()));
    }
    // Runs the server until the connection ends, and returns what the client got.
    std::string hear(const UniqueFd& client) {
        std::string text;
        std::array<char, 4096> part{};
        for (;;) {
            const ssize_t size = ::recv(client.get(), part.data(), part.size(), 0);
            if (size > 0) {
                text.append(part.data(), static_cast<std::size_t>(size));
            } else if (size == 0 || errno != EAGAIN) {
                return text;
            } else {
                step();
            }
        }
    }
    void step() {
        pollfd work{server->fd(), POLLIN, 0};
        const auto next = server->next();
        ::poll(&work, 1, next ? static_cast<int>(next->count()) : -1);
        server->run();
    }
    static bool is(const std::string& answer, unsigned status) {
        return answer.starts_with(fmt::format("HTTP/1.1 {} ", status));
    }

    // A server that hangs up on clients after that time.
    std::unique_ptr<HttpServer> create(milliseconds patience) {
        return HttpServer::create(
            [this](Request request, HttpServer::Client /*client*/) {
                requests.push_back(std::move(request));
                return Response{200, "{}"};
            },
            patience);
    }

    std::vector<Request> requests;
    std::unique_ptr<HttpServer> server = create(milliseconds{200});
};

TEST_F(HttpServerTest, ARequestArrivesAsItWasSent) {
    const UniqueFd client = connect();
    say(client, "PUT /v1/a%2Fb HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody");
    const std::string answer = hear(client);
    EXPECT_TRUE(is(answer, 200)) << answer;
    EXPECT_TRUE(answer.ends_with("\r\n\r\n{}")) << answer;
    ASSERT_EQ(requests.size(), 1u);
    EXPECT_EQ(requests[0].method, "PUT");
    EXPECT_EQ(requests[0].path, "/v1/a%2Fb");
    EXPECT_EQ(requests[0].body, "body");
}

TEST_F(HttpServerTest, ABodyThatIsTooLongIsRefused) {
    const UniqueFd client = connect();
    say(client, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n");
    EXPECT_TRUE(is(hear(client), 413));
    const UniqueFd chunked = connect();
    const std::string chunk = fmt::format("8000\r\n{}\r\n", std::string(0x8000, 'x'));
    say(chunked, "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + chunk +
                     chunk + "0\r\n\r\n");
    EXPECT_TRUE(is(hear(chunked), 413));
    EXPECT_TRUE(requests.empty());
}

TEST_F(HttpServerTest, HeadersThatAreTooLongAreRefused) {
    const UniqueFd client = connect();
    say(client, "GET / HTTP/1.1\r\nHost: x\r\nX: " + std::string(100'000, 'x'));
    EXPECT_FALSE(is(hear(client), 200));
    EXPECT_TRUE(requests.empty());
}

TEST_F(HttpServerTest, WhatIsNotHttpIsRefused) {
    const UniqueFd client = connect();
    say(client, std::string("\x00\xff GET\r\n\r\n\r\n", 12));
    EXPECT_FALSE(is(hear(client), 200));
    EXPECT_TRUE(requests.empty());
}

// One client says nothing, and one not all. Expect both to be hung up on, and others to be served
// meanwhile.
TEST_F(HttpServerTest, ClientsThatHangAreGivenUp) {
    const auto began = HttpServer::Clock::now();
    const UniqueFd silent = connect();
    const UniqueFd slow = connect();
    say(slow, "GET / HTTP/1.1\r\n");
    const UniqueFd third = connect();
    say(third, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_TRUE(is(hear(third), 200));
    EXPECT_EQ(hear(silent), "");
    EXPECT_FALSE(is(hear(slow), 200));
    EXPECT_GE(HttpServer::Clock::now() - began, milliseconds{200});
}

// A thousand clients of a user say nothing. Expect the newest of them to be served, and those of
// another user.
TEST_F(HttpServerTest, AUserWithManyClientsHindersNobody) {
    server = create(std::chrono::minutes{1}); // a thousand clients take longer than 200 ms to come
    const UniqueFd other = connect(bob);
    std::vector<UniqueFd> clients;
    for (int i = 0; i < 1000; ++i) {
        ASSERT_TRUE(server->has_room());
        clients.push_back(connect());
        server->run();
    }
    for (const UniqueFd* client : {&std::as_const(clients.back()), &other}) {
        say(*client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        EXPECT_TRUE(is(hear(*client), 200));
    }
    EXPECT_EQ(hear(clients.front()), "");
}

// What a test's stream has done.
struct StreamLog {
    int reads = 0;
    int wakes = 0;
    bool gone = false;
};

// Has a part for each call of wake(), and so many of them. Without an end, it has no pause either.
class TestStream final : public Stream {
  public:
    TestStream(StreamLog& log, int parts) : log_{log}, parts_{parts} {}
    TestStream(const TestStream&) = delete;
    TestStream& operator=(const TestStream&) = delete;
    ~TestStream() override { log_.gone = true; }

    void wake() override { ++log_.wakes; }
    std::size_t read(std::span<char> room) override {
        if (parts_ != endless && (log_.reads == parts_ || log_.reads > log_.wakes)) {
            return 0;
        }
        ++log_.reads;
        room.front() = 'x';
        return parts_ == endless ? room.size() : 1;
    }
    bool ended() const override { return log_.reads == parts_; }

    static constexpr int endless = -1;

  private:
    StreamLog& log_;
    const int parts_;
};

class HttpStreamTest : public HttpServerTest {
  protected:
    UniqueFd ask(int parts) {
        server = HttpServer::create(
            [this, parts](const Request&, HttpServer::Client) {
                return Response{200, "", "text/plain", std::make_shared<TestStream>(stream, parts)};
            },
            milliseconds{50});
        UniqueFd client = connect();
        say(client, "POST / HTTP/1.1\r\nHost: x\r\n\r\n");
        return client;
    }
    void run_until_gone() {
        const auto end = HttpServer::Clock::now() + std::chrono::seconds{20};
        while (!stream.gone && HttpServer::Clock::now() < end) {
            step();
        }
        EXPECT_TRUE(stream.gone);
    }

    StreamLog stream;
};

// Stream for longer than a client has for a request; expect all parts, as chunks, and the end.
TEST_F(HttpStreamTest, AStreamComesInChunks) {
    const std::string answer = hear(ask(12));
    EXPECT_TRUE(is(answer, 200));
    EXPECT_NE(answer.find("Transfer-Encoding: chunked"), answer.npos);
    EXPECT_TRUE(answer.ends_with("0\r\n\r\n"));
    EXPECT_EQ(stream.reads, 12);
    EXPECT_TRUE(stream.gone);
}

TEST_F(HttpStreamTest, AClientThatLeavesEndsIt) {
    UniqueFd client = ask(1'000'000);
    while (stream.reads == 0) {
        step();
    }
    client = {};
    run_until_gone();
}

// The stream has more than the socket takes, and its client reads nothing.
TEST_F(HttpStreamTest, AClientThatHangsIsGivenUp) {
    const auto began = HttpServer::Clock::now();
    const UniqueFd client = ask(TestStream::endless);
    run_until_gone();
    EXPECT_GE(HttpServer::Clock::now() - began, HttpServer::stream_limit * milliseconds{50});
}

TEST_F(HttpStreamTest, TheServerEndsWithIt) {
    const UniqueFd client = ask(1'000'000);
    while (stream.reads == 0) {
        step();
    }
    server.reset();
    EXPECT_TRUE(stream.gone);
}

} // namespace
} // namespace vrdma::management
