/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Test cases against the running kernel. Each runs in a separate process, so that a crash or a hang
 * is one failed case. A case also fails if the kernel logs a warning during it.
 */
#ifndef VRDMA_VFIO_MDEV_TESTS_HARNESS_H
#define VRDMA_VFIO_MDEV_TESTS_HARNESS_H

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

namespace harness {

struct Case {
    const char* name;
    void (*run)();
};

struct Registration {
    Registration(const char* name, void (*run)());
};

/*
 * Runs the cases whose names contain filter, and cleanup after each. Returns the number of
 * failures.
 */
int run(const std::string& filter, const std::function<void()>& cleanup);

[[noreturn]] void fail(const char* file, int line, const std::string& what);

/* Ends the case if this kernel lacks what it is about. Then it has neither passed nor failed. */
void need(bool has, const char* what);

inline std::string describe(const std::string& value) {
    return '"' + value + '"';
}
inline std::string describe(const char* value) {
    return describe(std::string(value));
}
template <typename T>
std::string describe(T value) {
    return std::to_string(value);
}

template <typename A, typename B>
bool equal(const A& a, const B& b) {
    if constexpr (std::is_integral_v<A> && std::is_integral_v<B>)
        return std::cmp_equal(+a, +b); /* compares across signedness; + makes an int of a char */
    else
        return a == b;
}

template <typename A, typename B>
void check_equal(const char* file, int line, const char* text, const A& actual, const B& expected) {
    if (!equal(actual, expected))
        fail(file, line,
             std::string(text) + ": " + describe(actual) + ", not " + describe(expected));
}

class Fd {
  public:
    Fd() = default;
    explicit Fd(int fd) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Fd() { close(); }
    int get() const { return fd_; }
    void close() {
        if (fd_ >= 0)
            ::close(std::exchange(fd_, -1));
    }

  private:
    int fd_ = -1;
};

Fd new_eventfd();
/* The number of signals since the last call; does not wait. */
unsigned long long signals(const Fd& eventfd);
/* Waits until poll() reports one of events; returns what it reported. */
short await(int fd, short events);
/* Polls until the condition holds. */
void await(const std::function<bool()>& condition, const char* what);

std::string read_file(const std::string& path);
/* Returns 0 or the errno. */
int write_file(const std::string& path, const std::string& text);

} // namespace harness

#define TEST(name)                                                       \
    static void name();                                                  \
    static const harness::Registration name##_registration(#name, name); \
    static void name()

#define CHECK(condition) ((condition) ? void() : harness::fail(__FILE__, __LINE__, #condition))

#define CHECK_EQ(actual, expected) \
    harness::check_equal(__FILE__, __LINE__, #actual, (actual), (expected))

/* Checks that the system call fails with this errno; 0: that it succeeds. */
#define CHECK_ERRNO(call, error) \
    harness::check_equal(__FILE__, __LINE__, #call, (call) < 0 ? errno : 0, (error))

#endif /* VRDMA_VFIO_MDEV_TESTS_HARNESS_H */
