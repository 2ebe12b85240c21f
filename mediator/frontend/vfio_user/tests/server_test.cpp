// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/vfio_user/server.h"

#include <fcntl.h>
#include <linux/vfio.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "mediator/frontend/vfio_user/tests/client.h"

namespace vrdma::vfio_user::test {
namespace {

// A blocking client. Reads the mediator's messages by a Channel, as the mediator reads the
// client's.
class Client {
  public:
    explicit Client(const std::string& path)
        : fd_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof(address.sun_path) - 1);
        connected_ =
            ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
        channel_ = Channel{UniqueFd{::dup(fd_.get())}};
    }

    bool connected() const { return connected_; }

    void send(const Message& message) {
        Answer bytes;
        bytes.payload = message.payload;
        for (const UniqueFd& fd : message.fds) {
            bytes.fds.push_back(fd.get());
        }
        EXPECT_TRUE(channel_.send(message.header, std::move(bytes)));
    }

    // Returns nothing if the mediator hung up.
    std::optional<Message> receive() {
        for (;;) {
            auto message = channel_.receive();
            if (!message) {
                return std::nullopt;
            }
            if (*message) {
                return std::move(**message);
            }
            pollfd ready{fd_.get(), POLLIN, 0};
            EXPECT_EQ(::poll(&ready, 1, 20'000), 1) << "no reply in 20 s";
        }
    }

    std::optional<Message> ask(const Message& message) {
        send(message);
        return receive();
    }

    int fd() const { return fd_.get(); }

  private:
    UniqueFd fd_;
    bool connected_ = false;
    Channel channel_{UniqueFd{}};
};

// The mediator's loop in a thread of its own, because its objects must be made and destroyed there.
class ServerTest : public ::testing::Test {
  protected:
    explicit ServerTest(unsigned clients = 1) : clients_{clients} {
        std::atomic<bool> ready{false};
        mediator_ = std::thread{[&] { serve(ready); }};
        ready.wait(false);
    }

    ServerTest(const ServerTest&) = delete;
    ServerTest& operator=(const ServerTest&) = delete;
    ~ServerTest() override {
        stop_.signal();
        mediator_.join();
        EXPECT_FALSE(std::filesystem::exists(path_));
    }

    void serve(std::atomic<bool>& ready) {
        Bench bench;
        const auto stop = bench.loop.watch(stop_.fd(), [&](std::uint32_t) { bench.loop.stop(); });
        const auto server = Server::listen(ListeningSocket::open({path_}).value(), "test",
                                           bench.make_functions("test", clients_), bench.loop);
        EXPECT_TRUE(server);
        const auto end = bench.loop.watch(end_.fd(), [&](std::uint32_t) {
            end_.drain();
            had_clients_ = (*server)->clients();
            (*server)->hang_up();
        });
        ready.store(true);
        ready.notify_one();
        EXPECT_TRUE(bench.loop.run());
    }

    const unsigned clients_;
    std::string path_ = ::testing::TempDir() + "vrdma-" + std::to_string(::getpid()) + ".sock";
    EventFd stop_ = *EventFd::create();
    EventFd end_ = *EventFd::create();        // has the server hang up on all
    std::atomic<std::size_t> had_clients_{0}; // when it did
    std::thread mediator_;
};

std::uint32_t error_of(const std::optional<Message>& reply) {
    return reply ? reply->header.error : 0;
}

// Negotiate and read a register; expect replies with the command's id and number.
TEST_F(ServerTest, AnswersItsClient) {
    Client client{path_};
    const auto version = client.ask(version_command());
    ASSERT_TRUE(version);
    EXPECT_EQ(version->header.flags, 1u);
    EXPECT_EQ(version->header.id, 7u);
    const auto read = client.ask(command(VFIO_USER_REGION_READ, vfio_user_region_access{0, 0, 4}));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->header.command, VFIO_USER_REGION_READ);
    EXPECT_EQ(read->header.size, sizeof(vfio_user_header) + 20);
}

// Send commands that are refused; expect their errno without a payload, and the next to be served.
TEST_F(ServerTest, TellsErrors) {
    Client client{path_};
    ASSERT_TRUE(client.ask(version_command()));
    const auto refused = client.ask(command(99));
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->header.flags, 0x21u);
    EXPECT_EQ(refused->header.error, static_cast<std::uint32_t>(ENOTSUP));
    EXPECT_EQ(refused->header.size, sizeof(vfio_user_header));
    EXPECT_EQ(error_of(client.ask(command(VFIO_USER_DEVICE_RESET))), 0u);
}

