// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/sniffer.h"

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <string_view>

#include "ctl/pcapng_file.h"

namespace vrdma::ctl {
namespace {

// The signals that end a capture, as a descriptor, as long as it lives.
class Interrupts {
  public:
    Interrupts() {
        ::sigemptyset(&signals_);
        for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
            ::sigaddset(&signals_, signal);
        }
        ::sigprocmask(SIG_BLOCK, &signals_, &before_);
        fd_ = ::signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK);
    }
    Interrupts(const Interrupts&) = delete;
    Interrupts& operator=(const Interrupts&) = delete;
    ~Interrupts() {
        take();
        ::close(fd_);
        ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    }

    int fd() const { return fd_; }
    void take() const {
        signalfd_siginfo taken;
        static_cast<void>(::read(fd_, &taken, sizeof(taken)));
    }

  private:
    sigset_t signals_{};
    sigset_t before_{};
    int fd_ = -1;
};

std::string path_of(const std::string& device) {
    return "/v1/devices/" + encode(device) + "/sniffer";
}

// The capture goes on until all that was recorded has come.
class Writer final : public Client::Reader {
  public:
    Writer(const Client& client, const Sniffing& sniffing)
        : client_{client}, sniffing_{sniffing}, file_{sniffing.file} {}

    // After a failure, the sniffer has ended before the command does.
    bool read(std::string_view bytes) override {
        if (!file_.add(bytes)) {
            stop();
            return false;
        }
        return true;
    }
    int interrupt_fd() const override { return interrupts_.fd(); }
    void interrupt() override {
        interrupts_.take();
        interrupted_ = true;
        stop();
    }

    const PcapngFile& file() const { return file_; }
    bool interrupted() const { return interrupted_; }

  private:
    void stop() const { static_cast<void>(stop_sniffer(client_, sniffing_.device)); }

    const Client& client_;
    const Sniffing& sniffing_;
    PcapngFile file_;
    Interrupts interrupts_;
    bool interrupted_ = false;
};

} // namespace

// A reader of a pipe that leaves is found out by write().
Answer sniff(const Client& client, const Sniffing& sniffing) {
    static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
    Writer writer{client, sniffing};
    const auto problem =
        client.stream(path_of(sniffing.device), {{"payload", sniffing.payload}}, writer);
    const PcapngFile& file = writer.file();
    if (!file.problem().empty() && !file.reader_left()) {
        return tl::unexpected{Problem{false, file.problem()}};
    }
    if (problem && !file.reader_left()) {
        return tl::unexpected{*problem};
    }
    return nlohmann::json{{"file", sniffing.file},
                          {"frames", file.frames()},
                          {"dropped", file.dropped()},
                          {"interrupted", writer.interrupted() || file.reader_left()}};
}

Answer stop_sniffer(const Client& client, const std::string& device) {
    return client.remove(path_of(device));
}

std::string show_sniffed(const nlohmann::json& answer, Width /*width*/) {
    return fmt::format("{} frames, and {} dropped\n{}", answer.at("frames").get<std::uint64_t>(),
                       answer.at("dropped").get<std::uint64_t>(),
                       answer.at("interrupted").get<bool>()
                           ? ""
                           : "The sniffer was stopped, or its device has gone.\n");
}

} // namespace vrdma::ctl
