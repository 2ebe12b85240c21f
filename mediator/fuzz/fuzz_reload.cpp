// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A process that reads vrdmad.conf again, and that the file has taken over: it sends messages of
// any bytes, and valid ones that are spoiled. Nothing changes before a message says that all was
// sent. Changed values are then within their bounds. After one invalid message, nothing changes any
// more.
//
// The input is a list of steps. The first byte of each selects its kind (enum Step).
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>

#include "mediator/control/reloader.h"
#include "mediator/fuzz/input.h"
#include "mediator/fuzz/require.h"
#include "mediator/helper/socket.h"

namespace vrdma::control {
namespace {

using fuzz::Input;
using fuzz::require;
using Kind = ReloadMessage::Kind;

enum Step : std::uint8_t {
    step_level,    // number, spoilers
    step_share,    // of a type or a device, number, weight, spoilers
    step_text,     // whether something is wrong, characters, spoilers
    step_complete, // spoilers
    step_raw,      // size, bytes
    step_count,
};

constexpr int max_steps = 200;
constexpr std::size_t devices = 3;

Running make_running() {
    Running running;
    running.config.types = default_types();
    running.config.vfio_user.resize(devices);
    return running;
}

class Process {
  public:
    void step(Input& input) {
        const auto bytes = message(input);
        const auto understood = read_reload_message(bytes);
        const bool all = say(bytes) && understood && understood->kind == Kind::complete;
        const std::vector<hca::Share> before = shares();
        completed_ = false;
        hear();
        require(completed_ == all);
        require(completed_ || shares() == before);
        check();
    }

  private:
    std::vector<std::byte> message(Input& input) {
        ReloadMessage good{};
        switch (const auto step = input.take<std::uint8_t>() % step_count; step) {
            case step_level:
                good.kind = Kind::log_level;
                good.number = input.take<std::uint8_t>() % (spdlog::level::off + 1u);
                break;
            case step_share: {
                const auto draw = input.take<std::uint8_t>();
                good = share_message(draw % 2 != 0 ? Kind::type : Kind::device, draw / 2 % 3,
                                     {.weight = 1u + input.take<std::uint8_t>()});
                break;
            }
            case step_text: {
                const auto draw = input.take<std::uint8_t>();
                good = text_message(draw % 2 != 0 ? Kind::wrong : Kind::wait,
                                    std::string(1 + draw, 'x'));
                break;
            }
            case step_complete:
                good.kind = Kind::complete;
                break;
            default: {
                std::vector<std::byte> bytes(input.take<std::uint16_t>() % (sizeof(good) + 8));
                std::ranges::generate(bytes, [&] { return input.take<std::byte>(); });
                return bytes;
            }
        }
        const auto bytes = std::as_writable_bytes(std::span{&good, 1});
        input.spoil<std::uint16_t>(bytes);
        return {bytes.begin(), bytes.end()};
    }

    // Fails if an earlier message was invalid.
    bool say(std::span<const std::byte> bytes) const {
        return ::send(ends_.its.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
               static_cast<ssize_t>(bytes.size());
    }

    void hear() {
        const auto watch = loop_.watch(wake_.fd(), [&](std::uint32_t) {
            wake_.drain();
            loop_.stop();
        });
        for (int i = 0; i < 2; ++i) {
            wake_.signal();
            (void)loop_.run();
        }
    }

    std::vector<hca::Share> shares() const {
        std::vector<hca::Share> all;
        const auto add = [&](const auto& item) { all.push_back(item.share); };
        std::ranges::for_each(running_.config.types, add);
        std::ranges::for_each(running_.config.vfio_user, add);
        return all;
    }

    void check() const {
        require(std::ranges::all_of(shares(), [](const hca::Share& share) {
            return share.weight >= 1 && share.weight <= hca::Share::max_weight;
        }));
        require(shares().size() == default_types().size() + devices);
        require(running_.config.log_level >= 0 && running_.config.log_level <= spdlog::level::off);
    }

    helper::SocketPair ends_ = *helper::open_socket_pair();
    EventFd wake_ = *EventFd::create();
    EventLoop loop_;
    Running running_ = make_running();
    bool completed_ = false;
    std::unique_ptr<Reloader> reloader_ =
        *Reloader::create(std::move(ends_.ours), running_, loop_, [this] { completed_ = true; });
};

} // namespace
} // namespace vrdma::control

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const bool silent = [] { // messages set the log level
        spdlog::set_default_logger(spdlog::null_logger_mt("fuzz"));
        return true;
    }();
    vrdma::fuzz::require(silent);
    vrdma::control::Process process;
    vrdma::fuzz::Input input{{data, size}};
    for (int i = 0; i < vrdma::control::max_steps && !input.empty(); ++i) {
        process.step(input);
    }
    return 0;
}