// Send commands without waiting, all but the last with the flag for no reply; expect one reply.
TEST_F(ServerTest, NoReplyMeansNone) {
    Client client{path_};
    ASSERT_TRUE(client.ask(version_command()));
    for (int i = 0; i < 100; ++i) {
        Message quiet = command(VFIO_USER_DEVICE_RESET);
        quiet.header.flags = VFIO_USER_F_NO_REPLY;
        client.send(quiet);
    }
    Message last = command(VFIO_USER_DEVICE_RESET);
    last.header.id = 1234;
    const auto reply = client.ask(last);
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->header.id, 1234u);
}

// Use another version, send a reply, or send unknown flags; expect an error where the protocol has
// one, and to be dropped.
TEST_F(ServerTest, HangsUpOnStrangers) {
    for (const std::uint32_t flags : {1u, 2u, 0x20u, 0x40u, 0x80000000u}) {
        Client client{path_};
        ASSERT_TRUE(client.ask(version_command()));
        Message strange = command(VFIO_USER_DEVICE_RESET);
        strange.header.flags = flags;
        EXPECT_FALSE(client.ask(strange)) << flags;
    }
    Client client{path_};
    EXPECT_EQ(error_of(client.ask(command(VFIO_USER_VERSION, vfio_user_version{9, 9}))),
              static_cast<std::uint32_t>(EINVAL));
    EXPECT_FALSE(client.receive());
}

// Connect a second time; expect that client to be dropped, and the first to be served still.
TEST_F(ServerTest, HasOneClientAtATime) {
    Client client{path_};
    ASSERT_TRUE(client.ask(version_command()));
    Client second{path_};
    EXPECT_TRUE(second.connected());
    EXPECT_FALSE(second.receive());
    EXPECT_TRUE(client.ask(command(VFIO_USER_DEVICE_RESET)));
}

class SharedServerTest : public ServerTest {
  protected:
    SharedServerTest() : ServerTest{3} {}

    // Writes a register, and returns the value that it has then.
    static std::uint32_t write_register(Client& client, std::uint32_t value) {
        const vfio_user_region_access depth{VRDMA_REG_AQ_DEPTH, 0, 4};
        EXPECT_TRUE(client.ask(command(VFIO_USER_REGION_WRITE, depth, value)));
        return read_register(client);
    }
    static std::uint32_t read_register(Client& client) {
        const vfio_user_region_access depth{VRDMA_REG_AQ_DEPTH, 0, 4};
        const auto read = client.ask(command(VFIO_USER_REGION_READ, depth));
        std::uint32_t value = 0;
        if (read) {
            std::memcpy(&value, read->payload.data() + sizeof(depth), sizeof(value));
        }
        return value;
    }
};

// Connect four clients to a device for three; expect three to have a function each, the fourth to
// be dropped, and room for another client once one has gone.
TEST_F(SharedServerTest, HasSeveralClients) {
    std::vector<Client> clients;
    for (std::uint32_t i = 0; i < clients_; ++i) {
        clients.emplace_back(path_);
        ASSERT_TRUE(clients[i].ask(version_command()));
        EXPECT_EQ(write_register(clients[i], 16u << i), 16u << i);
    }
    for (std::uint32_t i = 0; i < clients_; ++i) {
        EXPECT_EQ(read_register(clients[i]), 16u << i);
    }
    Client fourth{path_};
    EXPECT_FALSE(fourth.receive());
    clients.erase(clients.begin() + 1);
    Client next{path_};
    ASSERT_TRUE(next.ask(version_command()));
    EXPECT_EQ(read_register(next), 0u);
    EXPECT_EQ(read_register(clients.front()), 16u);
}

