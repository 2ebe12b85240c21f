// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Strangers connect to a fabric's host, send anything, and hang up. One of them may have taken over
// the process that makes the host's handshakes. Meanwhile, peers come and go. A stranger that was
// let in sends frames. Each stranger can only speak for itself. At the end, an honest peer gets in,
// unless the process's messages are no longer accepted.
//
// The input is a list of steps. The first byte of each selects its kind (enum Step).
#include <endian.h>
#include <fmt/format.h>
#include <net/ethernet.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "mediator/fuzz/input.h"
#include "mediator/fuzz/require.h"
#include "mediator/helper/socket.h"
#include "mediator/wire/bytes.h"
#include "mediator/wire/fabric/connector.h"
#include "mediator/wire/fabric/fabric_uplink.h"
#include "vrdma/roce.h"

namespace vrdma::wire::fabric {
namespace {

using fuzz::Input;
using fuzz::require;

enum Step : std::uint8_t {
    step_connect, // index of a stranger
    step_say,     // index, size, bytes
    step_frame,   // index of a stranger that was let in, source, spoilers
    step_hang_up, // who
    step_news,    // the process's message about the newest handshake, spoilers
    step_raw,     // size, bytes: the process's message
    step_add,     // peer
    step_remove,  // peer
    step_count,
};

constexpr int max_steps = 40;
constexpr unsigned hosts = 3; // alpha is peer 0, and gamma peer 2
const std::array<std::string, hosts> names{"alpha", "beta", "gamma"};
constexpr unsigned us = 1;

Gid gid_of(unsigned host) {
    return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, static_cast<std::uint8_t>(host)};
}

// An address that only this process uses, and another for each call, because the ports of closed
// connections stay in use for a while.
Address next_address() {
    static unsigned count = 0;
    const auto process = static_cast<unsigned>(::getpid());
    return {
        fmt::format("127.{}.{}.{}", 128 | (process >> 8) % 128, process % 256, 1 + ++count % 254),
        "7471"};
}

std::unique_ptr<Handshakes> open_handshakes(helper::SocketPair& ends, EventLoop& loop) {
    for (const handshakes::News& news :
         {handshakes::News{handshakes::Began{}}, handshakes::News{handshakes::Ready{}}}) {
        helper::send(ends.its.get(), handshakes::pack(news));
    }
    return *Handshakes::open("fuzz", std::move(ends.ours), {{}, names[us]}, loop);
}

class Stage {
  public:
    Stage() {
        add(0);
        add(2);
    }

    void step(Input& input) {
        switch (input.take<std::uint8_t>() % step_count) {
            case step_connect:
                connect(pick(input));
                break;
            case step_say:
                speak(pick(input), raw(input));
                break;
            case step_frame:
                send_frame(pick(input), input);
                break;
            case step_hang_up:
                pick(input) = {};
                break;
            case step_news:
                say_news(input);
                break;
            case step_raw:
                send(raw(input));
                break;
            case step_add:
                add(peer(input));
                break;
            default:
                remove(peer(input));
                break;
        }
        turn();
    }

    // Checks that an honest process and an honest peer succeed.
    void check() {
        strangers_ = {};
        if (!send(handshakes::Began{}) || !send(handshakes::Ready{})) {
            return;
        }
        remove(0);
        add(0);
        connect(strangers_[0]);
        handshakes::Id answered = newest_;
        speak(strangers_[0], std::vector<std::byte>(1));
        while (!handover_->has(0)) {
            turn();
            if (std::exchange(answered, newest_) != newest_) {
                send(handshakes::Asks{newest_, names[0]});
                send(handshakes::Done{newest_, names[0], {}});
            }
        }
    }

  private:
    struct Stranger {
        std::unique_ptr<Connection> connection;
        bool sealed = false;
    };

    Stranger& pick(Input& input) { return strangers_[input.take<std::uint8_t>() % 2]; }
    static unsigned peer(Input& input) { return input.take<std::uint8_t>() % 2 * 2; }
    static std::vector<std::byte> raw(Input& input) {
        std::vector<std::byte> bytes(input.take<std::uint8_t>());
        std::ranges::generate(bytes, [&] { return input.take<std::byte>(); });
        return bytes;
    }

    void add(unsigned number) {
        if (!std::exchange(there_[number], true)) {
            std::vector<Gid> gids{gid_of(number)};
            uplink_->swap_gids(number, gids);
            connector_->add(number, {names[number], next_address()}); // where nobody listens
        }
    }
    void remove(unsigned number) {
        if (std::exchange(there_[number], false)) {
            connector_->remove(number);
        }
    }

