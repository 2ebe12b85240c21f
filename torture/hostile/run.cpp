// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/hostile/run.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "torture/device.h"

namespace vrdma::torture::hostile {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int misused = 2; // the exit status for wrong arguments
constexpr auto nap = 1ms;
constexpr auto turn = 3s;          // time of each neighbour, if there are several
constexpr auto preparations = 60s; // limit for preparations, before the neighbour has to be at work

// Counts how often a neighbour's process has rested. It is shared with the process that started it.
using Rests = std::atomic<std::uint64_t>;

Rests& shared_count() {
    void* const page =
        ::mmap(nullptr, sizeof(Rests), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(page != MAP_FAILED, "mmap");
    return *new (page) Rests{0};
}

class CountedPace final : public Pace {
  public:
    CountedPace(const Neighbour& neighbour, Rests& rests) : neighbour_{neighbour}, rests_{rests} {}

    void rest() override {
        if (rests_.fetch_add(1) == 0) {
            std::printf("%s is at work\n", neighbour_.name);
            static_cast<void>(std::fflush(stdout));
        }
        std::this_thread::sleep_for(nap);
    }

  private:
    const Neighbour& neighbour_;
    Rests& rests_;
};

pid_t start(const Neighbour& neighbour, const Seat& seat, Rests& rests) {
    rests = 0;
    const pid_t child = ::fork();
    check(child < 0 ? errno : 0, "fork");
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        place = {seat.seed, 0, 0, 0, neighbour.name};
        CountedPace pace{neighbour, rests};
        neighbour.work(seat, pace);
    }
    return child;
}

bool ended(pid_t child) {
    return ::waitpid(child, nullptr, WNOHANG) == child;
}

// Runs a neighbour until it has been at work for `duration`. False: it was never at work.
bool play(const Neighbour& neighbour, const Seat& seat, Rests& rests, Clock::duration duration) {
    const pid_t child = start(neighbour, seat, rests);
    bool over = false;
    for (const auto end = Clock::now() + preparations; !over && rests == 0 && Clock::now() < end;) {
        std::this_thread::sleep_for(nap);
        over = ended(child);
    }
    for (const auto end = Clock::now() + duration; !over && rests > 0 && Clock::now() < end;) {
        std::this_thread::sleep_for(nap);
        over = ended(child);
    }
    if (!over) {
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
    }
    return rests > 0;
}

bool known(const std::string& name) {
    return std::ranges::any_of(neighbours(),
                               [&](const Neighbour& neighbour) { return name == neighbour.name; });
}

// Ends the process if there are none.
std::vector<Neighbour> candidates(const Seat& seat, const std::string& name) {
    std::vector<Neighbour> found;
    std::ranges::copy_if(neighbours(), std::back_inserter(found), [&](const Neighbour& neighbour) {
        return (name.empty() || name == neighbour.name) && neighbour.possible(seat);
    });
    if (found.empty()) {
        static_cast<void>(std::fprintf(stderr,
                                       known(name) ? "torture: '%s' needs --socket or --network\n"
                                                   : "torture: there is no neighbour '%s'; --list "
                                                     "names them\n",
                                       name.c_str()));
        std::exit(misused);
    }
    return found;
}

} // namespace

bool be_hostile(Seat seat, const std::string& name, std::chrono::seconds duration) {
    std::vector<Neighbour> all = candidates(seat, name);
    Random random = Random::of({seat.seed});
    Rests& rests = shared_count();
    unsigned turns = 0;
    for (const auto end = Clock::now() + duration; Clock::now() < end; ++turns) {
        seat.seed = random.next();
        const auto left = end - Clock::now();
        const Neighbour& neighbour = random.pick(all);
        if (!play(neighbour, seat, rests,
                  all.size() == 1 ? left : std::min<Clock::duration>(left, turn))) {
            static_cast<void>(std::fprintf(stderr, "%s was never at work\n", neighbour.name));
            return false;
        }
    }
    std::printf("%u turns of hostile neighbours\n", turns);
    return true;
}

void list_neighbours() {
    for (const Neighbour& neighbour : neighbours()) {
        std::printf("%-20s %s\n", neighbour.name, neighbour.what);
    }
}

} // namespace vrdma::torture::hostile
