// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "harness.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

namespace harness {
namespace {

constexpr int case_timeout_s = 60;
constexpr int wait_timeout_ms = 20000;

constexpr int passed = 0;
constexpr int failed = 1;
constexpr int impossible = 77;

std::vector<Case>& cases() {
    static std::vector<Case> all;
    return all;
}

/* The kernel's log from now on. */
class KernelLog {
  public:
    KernelLog() : fd_(open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
        lseek(fd_.get(), 0, SEEK_END);
    }

    /* Prints new records since the last call; true if one of them is a complaint. */
    bool complained() {
        static constexpr std::array<std::string_view, 7> signs = {
            "WARNING:", "BUG:", "Oops", "kernel BUG", "Call Trace", "blocked for more than",
            "stall"};
        std::array<char, 8192> record;
        bool found = false;
        for (ssize_t length; (length = read(fd_.get(), record.data(), record.size())) > 0 ||
                             (length < 0 && errno == EPIPE);) {
            const std::string_view text(record.data(),
                                        length > 0 ? static_cast<size_t>(length) : 0);
            for (const auto sign : signs)
                found |= text.find(sign) != std::string_view::npos;
            if (found)
                std::printf("    kernel: %.*s", static_cast<int>(text.size()), text.data());
        }
        return found;
    }

  private:
    Fd fd_;
};

/* Returns passed, failed, or impossible. */
int run_case(const Case& test) {
    const pid_t child = fork();
    if (child == 0) {
        alarm(case_timeout_s);
        test.run();
        _exit(passed);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        std::printf("    %s\n", strsignal(WTERMSIG(status)));
    if (WIFEXITED(status) && WEXITSTATUS(status) == impossible)
        return impossible;
    return status == 0 ? passed : failed;
}

void list(const char* title, const std::vector<std::string>& names) {
    if (names.empty())
        return;
    std::printf("%s:", title);
    for (const auto& name : names)
        std::printf(" %s", name.c_str());
    std::printf("\n");
}

} // namespace

Registration::Registration(const char* name, void (*run)()) {
    cases().push_back({name, run});
}

int run(const std::string& filter, const std::function<void()>& cleanup) {
    (void)std::setvbuf(stdout, nullptr, _IONBF, 0); /* cases fork, and may crash */
    KernelLog log;
    std::map<int, std::vector<std::string>> ends;
    for (const auto& test : cases()) {
        if (std::string(test.name).find(filter) == std::string::npos)
            continue;
        std::printf("[ RUN    ] %s\n", test.name);
        int end = run_case(test);
        cleanup();
        if (log.complained())
            end = failed;
        std::printf("[ %s ] %s\n",
                    end == passed   ? "    OK"
                    : end == failed ? "FAILED"
                                    : "  NONE",
                    test.name);
        ends[end].emplace_back(test.name);
    }
    /* The end of the output must name them. */
    list("impossible with this kernel", ends[impossible]);
    list("failed", ends[failed]);
    std::printf("%zu of %zu cases passed\n", ends[passed].size(),
                ends[passed].size() + ends[failed].size());
    return ends[passed].empty() ? 1 : static_cast<int>(ends[failed].size());
}

void fail(const char* file, int line, const std::string& what) {
    std::printf("    %s:%d: %s (errno %s)\n", file, line, what.c_str(), std::strerror(errno));
    _exit(failed);
}

void need(bool has, const char* what) {
    if (has)
        return;
    std::printf("    this kernel has no %s\n", what);
    _exit(impossible);
}

Fd new_eventfd() {
    return Fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
}

unsigned long long signals(const Fd& eventfd) {
    eventfd_t count = 0;
    return eventfd_read(eventfd.get(), &count) == 0 ? count : 0;
}

short await(int fd, short events) {
    pollfd entry = {fd, events, 0};
    CHECK_EQ(poll(&entry, 1, wait_timeout_ms), 1);
    return entry.revents;
}

void await(const std::function<bool()>& condition, const char* what) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_timeout_ms);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end)
            fail(__FILE__, __LINE__, std::string("waited in vain for: ") + what);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

std::string read_file(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

int write_file(const std::string& path, const std::string& text) {
    const Fd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (fd.get() < 0 || write(fd.get(), text.data(), text.size()) < 0)
        return errno;
    return 0;
}

} // namespace harness
