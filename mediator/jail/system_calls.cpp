// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/jail/system_calls.h"

#include <asm/termbits.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>

#include "mediator/base/sanitized.h"

namespace vrdma::jail {
namespace {

struct Release {
    void operator()(void* filter) const noexcept { ::seccomp_release(filter); }
};
using Filter = std::unique_ptr<void, Release>;

// The rules of a filter. Remembers the first failure.
class Rules {
  public:
    explicit Rules(Forbidden forbidden)
        : filter_{::seccomp_init(forbidden == Forbidden::killed ? SCMP_ACT_KILL_PROCESS
                                                                : SCMP_ACT_ERRNO(EPERM))},
          refusal_{forbidden == Forbidden::killed ? 0 : EPERM},
          error_{filter_ ? 0 : -ENOMEM} {
        if (filter_) {
            note(::seccomp_attr_set(filter_.get(), SCMP_FLTATR_CTL_LOG, 1));
            // Before Linux 5.16, a filter slows its threads down: the kernel protects them against
            // speculative store bypass, as if they ran strangers' code. If libseccomp or the kernel
            // cannot switch that off, nothing else changes.
            (void)::seccomp_attr_set(filter_.get(), SCMP_FLTATR_CTL_SSB, 1);
        }
    }

    void allow(std::initializer_list<int> calls) {
        for (const int call : calls) {
            note(::seccomp_rule_add(filter_.get(), SCMP_ACT_ALLOW, call, 0));
        }
    }
    // Allows the call if all of its arguments match.
    template <typename... Arguments>
    void allow_if(int call, Arguments... arguments) {
        const std::array<scmp_arg_cmp, sizeof...(arguments)> all{arguments...};
        note(::seccomp_rule_add_array(filter_.get(), SCMP_ACT_ALLOW, call, all.size(), all.data()));
    }
    // For calls whose callers have another way.
    void deny(int call, int error) {
        if (error == refusal_) {
            return;
        }
        note(::seccomp_rule_add(filter_.get(), SCMP_ACT_ERRNO(static_cast<std::uint16_t>(error)),
                                call, 0));
    }
    void deny_if(int call, scmp_arg_cmp argument, int error) {
        note(::seccomp_rule_add_array(
            filter_.get(), SCMP_ACT_ERRNO(static_cast<std::uint16_t>(error)), call, 1, &argument));
    }

    Result<> load() {
        if (error_ == 0) {
            note(::seccomp_load(filter_.get()));
        }
        return error_ == 0 ? Result<>{} : fail(static_cast<std::errc>(-error_));
    }

  private:
    void note(int error) { error_ = error_ != 0 ? error_ : error; }