    void connect(Stranger& stranger) {
        stranger = {std::move(*Connection::connect(*info_to("tcp", address_)))};
        while (stranger.connection->next_event() == Connection::Event::none) {
            turn();
        }
    }
    static bool works(const Stranger& stranger) {
        return stranger.connection && !stranger.connection->failed();
    }
    static void speak(Stranger& stranger, const std::vector<std::byte>& bytes) {
        if (works(stranger) && !bytes.empty()) {
            stranger.connection->poll();
            (void)stranger.connection->say(bytes);
        }
    }

    // The stranger behaves as if it were connected, whether it was let in or not.
    static void send_frame(Stranger& stranger, Input& input) {
        if (!works(stranger)) {
            return;
        }
        if (!std::exchange(stranger.sealed, true)) {
            stranger.connection->seal(*Seals::create({}, true));
        }
        std::array<std::byte, 100> frame{};
        store(std::span{frame}, 12, htobe16(ETHERTYPE_IP));
        vrdma_ipv4 header{};
        const Gid source = gid_of(input.take<std::uint8_t>() % hosts);
        std::ranges::copy(std::span{source}.last(sizeof(header.source)), header.source);
        store(std::span{frame}, 14, header);
        input.spoil<std::uint8_t>(frame);
        stranger.connection->poll();
        const auto room = stranger.connection->prepare();
        if (!room.empty()) {
            std::ranges::copy(frame, room.begin());
            stranger.connection->commit(frame.size());
            stranger.connection->flush();
        }
    }

    void say_news(Input& input) {
        const std::string& name = names[input.take<std::uint8_t>() % hosts];
        const std::array<handshakes::News, 8> all{
            handshakes::Next{newest_},
            handshakes::Asks{newest_, name},
            handshakes::Done{newest_, name, {}},
            handshakes::Say{{newest_, std::vector<std::byte>(9)}},
            handshakes::Refused{newest_, name, "is fuzzed"},
            handshakes::Began{},
            handshakes::Ready{},
            handshakes::Wrong{"it is fuzzed"}};
        auto message = handshakes::pack(all[input.take<std::uint8_t>() % all.size()]);
        input.spoil<std::uint16_t>(message);
        send(message);
    }
    bool send(const handshakes::News& news) { return send(handshakes::pack(news)); }
    bool send(const std::vector<std::byte>& message) {
        const ssize_t sent =
            ::send(ends_.its.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        turn();
        return sent == static_cast<ssize_t>(message.size());
    }

    // A turn of the control thread, the poller and the process.
    void turn() {
        const auto watch = loop_.watch(wake_.fd(), [&](std::uint32_t) {
            wake_.drain();
            loop_.stop();
        });
        for (int i = 0; i < 4; ++i) {
            wake_.signal();
            (void)loop_.run();
            receive();
            hear_orders();
        }
    }

    void receive() {
        for (auto frame = uplink_->receive(); !frame.empty(); frame = uplink_->receive()) {
            const auto source = load<Mac>(frame, sizeof(Mac));
            const bool from_alpha = source == uplink_->present_mac_of(0);
            require(from_alpha || source == uplink_->present_mac_of(2));
            const auto protocol = load<std::uint16_t>(frame, 12);
            require(protocol != htobe16(ETHERTYPE_IP) ||
                    frame[29] == static_cast<std::byte>(from_alpha ? 0 : 2));
            uplink_->release();
        }
    }

    // The process receives only valid orders.
    void hear_orders() {
        std::array<std::byte, handshakes::max_message> message;
        ssize_t size = 0;
        while ((size = ::recv(ends_.its.get(), message.data(), message.size(), MSG_DONTWAIT)) > 0) {
            const auto order =
                handshakes::read_order(std::span{message}.first(static_cast<std::size_t>(size)));
            require(order.has_value());
            if (const auto* const begin = std::get_if<handshakes::Begin>(&*order)) {
                newest_ = begin->id;
            }
        }
    }

    EventLoop loop_;
    EventFd wake_ = *EventFd::create();
    const Address address_ = next_address();
    helper::SocketPair ends_ = *helper::open_socket_pair();
    std::shared_ptr<Handover> handover_ = *Handover::create();
    std::unique_ptr<FabricUplink> uplink_ = *FabricUplink::create(handover_);
    std::unique_ptr<Connector> connector_ = *Connector::create(
        {"fuzz", names[us], address_, "tcp"}, loop_, handover_, open_handshakes(ends_, loop_));
    std::array<bool, hosts> there_{};
    std::array<Stranger, 2> strangers_;
    handshakes::Id newest_ = 0;
};

} // namespace
} // namespace vrdma::wire::fabric

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    spdlog::set_level(spdlog::level::off);
    vrdma::wire::fabric::Stage stage;
    vrdma::fuzz::Input input{{data, size}};
    for (int i = 0; i < vrdma::wire::fabric::max_steps && !input.empty(); ++i) {
        stage.step(input);
    }
    stage.check();
    return 0;
}
