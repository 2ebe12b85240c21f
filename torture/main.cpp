// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// vrdma-torture: random verbs between two devices, with every message verified. This process only
// starts a process for each round, and the one on the other side does so at the same time.
#include <getopt.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>

#include "torture/conversation.h"
#include "torture/hostile/run.h"
#include "torture/round.h"

namespace vrdma::torture {
namespace {

constexpr auto usage = R"(usage: vrdma-torture [OPTION...]          the server
       vrdma-torture [OPTION...] SERVER   the client, whose seed, rounds and sizes are played
       vrdma-torture --hostile[=NEIGHBOUR] [OPTION...]

  --device NAME        vrdma0
  --gid-index N        1
  --port N             TCP port at which the sides meet, 18700
  --seed N             selects the script; by default a random one
  --seconds N          new rounds start for so long, 60
  --round N            play that round only
  --conversations N    threads on each side, 3
  --steps N            steps of each conversation in a round, 150
  --lossy              packets may be lost, as when a VM moves: no datagrams and no UC
  --transcript FILE    instead of conversations, play a script, and write to the file what both sides
                       observe; the file is the same wherever they are
  --hostile[=NEIGHBOUR] play a hostile neighbour instead: the one of that name, or one after another
                       at random
  --socket PATH        the device's socket, for neighbours that bypass the driver
  --network ADDRESS    IPv4 address of a device on an uplink, for neighbours that send packets to it
  --list               list the neighbours
)";

struct Options {
    std::string device = "vrdma0";
    int gid_index = 1;
    std::string port = "18700";
    std::uint64_t seed = std::random_device{}();
    std::chrono::seconds duration{60};
    std::optional<std::uint32_t> only_round;
    std::uint32_t conversations = 3;
    std::uint32_t steps = 150;
    bool lossy = false;
    std::string transcript;
    std::string server;                   // empty: this process is the server
    std::optional<std::string> neighbour; // with an empty name: any
    std::string socket;
    std::string network;
};

constexpr int round_limit_ms = 10 * 60 * 1000;
constexpr int fine = 0;
constexpr int misused = 2; // the exit status for wrong arguments

// Ends the process if the text is no number of the type.
template <typename Number>
Number number(std::string_view text) {
    Number value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        static_cast<void>(std::fprintf(stderr, "torture: '%s' must be a number\n%s",
                                       std::string{text}.c_str(), usage));
        std::exit(misused);
    }
    return value;
}

void parse_option(int option, const char* value, Options& options) {
    switch (option) {
        case 'd':
            options.device = value;
            break;
        case 'x':
            options.gid_index = number<std::uint8_t>(value);
            break;
        case 'p':
            options.port = std::to_string(number<std::uint16_t>(value));
            break;
        case 's':
            options.seed = number<std::uint64_t>(value);
            break;
        case 't':
            options.duration = std::chrono::seconds{number<std::uint32_t>(value)};
            break;
        case 'r':
            options.only_round = number<std::uint32_t>(value);
            break;
        case 'c':
            options.conversations = number<std::uint32_t>(value);
            break;
        case 'n':
            options.steps = number<std::uint32_t>(value);
            break;
        case 'L':
            options.lossy = true;
            break;
        case 'T':
            options.transcript = value;
            break;
        case 'H':
            options.neighbour = value == nullptr ? "" : value;
            break;
        case 'S':
            options.socket = value;
            break;
        case 'N':
            options.network = value;
            break;
        case 'l':
            hostile::list_neighbours();
            std::exit(EXIT_SUCCESS);
        default:
            static_cast<void>(std::fputs(usage, option == 'h' ? stdout : stderr));
            std::exit(option == 'h' ? EXIT_SUCCESS : misused);
    }
}

Options parse(int argc, char** argv) {
    static constexpr option known[] = {{"device", required_argument, nullptr, 'd'},
                                       {"gid-index", required_argument, nullptr, 'x'},
                                       {"port", required_argument, nullptr, 'p'},
                                       {"seed", required_argument, nullptr, 's'},
                                       {"seconds", required_argument, nullptr, 't'},
                                       {"round", required_argument, nullptr, 'r'},
                                       {"conversations", required_argument, nullptr, 'c'},
                                       {"steps", required_argument, nullptr, 'n'},
                                       {"lossy", no_argument, nullptr, 'L'},
                                       {"transcript", required_argument, nullptr, 'T'},
                                       {"hostile", optional_argument, nullptr, 'H'},
                                       {"socket", required_argument, nullptr, 'S'},
                                       {"network", required_argument, nullptr, 'N'},
                                       {"list", no_argument, nullptr, 'l'},
                                       {"help", no_argument, nullptr, 'h'},
                                       {}};
    Options options;
    for (int option = 0; (option = ::getopt_long(argc, argv, "", known, nullptr)) != -1;) {
        parse_option(option, optarg, options);
    }
    if (optind < argc) {
        options.server = argv[optind];
    }
    return options;
}