    Filter filter_;
    int refusal_; // the error of a call that is on no list; 0: such a call kills
    int error_;
};

// Memory, time, waiting, signals, the end of a thread, and descriptors that are open.
void allow_common(Rules& rules) {
    rules.allow({SCMP_SYS(brk),
                 SCMP_SYS(clock_getres),
                 SCMP_SYS(clock_gettime),
                 SCMP_SYS(clock_nanosleep),
                 SCMP_SYS(close),
                 SCMP_SYS(dup),
                 SCMP_SYS(epoll_ctl),
                 SCMP_SYS(epoll_pwait),
                 SCMP_SYS(epoll_pwait2),
                 SCMP_SYS(epoll_wait),
                 SCMP_SYS(eventfd2),
                 SCMP_SYS(exit),
                 SCMP_SYS(exit_group),
                 SCMP_SYS(fstat),
                 SCMP_SYS(futex),
                 SCMP_SYS(getcpu),
                 SCMP_SYS(getpid),
                 SCMP_SYS(getrandom),
                 SCMP_SYS(getsockname),
                 SCMP_SYS(getsockopt),
                 SCMP_SYS(gettid),
                 SCMP_SYS(gettimeofday),
                 SCMP_SYS(io_getevents),
                 SCMP_SYS(io_submit),
                 SCMP_SYS(lseek),
                 SCMP_SYS(madvise),
                 SCMP_SYS(membarrier),
                 SCMP_SYS(mremap),
                 SCMP_SYS(munmap),
                 SCMP_SYS(nanosleep),
                 SCMP_SYS(newfstatat),
                 SCMP_SYS(poll),
                 SCMP_SYS(ppoll),
                 SCMP_SYS(pread64),
                 SCMP_SYS(pselect6),
                 SCMP_SYS(read),
                 SCMP_SYS(readv),
                 SCMP_SYS(recvfrom),
                 SCMP_SYS(recvmmsg),
                 SCMP_SYS(recvmsg),
                 SCMP_SYS(restart_syscall),
                 SCMP_SYS(rseq),
                 SCMP_SYS(rt_sigaction),
                 SCMP_SYS(rt_sigprocmask),
                 SCMP_SYS(rt_sigreturn),
                 SCMP_SYS(sched_getaffinity),
                 SCMP_SYS(sched_getparam),
                 SCMP_SYS(sched_getscheduler),
                 SCMP_SYS(sched_yield),
                 SCMP_SYS(select),
                 SCMP_SYS(sendmmsg),
                 SCMP_SYS(sendmsg),
                 SCMP_SYS(sendto),
                 SCMP_SYS(set_robust_list),
                 SCMP_SYS(shutdown),
                 SCMP_SYS(sigaltstack),
                 SCMP_SYS(timerfd_settime),
                 SCMP_SYS(write),
                 SCMP_SYS(writev)});
}

constexpr scmp_arg_cmp is(unsigned argument, scmp_datum_t value) {
    return {.arg = argument, .op = SCMP_CMP_EQ, .datum_a = value, .datum_b = 0};
}

// Calls that can also affect other processes of the same user.
void allow_to_anybody(Rules& rules) {
    rules.allow({SCMP_SYS(fcntl), SCMP_SYS(ioctl), SCMP_SYS(prlimit64),
                 SCMP_SYS(sched_setscheduler), SCMP_SYS(tgkill)});
}

// The same calls, limited to the process itself. vrdmad runs as the same user. Another process
// could end it by a signal, which fcntl() and ioctl() can have the kernel send, too, or could
// change its limits.
void allow_to_itself(Rules& rules) {
    rules.allow_if(SCMP_SYS(tgkill), is(0, static_cast<scmp_datum_t>(::getpid())));
    rules.allow_if(SCMP_SYS(prlimit64), is(0, 0), is(2, 0)); // reads only
    for (const int command : {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL}) {
        rules.allow_if(SCMP_SYS(fcntl), is(1, static_cast<scmp_datum_t>(command)));
    }
    // libc asks whether it writes to a terminal: by TCGETS, and newer ones by TCGETS2.
    constexpr auto requests = std::to_array<unsigned long>(
        {FIONBIO, FIONREAD, SIOCGIFADDR, SIOCGIFFLAGS, SIOCGIFINDEX, SIOCGIFNAME, TCGETS, TCGETS2});
    for (const unsigned long request : requests) {
        rules.allow_if(SCMP_SYS(ioctl), is(1, request));
    }
}

// Memory that was mapped to be written is never executed. `code` allows mappings of code, for
// libraries that are loaded later.
void allow_mapping(Rules& rules, bool code) {
    for (const int call : {SCMP_SYS(mmap), SCMP_SYS(mprotect)}) {
        rules.allow_if(call, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    }
    if (code) {
        rules.allow_if(SCMP_SYS(mmap),
                       SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC | PROT_WRITE, PROT_EXEC));
    }
}

// No other program, and no other process. A filter cannot read the flags of clone3(), but it can
// read those of clone().
void allow_threads(Rules& rules) {
    rules.deny(SCMP_SYS(clone3), ENOSYS);
    rules.allow_if(SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
    rules.allow({SCMP_SYS(set_tid_address), SCMP_SYS(sysinfo)});
}

// Calls for devices' memory and interrupts, and calls that load a filter or give up a capability.
void allow_devices(Rules& rules) {
    rules.allow({SCMP_SYS(capget), SCMP_SYS(capset), SCMP_SYS(fallocate), SCMP_SYS(fstatfs),
                 SCMP_SYS(ftruncate), SCMP_SYS(io_destroy), SCMP_SYS(io_setup),
                 SCMP_SYS(memfd_create), SCMP_SYS(prctl), SCMP_SYS(pwrite64), SCMP_SYS(seccomp)});
    // For clients' files: userfaultfd tells which pages they do not have, inotify when they are
    // deleted.
    rules.allow_if(SCMP_SYS(userfaultfd), is(0, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
    rules.allow({SCMP_SYS(inotify_add_watch), SCMP_SYS(inotify_init1)});
}

void allow_looking(Rules& rules) {
    rules.allow({SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(getcwd),
                 SCMP_SYS(getdents64), SCMP_SYS(getegid), SCMP_SYS(geteuid), SCMP_SYS(getgid),
                 SCMP_SYS(getuid), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(stat),
                 SCMP_SYS(lstat), SCMP_SYS(statfs), SCMP_SYS(statx), SCMP_SYS(uname)});
}

void allow_files(Rules& rules) {
    allow_looking(rules);
    rules.allow({SCMP_SYS(chdir), SCMP_SYS(fchmod), SCMP_SYS(fchownat), SCMP_SYS(flock),
                 SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(rename), SCMP_SYS(umask),
                 SCMP_SYS(unlink), SCMP_SYS(unlinkat)});
}

// Files can be opened to read only. None can be created, either.
void allow_reading_files(Rules& rules) {
    allow_looking(rules);
    constexpr scmp_datum_t writing = O_ACCMODE | O_CREAT | O_TRUNC;
    rules.allow_if(SCMP_SYS(open), SCMP_A1(SCMP_CMP_MASKED_EQ, writing, O_RDONLY));
    rules.allow_if(SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, writing, O_RDONLY));
}

constexpr scmp_arg_cmp family_is(int family) {
    return is(0, static_cast<scmp_datum_t>(family));
}

void allow_sockets(Rules& rules, std::initializer_list<int> families) {
    for (const int family : families) {
        rules.allow_if(SCMP_SYS(socket), family_is(family));
    }
}

// Sockets of the kinds that uplinks, fabrics, directories and clients need.
void allow_network(Rules& rules) {
    allow_sockets(rules, {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_XDP});
    rules.allow_if(SCMP_SYS(socketpair), family_is(AF_UNIX));
    rules.allow({SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(bind), SCMP_SYS(bpf),
                 SCMP_SYS(connect), SCMP_SYS(epoll_create), SCMP_SYS(epoll_create1),
                 SCMP_SYS(getpeername), SCMP_SYS(listen), SCMP_SYS(pipe2), SCMP_SYS(setsockopt),
                 SCMP_SYS(signalfd4), SCMP_SYS(timerfd_create)});
}

// The process talks to no daemon of this host. libc asks for nscd, and works without it. Debian
// 12's libcurl wakes its threads by pairs of sockets, and newer ones by eventfds. A pair of streams
// is connected for good: no other socket can be reached by it, unlike by one of datagrams.
void allow_talking(Rules& rules) {
    allow_sockets(rules, {AF_INET, AF_INET6, AF_NETLINK});
    rules.deny_if(SCMP_SYS(socket), family_is(AF_UNIX), EAFNOSUPPORT);
    constexpr scmp_datum_t type = 0xf; // besides, there are flags
    rules.allow_if(SCMP_SYS(socketpair), family_is(AF_UNIX),
                   SCMP_A1(SCMP_CMP_MASKED_EQ, type, SOCK_STREAM));
    rules.allow({SCMP_SYS(bind), SCMP_SYS(connect), SCMP_SYS(getpeername), SCMP_SYS(setsockopt)});
}

// The calls of each helper: it reads files, and libraries load others later, when they need them.
void allow_helping(Rules& rules) {
    allow_to_itself(rules);
    allow_mapping(rules, true);
    allow_reading_files(rules);
}

// Loads no filter if all calls are allowed, or if a sanitizer makes calls of its own.
template <typename Allow>
Result<> load_filter(Forbidden forbidden, Allow allow) noexcept {
    if (sanitized || forbidden == Forbidden::allowed) {
        return {};
    }
    Rules rules{forbidden};
    allow_common(rules);
    allow(rules);
    return rules.load();
}

} // namespace

const char* word_of(Forbidden forbidden) noexcept {
    return std::ranges::find(forbidden_words, forbidden, &ForbiddenWord::second)->first;
}

std::optional<Forbidden> parse_forbidden(std::string_view word) noexcept {
    const auto* const found = std::ranges::find(forbidden_words, word, &ForbiddenWord::first);
    return found == forbidden_words.end() ? std::nullopt : std::optional{found->second};
}

Result<> allow_calls_of_process(Forbidden forbidden) noexcept {
    return load_filter(forbidden, [](Rules& rules) {
        allow_to_anybody(rules);
        allow_mapping(rules, true);
        allow_threads(rules);
        allow_devices(rules);
        allow_files(rules);
        allow_network(rules);
    });
}

Result<> allow_calls_of_poller(Forbidden forbidden) noexcept {
    return load_filter(forbidden, [](Rules& rules) {
        allow_to_anybody(rules);
        allow_mapping(rules, false);
        // malloc() reads a setting of the kernel before it returns memory, and works without it.
        rules.deny(SCMP_SYS(openat), EPERM);
    });
}

// Libraries that resolve names are loaded when they are needed.
Result<> allow_calls_of_network_client(Forbidden forbidden) noexcept {
    return load_filter(forbidden, [](Rules& rules) {
        allow_helping(rules);
        allow_threads(rules);
        allow_talking(rules);
    });
}

// Libraries that look up users are loaded when they are needed. They may ask a daemon for users.
// Names of interfaces are looked up by a socket of any kind.
Result<> allow_calls_of_config_reader(Forbidden forbidden) noexcept {
    return load_filter(forbidden, [](Rules& rules) {
        allow_helping(rules);
        allow_sockets(rules, {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK});
        rules.allow({SCMP_SYS(connect)});
    });
}

// Libraries load their messages and their settings when they need them.
Result<> allow_calls_of_local_server(Forbidden forbidden) noexcept {
    return load_filter(forbidden, [](Rules& rules) {
        allow_helping(rules);
        rules.allow({SCMP_SYS(accept4), SCMP_SYS(epoll_create1), SCMP_SYS(setsockopt)});
    });
}

// OpenSSL loads the libraries that its configuration names.
Result<> allow_calls_of_file_reader(Forbidden forbidden) noexcept {
    return load_filter(forbidden, [](Rules& rules) {
        allow_helping(rules);
        rules.allow({SCMP_SYS(sysinfo)}); // libc's qsort() asks for the size of memory
    });
}

} // namespace vrdma::jail
