// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/helper/launch.h"

#include <fcntl.h>
#include <spawn.h>

#include <array>
#include <csignal>
#include <filesystem>

#include "mediator/helper/socket.h"

namespace vrdma::helper {
namespace {

// The descriptors of the process: a socket, and no other by which it could read or write.
class Descriptors {
  public:
    explicit Descriptors(int socket) {
        ::posix_spawn_file_actions_init(&actions_);
        note(::posix_spawn_file_actions_adddup2(&actions_, socket, socket_of_process));
        for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
            note(::posix_spawn_file_actions_addopen(&actions_, standard, "/dev/null", O_RDWR, 0));
        }
        note(::posix_spawn_file_actions_addclosefrom_np(&actions_, socket_of_process + 1));
    }
    Descriptors(const Descriptors&) = delete;
    Descriptors& operator=(const Descriptors&) = delete;
    ~Descriptors() { ::posix_spawn_file_actions_destroy(&actions_); }

    int error() const { return error_; }
    const posix_spawn_file_actions_t* get() const { return &actions_; }

  private:
    void note(int error) { error_ = error_ != 0 ? error_ : error; }

    posix_spawn_file_actions_t actions_{};
    int error_ = 0;
};

// Signals have the defaults that any program expects.
class Attributes {
  public:
    Attributes() {
        ::posix_spawnattr_init(&attributes_);
        sigset_t none;
        ::sigemptyset(&none);
        ::posix_spawnattr_setsigmask(&attributes_, &none);
        sigset_t all;
        ::sigfillset(&all);
        ::posix_spawnattr_setsigdefault(&attributes_, &all);
        ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    Attributes(const Attributes&) = delete;
    Attributes& operator=(const Attributes&) = delete;
    ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }

    const posix_spawnattr_t* get() const { return &attributes_; }

  private:
    posix_spawnattr_t attributes_{};
};

} // namespace

std::string program_path(const std::string& name) {
    std::error_code error;
    const auto ours = std::filesystem::read_symlink("/proc/self/exe", error);
    return (ours.parent_path() / name).string();
}

Result<Launched> launch(const std::string& program, const std::string& forbidden) {
    auto ends = open_socket_pair();
    if (!ends) {
        return fail(ends.error());
    }
    const Descriptors descriptors{ends->its.get()};
    const Attributes attributes;
    std::string name = std::filesystem::path{program}.filename().string();
    std::string what = forbidden;
    const std::array<char*, 3> words{name.data(), what.data(), nullptr};
    pid_t process = 0;
    const int error = descriptors.error() != 0
                          ? descriptors.error()
                          : ::posix_spawn(&process, program.c_str(), descriptors.get(),
                                          attributes.get(), words.data(), environ);
    if (error != 0) {
        return fail(static_cast<std::errc>(error));
    }
    return Launched{process, std::move(ends->ours)};
}

} // namespace vrdma::helper
