// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdma-management itself, with clients of its socket. A system call that it must not make kills
// it.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "fake_mediator.h"
#include "mediator/base/sanitized.h"
#include "mediator/helper/launch.h"
#include "mediator/helper/tests/processes.h"

namespace vrdma::management {
namespace {

// A sanitizer makes the process so slow that its client would be given up.
constexpr unsigned devices = sanitized ? 100 : 1000;

class ManagementProcessTest : public testing::Test {
  protected:
    ManagementProcessTest() {
        std::ranges::copy(path_.string(), address_.sun_path);
        EXPECT_EQ(::bind(listening_.get(), generic(), sizeof(address_)), 0);
        EXPECT_EQ(::listen(listening_.get(), SOMAXCONN), 0);
        auto launched = helper::launch(VRDMA_MANAGEMENT, "kill");
        EXPECT_TRUE(launched);
        process_ = launched->process;
        thread_.emplace(std::move(launched->socket),
                        Service::Listening{listening_.get(), network_.get()}, Task{}, mediator_);
    }
    ManagementProcessTest(const ManagementProcessTest&) = delete;
    ManagementProcessTest& operator=(const ManagementProcessTest&) = delete;
    ~ManagementProcessTest() override {
        thread_.reset();
        EXPECT_EQ(::waitpid(process_, nullptr, 0), process_) << "it ends with its socket";
        std::filesystem::remove(path_);
    }

    const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address_); }
    UniqueFd connect() const {
        UniqueFd client{::socket(AF_UNIX, SOCK_STREAM, 0)};
        EXPECT_EQ(::connect(client.get(), generic(), sizeof(address_)), 0);
        return client;
    }
    // By the network.
    UniqueFd connect_from_afar() const {
        sockaddr_in address{};
        socklen_t size = sizeof(address);
        auto* const generic = reinterpret_cast<sockaddr*>(&address);
        EXPECT_EQ(::getsockname(network_.get(), generic, &size), 0);
        UniqueFd client{::socket(AF_INET, SOCK_STREAM, 0)};
        EXPECT_EQ(::connect(client.get(), generic, size), 0);
        return client;
    }
    static UniqueFd listen_on_loopback() {
        UniqueFd socket{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)};
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(
            ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
        EXPECT_EQ(::listen(socket.get(), SOMAXCONN), 0);
        return socket;
    }
    static void ask(const UniqueFd& client, const std::string& path = "/v1/log-level",
                    const std::string& method = "GET") {
        const std::string request = method + " " + path + " HTTP/1.1\r\nHost: x\r\n\r\n";
        EXPECT_EQ(::send(client.get(), request.data(), request.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(request.size()));
    }
    static std::string hear(const UniqueFd& client) {
        std::string text;
        std::array<char, 4096> part{};
        ssize_t size = 0;
        while ((size = ::recv(client.get(), part.data(), part.size(), 0)) > 0) {
            text.append(part.data(), static_cast<std::size_t>(size));
        }
        return text;
    }
    static void expect_answer(const UniqueFd& client) {
        const std::string text = hear(client);
        EXPECT_TRUE(text.ends_with("{\"level\":\"info\"}\n")) << text;
    }

    const std::filesystem::path path_ =
        std::filesystem::temp_directory_path() / ("vrdma-management-" + std::to_string(::getpid()));
    sockaddr_un address_{.sun_family = AF_UNIX, .sun_path = {}};
    UniqueFd listening_{::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0)};
    UniqueFd network_ = listen_on_loopback();
    FakeMediator mediator_{devices};
    pid_t process_ = 0;
    std::optional<ControlThread> thread_;
};

// Tells how long it takes, for `--gtest_filter` and `--gtest_output`.
TEST_F(ManagementProcessTest, ListsManyDevices) {
    const UniqueFd first = connect(); // the process runs when this is answered
    ask(first);
    expect_answer(first);
    const auto began = std::chrono::steady_clock::now();
    const UniqueFd client = connect();
    ask(client, "/v1/devices");
    const std::string text = hear(client);
    const auto time = std::chrono::steady_clock::now() - began;
    RecordProperty("microseconds", std::to_string(time / std::chrono::microseconds{1}));
    for (const unsigned device : {0u, devices / 2, devices - 1}) {
        EXPECT_NE(text.find(fmt::format("disk-{:04}/0", device)), text.npos) << device;
    }
}