pid_t start(const Round& round, const Side& side) {
    const pid_t child = ::fork();
    check(child < 0 ? errno : 0, "fork");
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL); // the processes of a run end together
        play(round, side);
        std::exit(EXIT_SUCCESS);
    }
    return child;
}

// Waits for the process. Returns 0 if it ended as the script requires.
int await(pid_t child, bool dies) {
    const auto process = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
    pollfd descriptor{process, POLLIN, 0};
    if (::poll(&descriptor, 1, round_limit_ms) != 1) {
        static_cast<void>(std::fprintf(stderr, "torture: seed %llu round %u: not done\n",
                                       static_cast<unsigned long long>(place.seed), place.round));
        ::kill(child, SIGABRT);
    }
    ::close(process);
    int status = 0;
    ::waitpid(child, &status, 0);
    const bool as_wanted =
        dies ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == EXIT_SUCCESS;
    return as_wanted ? fine : EXIT_FAILURE;
}

// Exchanges this side's verdict on a round with the other's. The run stops unless both are fine.
bool agreed(const ControlConnection& control, int verdict) {
    return control.exchange(verdict) == fine && verdict == fine;
}

// The server plays the rounds that the client sends, until one has no conversations.
int serve(const Options& options) {
    const int listener = listen_at(options.port);
    const ControlConnection control = ControlConnection::accept(listener);
    const Side side{0,
                    options.device,
                    options.gid_index,
                    [&] { return ControlConnection::accept(listener); },
                    {}};
    while (true) {
        const auto round = control.receive<Round>();
        if (round.conversations == 0) {
            return EXIT_SUCCESS;
        }
        place = {round.seed, round.number};
        const pid_t child = start(round, side);
        if (!agreed(control, await(child, round.victim() == side.number))) {
            return EXIT_FAILURE;
        }
    }
}

int demand(const Options& options) {
    const ControlConnection control = ControlConnection::connect(options.server, options.port);
    const Side side{1, options.device, options.gid_index,
                    [&] { return ControlConnection::connect(options.server, options.port); },
                    options.transcript};
    Round round{.seed = options.seed,
                .number = options.only_round.value_or(0),
                .conversations = options.conversations,
                .steps = options.steps,
                .lossy = options.lossy ? 1u : 0u,
                .testifies = options.transcript.empty() ? 0u : 1u};
    const auto end = std::chrono::steady_clock::now() + options.duration;
    do {
        place = {round.seed, round.number};
        control.send(round);
        const pid_t child = start(round, side);
        if (!agreed(control, await(child, round.victim() == side.number))) {
            static_cast<void>(
                std::fprintf(stderr, "torture: failed; again: --seed %llu --round %u\n",
                             static_cast<unsigned long long>(round.seed), round.number));
            return EXIT_FAILURE;
        }
        ++round.number;
    } while (!options.only_round && std::chrono::steady_clock::now() < end);
    control.send(Round{});
    std::printf("seed %llu: %u rounds, nothing wrong\n",
                static_cast<unsigned long long>(options.seed), round.number);
    return EXIT_SUCCESS;
}

int be_neighbour(const Options& options) {
    std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
    static_cast<void>(std::fflush(stdout)); // before fork() copies unprinted text
    const bool worked = hostile::be_hostile(
        {options.device, options.gid_index, options.socket, options.network, options.seed},
        *options.neighbour, options.duration);
    return worked ? EXIT_SUCCESS : EXIT_FAILURE;
}

int play_part(const Options& options) {
    if (options.neighbour) {
        return be_neighbour(options);
    }
    return options.server.empty() ? serve(options) : demand(options);
}

} // namespace
} // namespace vrdma::torture

int main(int argc, char** argv) {
    return vrdma::torture::play_part(vrdma::torture::parse(argc, argv));
}