// Connect two clients of three, of which one goes. Have the server hang up; expect it to have known
// of the other, and nobody to be able to connect any more.
TEST_F(SharedServerTest, HangsUpOnAll) {
    Client stays{path_};
    {
        Client goes{path_};
        ASSERT_TRUE(goes.ask(version_command()));
    }
    ASSERT_TRUE(stays.ask(version_command()));
    end_.signal();
    EXPECT_FALSE(stays.receive());
    EXPECT_EQ(had_clients_, 1u);
    EXPECT_FALSE(Client{path_}.connected());
}

// Map memory, write a register, and disconnect; expect the next client to find neither, and
// doorbell pages that the first client does not share.
TEST_F(ServerTest, ANewClientFindsAFreshFunction) {
    const vfio_user_dma_map map{32, 3, 0, 0x10000, 0x1000};
    const auto doorbells =
        command(VFIO_USER_DEVICE_GET_REGION_INFO,
                vfio_user_region_info{32, 0, VFIO_PCI_BAR2_REGION_INDEX, 0, 0, 0});
    std::array<struct stat, 2> files{};
    for (auto& file : files) {
        Client client{path_};
        // The client before is gone once its slot is free.
        while (!client.ask(version_command())) {
            client = Client{path_};
        }
        Message request = command(VFIO_USER_DMA_MAP, map);
        request.fds.push_back(shared_file(0x1000));
        EXPECT_EQ(error_of(client.ask(request)), 0u);
        const auto depth = client.ask(
            command(VFIO_USER_REGION_READ, vfio_user_region_access{VRDMA_REG_AQ_DEPTH, 0, 4}));
        ASSERT_TRUE(depth);
        std::uint32_t value = 1;
        std::memcpy(&value, depth->payload.data() + sizeof(vfio_user_region_access), 4);
        EXPECT_EQ(value, 0u);
        EXPECT_TRUE(client.ask(command(VFIO_USER_REGION_WRITE,
                                       vfio_user_region_access{VRDMA_REG_AQ_DEPTH, 0, 4},
                                       std::uint32_t{64})));
        const auto region = client.ask(doorbells);
        ASSERT_TRUE(region && region->fds.size() == 1);
        EXPECT_EQ(::fstat(region->fds[0].get(), &file), 0);
    }
    EXPECT_NE(files[0].st_ino, files[1].st_ino);
}

// Send many commands before any reply is read; expect every reply, in order.
TEST_F(ServerTest, WaitsForASlowReader) {
    Client client{path_};
    ASSERT_TRUE(client.ask(version_command()));
    constexpr std::uint16_t count = 200;
    std::thread sender{[&] {
        for (std::uint16_t id = 0; id < count; ++id) {
            Message read = command(VFIO_USER_REGION_READ,
                                   vfio_user_region_access{0, VFIO_PCI_BAR2_REGION_INDEX, 16384});
            read.header.id = id;
            const auto size = sizeof(read.header) + read.payload.size();
            std::vector<std::byte> bytes(size);
            std::memcpy(bytes.data(), &read.header, sizeof(read.header));
            std::memcpy(bytes.data() + sizeof(read.header), read.payload.data(),
                        read.payload.size());
            EXPECT_EQ(::send(client.fd(), bytes.data(), size, 0), static_cast<ssize_t>(size));
        }
    }};
    sender.join();
    for (std::uint16_t id = 0; id < count; ++id) {
        const auto reply = client.receive();
        ASSERT_TRUE(reply);
        EXPECT_EQ(reply->header.id, id);
    }
}

} // namespace
} // namespace vrdma::vfio_user::test