// Tells how long that takes.
TEST_F(ManagementProcessTest, ServesMetricsOfManyDevicesToTheNetwork) {
    const UniqueFd first = connect();
    ask(first);
    expect_answer(first);
    const auto began = std::chrono::steady_clock::now();
    const UniqueFd client = connect_from_afar();
    ask(client, "/metrics");
    const std::string text = hear(client);
    const auto time = std::chrono::steady_clock::now() - began;
    RecordProperty("microseconds", std::to_string(time / std::chrono::microseconds{1}));
    EXPECT_NE(text.find("Content-Type: text/plain; version=0.0.4"), text.npos);
    const std::string last = fmt::format("handled_total{{device=\"disk-{:04}/0\"", devices - 1);
    EXPECT_NE(text.find("\nvrdma_device_rp_cnp_" + last), text.npos);
    const UniqueFd curious = connect_from_afar();
    ask(curious, "/v1/log-level");
    EXPECT_TRUE(hear(curious).starts_with("HTTP/1.1 403 "));
}

// The network opens connections that say nothing; expects those of users to be served.
TEST_F(ManagementProcessTest, SilentConnectionsOfTheNetworkCostUsersNothing) {
    constexpr std::size_t crowd = 300;
    std::vector<UniqueFd> silent;
    silent.reserve(crowd);
    while (silent.size() < crowd) {
        silent.push_back(connect_from_afar());
    }
    const UniqueFd client = connect();
    ask(client);
    expect_answer(client);
}

TEST_F(ManagementProcessTest, ServesAThousandClients) {
    std::vector<UniqueFd> clients;
    for (int i = 0; i < 1000; ++i) {
        clients.push_back(connect());
        ask(clients.back());
    }
    for (const UniqueFd& client : clients) {
        expect_answer(client);
    }
}

// Start a sniffer, record a frame, and have it stopped. Expect a file with the frame, to its end.
TEST_F(ManagementProcessTest, SendsWhatASnifferRecords) {
    const UniqueFd client = connect();
    ask(client, "/v1/devices/disk-0000%2F0/sniffer", "POST");
    std::array<char, 1> first{};
    ASSERT_EQ(::recv(client.get(), first.data(), 1, 0), 1);
    const std::string payload = "a frame that somebody has sent";
    mediator_.record(std::as_bytes(std::span{payload}));
    const UniqueFd other = connect();
    ask(other, "/v1/devices/disk-0000%2F0/sniffer", "DELETE");
    EXPECT_TRUE(hear(other).starts_with("HTTP/1.1 200 "));
    const std::string text = hear(client);
    EXPECT_NE(text.find(payload), text.npos);
    EXPECT_TRUE(text.ends_with("\r\n0\r\n\r\n"));
}

// Kill the worker while a sniffer runs. Expect the next one to be able to start it.
TEST_F(ManagementProcessTest, ASnifferEndsWithItsWorker) {
    const UniqueFd client = connect();
    ask(client, "/v1/devices/disk-0000%2F0/sniffer", "POST");
    std::array<char, 1> first{};
    ASSERT_EQ(::recv(client.get(), first.data(), 1, 0), 1);
    const auto workers = helper::children_of(process_);
    ASSERT_EQ(workers.size(), 1u);
    ASSERT_EQ(::kill(workers.front(), SIGKILL), 0);
    const UniqueFd second = connect();
    ask(second, "/v1/devices/disk-0000%2F0/sniffer", "POST");
    std::array<char, 12> status{};
    ASSERT_EQ(::recv(second.get(), status.data(), status.size(), MSG_WAITALL), 12);
    EXPECT_EQ((std::string_view{status.data(), status.size()}), "HTTP/1.1 200");
}

// Kill the worker. Expect the next one to serve the same socket.
TEST_F(ManagementProcessTest, AWorkerThatDiesIsReplaced) {
    const UniqueFd first = connect();
    ask(first);
    expect_answer(first);
    const auto workers = helper::children_of(process_);
    ASSERT_EQ(workers.size(), 1u);
    ASSERT_EQ(::kill(workers.front(), SIGKILL), 0);
    const UniqueFd second = connect();
    ask(second);
    expect_answer(second);
}

} // namespace
} // namespace vrdma::management
