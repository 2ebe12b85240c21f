// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// Runs commands in a lab VM for the clients that connect, in place of an ssh server.
//
// An emulated CPU spends most of a second on ssh's key exchange, and seconds on starting an
// interpreter. Here a command costs one connection and one process. All data of a connection is in
// frames: a kind (1 byte), a length (4 bytes, big endian), a payload.
//
// A client sends REQUEST, whose payload is a list of NUL-terminated strings:
//
//   TOKEN "exec" ARGV...               run a command on pipes
//   TOKEN "tty" ROWS COLS TERM ARGV... run a command on a terminal
//   TOKEN "vsock" CID PORT SECONDS     relay to a guest's agent, with retries for some seconds
//   TOKEN "unix" PATH                  relay to a monitor of QEMU
//
// The answer is ACCEPTED, or REFUSED with a status byte and a text. After that a relay passes all
// bytes on to the other end, and a command's data is in frames. If the client closes the
// connection, its command is killed.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/vm_sockets.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum kind {
    REQUEST = 'R',
    STDIN = 'I',  // an empty payload is end of file
    WINDOW = 'W', // rows and columns, 16 bits each
    ACCEPTED = 'K',
    REFUSED = 'F',
    STDOUT = 'O',
    STDERR = 'E',
    EXIT = 'X', // the status as a shell reports it, 1 byte
    ALIVE = 'A',
};

enum {
    HEADER = 5,
    CHUNK = 1 << 16,
    MAX_REQUEST = 1 << 20,
    MAX_STRINGS = 4096,
    ALIVE_EVERY_MS = 2000,
    MAX_DRAIN_ROUNDS = 64,
    GRACE_MS = 2000, // between SIGTERM and SIGKILL
    NOT_EXECUTABLE = 126,
    NOT_FOUND = 127,
    SIGNALLED = 128,
};

extern char** environ;

#ifndef TOKEN_FILE // a test defines its own
#define TOKEN_FILE "/usr/lib/vrdma-lab/token"
#endif

// A command and the connection that it belongs to. Each command has its own process of the agent.
struct command {
    int client;
    int process; // pidfd
    pid_t pid;
    bool on_tty;
    int in; // -1 once closed
    int out;
    int err;      // -1 on a terminal
    size_t begin; // received and not yet processed: data[begin, end)
    size_t end;
    size_t stdin_left;  // bytes that are missing of the STDIN frame being forwarded
    bool stdin_blocked; // the command's stdin is full
    char data[2 * CHUNK];
};

// --- frames ---

static bool write_all(int fd, const char* data, size_t size) {
    while (size > 0) {
        ssize_t done = write(fd, data, size);
        if (done < 0 && errno != EINTR)
            return false;
        if (done > 0) {
            data += done;
            size -= (size_t)done;
        }
    }
    return true;
}

static bool read_all(int fd, char* data, size_t size) {
    while (size > 0) {
        ssize_t done = read(fd, data, size);
        if (done == 0 || (done < 0 && errno != EINTR))
            return false;
        if (done > 0) {
            data += done;
            size -= (size_t)done;
        }
    }
    return true;
}

static void put_header(char* at, enum kind kind, size_t length) {
    uint32_t big_endian = htonl((uint32_t)length);
    at[0] = (char)kind;
    memcpy(at + 1, &big_endian, sizeof(big_endian));
}

static size_t header_length(const char* at) {
    uint32_t big_endian;
    memcpy(&big_endian, at + 1, sizeof(big_endian));
    return ntohl(big_endian);
}

static bool send_frame(int client, enum kind kind, const char* payload, size_t length) {
    char frame[HEADER + CHUNK];
    put_header(frame, kind, length);
    memcpy(frame + HEADER, payload, length);
    return write_all(client, frame, HEADER + length);
}

static void refuse(int client, int status, const char* what, int error) {
    char text[512];
    text[0] = (char)status;
    int length = snprintf(text + 1, sizeof(text) - 1, "%s: %s", what, strerror(error));
    if (length > (int)sizeof(text) - 2)
        length = (int)sizeof(text) - 2;
    send_frame(client, REFUSED, text, 1 + (size_t)length);
}

// Ends the stream in order. Closing it with unread input would reset it and lose outstanding data.
static void finish(int client) {
    char ignored[512];
    struct pollfd event = {.fd = client, .events = POLLIN};
    shutdown(client, SHUT_WR);
    while (poll(&event, 1, GRACE_MS) > 0 && read(client, ignored, sizeof(ignored)) > 0) {
    }
}

// --- relays ---

static void copy_one_way(int from, int to) {
    static char data[CHUNK];
    ssize_t size;
    while ((size = read(from, data, sizeof(data))) > 0) {
        if (!write_all(to, data, (size_t)size))
            break;
    }
    if (size == 0) {
        shutdown(to, SHUT_WR);
    } else { // one side is broken: shut down the other, too
        shutdown(to, SHUT_RDWR);
        shutdown(from, SHUT_RDWR);
    }
}

// Uses a process for each direction, so that neither can delay the other.
static void relay(int client, int other) {
    if (!send_frame(client, ACCEPTED, "", 0))
        return;
    (void)signal(SIGCHLD, SIG_DFL);
    pid_t child = fork();
    if (child < 0)
        return;
    if (child == 0) {
        copy_one_way(client, other);
        _exit(0);
    }
    copy_one_way(other, client);
    waitpid(child, NULL, 0);
}

static int connect_to(const struct sockaddr* address, socklen_t size) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, address, size) < 0) {
        int error = errno;
        close(fd);
        errno = error;
        fd = -1;
    }
    return fd;
}

// A guest that boots refuses connections until its agent runs. The retries here spare the client
// polling.
static void relay_vsock(int client, char** arguments) {
    struct sockaddr_vm address = {.svm_family = AF_VSOCK,
                                  .svm_cid = (unsigned int)strtoul(arguments[0], NULL, 10),
                                  .svm_port = (unsigned int)strtoul(arguments[1], NULL, 10)};
    time_t deadline = time(NULL) + strtol(arguments[2], NULL, 10);
    const struct timespec pause = {.tv_nsec = 100000000L};
    int other;
    while ((other = connect_to((struct sockaddr*)&address, sizeof(address))) < 0) {
        if (time(NULL) >= deadline)
            return refuse(client, NOT_EXECUTABLE, "cannot reach the guest", errno);
        nanosleep(&pause, NULL);
    }
    relay(client, other);
}

static void relay_unix(int client, char** arguments) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, arguments[0], sizeof(address.sun_path) - 1);
    int other = connect_to((struct sockaddr*)&address, sizeof(address));
    if (other < 0)
        return refuse(client, NOT_EXECUTABLE, arguments[0], errno);
    relay(client, other);
}

// --- commands ---

// Spawns the command with its descriptors in place. Returns 0 or an error number.
static int spawn(pid_t* pid, char** argv, const posix_spawn_file_actions_t* files) {
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGCHLD);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF);
    return posix_spawnp(pid, argv[0], files, &attributes, argv, environ);
}

static int start_on_pipes(struct command* command, char** argv) {
    int in[2];
    int out[2];
    int err[2];
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
        return errno;
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, err[1], STDERR_FILENO);
    int error = spawn(&command->pid, argv, &files);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    command->in = in[1];
    command->out = out[0];
    command->err = err[0];
    fcntl(command->in, F_SETFL, O_NONBLOCK);
    return error;
}

static int start_on_tty(struct command* command, char** arguments) {
    struct winsize size = {.ws_row = (unsigned short)strtoul(arguments[0], NULL, 10),
                           .ws_col = (unsigned short)strtoul(arguments[1], NULL, 10)};
    char path[64];
    int terminal;
    if (openpty(&command->in, &terminal, path, NULL, &size) < 0)
        return errno;
    fcntl(command->in, F_SETFD, FD_CLOEXEC);
    fcntl(command->in, F_SETFL, O_NONBLOCK);
    setenv("TERM", arguments[2], 1);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    // When the leader of a new session opens it, it becomes the session's controlling terminal.
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, path, O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&files, STDIN_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, STDIN_FILENO, STDERR_FILENO);
    posix_spawn_file_actions_addclose(&files, terminal);
    int error = spawn(&command->pid, arguments + 3, &files);
    close(terminal);
    command->on_tty = true;
    command->out = dup(command->in);
    command->err = -1;
    return error;
}

// Writes as much of the current STDIN frame to the command's stdin as fits.
static void feed(struct command* command) {
    size_t size = command->end - command->begin;
    if (size > command->stdin_left)
        size = command->stdin_left;
    ssize_t done = (ssize_t)size;
    if (command->in >= 0)
        done = write(command->in, command->data + command->begin, size);
    command->stdin_blocked = done < 0 && errno == EAGAIN;
    if (command->stdin_blocked)
        return;
    if (done < 0) { // the command has closed its stdin: drop further input
        close(command->in);
        command->in = -1;
        done = (ssize_t)size;
    }
    command->begin += (size_t)done;
    command->stdin_left -= (size_t)done;
}

static void end_stdin(struct command* command) {
    if (command->on_tty || command->in < 0)
        return;
    close(command->in);
    command->in = -1;
}

static void resize(struct command* command) {
    uint16_t size[2];
    memcpy(size, command->data + command->begin + HEADER, sizeof(size));
    struct winsize window = {.ws_row = ntohs(size[0]), .ws_col = ntohs(size[1])};
    if (command->on_tty)
        ioctl(command->in, TIOCSWINSZ, &window);
}

// Processes the complete frames, and the available part of a STDIN frame. Returns false for an
// invalid frame.
static bool take_frames(struct command* command) {
    const size_t window = HEADER + 2 * sizeof(uint16_t);
    while (true) {
        size_t size = command->end - command->begin;
        const char* header = command->data + command->begin;
        if (command->stdin_left > 0) {
            if (size == 0)
                return true;
            feed(command);
            if (command->stdin_blocked)
                return true;
        } else if (size < HEADER) {
            return true;
        } else if (header[0] == STDIN) {
            command->stdin_left = header_length(header);
            if (command->stdin_left == 0)
                end_stdin(command);
            command->begin += HEADER;
        } else if (header[0] == WINDOW && header_length(header) == window - HEADER) {
            if (size < window)
                return true;
            resize(command);
            command->begin += window;
        } else {
            return false;
        }
    }
}

// Receives from the client. Returns false if the client is gone.
static bool receive(struct command* command) {
    memmove(command->data, command->data + command->begin, command->end - command->begin);
    command->end -= command->begin;
    command->begin = 0;
    ssize_t size =
        read(command->client, command->data + command->end, sizeof(command->data) - command->end);
    if (size <= 0)
        return false;
    command->end += (size_t)size;
    return command->stdin_blocked || take_frames(command);
}

// Sends the data that is in a pipe now. Returns false if the client is gone. At the pipe's end,
// sets *from to -1.
static bool forward(struct command* command, int* from, enum kind kind) {
    char frame[HEADER + CHUNK];
    ssize_t size = read(*from, frame + HEADER, CHUNK);
    if (size <= 0) { // a terminal ends with EIO
        close(*from);
        *from = -1;
        return true;
    }
    put_header(frame, kind, (size_t)size);
    return write_all(command->client, frame, HEADER + (size_t)size);
}

// Sends the data that is left in the pipes after the command's end. A daemon that the command has
// left behind may hold them open or continue to write: this does not wait for it.
static bool drain(struct command* command) {
    for (int round = 0; round < MAX_DRAIN_ROUNDS; round++) {
        struct pollfd events[] = {{.fd = command->out, .events = POLLIN},
                                  {.fd = command->err, .events = POLLIN}};
        if (poll(events, 2, 0) <= 0)
            break;
        if (events[0].revents && !forward(command, &command->out, STDOUT))
            return false;
        if (events[1].revents && !forward(command, &command->err, STDERR))
            return false;
    }
    return true;
}

// Transfers data until the command has ended and its output is sent. Returns false if the client is
// gone.
static bool serve(struct command* command) {
    while (true) {
        const bool room = command->end - command->begin < sizeof(command->data);
        struct pollfd events[] = {
            {.fd = command->client, .events = (short)(POLLRDHUP | (room ? POLLIN : 0))},
            {.fd = command->out, .events = POLLIN},
            {.fd = command->err, .events = POLLIN},
            {.fd = command->stdin_blocked ? command->in : -1, .events = POLLOUT},
            {.fd = command->process, .events = POLLIN},
        };
        int ready = poll(events, sizeof(events) / sizeof(events[0]), ALIVE_EVERY_MS);
        if (ready < 0 || (ready == 0 && !send_frame(command->client, ALIVE, "", 0)))
            return false;
        if (events[4].revents)
            return drain(command);
        if (events[0].revents && (!(events[0].revents & POLLIN) || !receive(command)))
            return false;
        if (events[1].revents && !forward(command, &command->out, STDOUT))
            return false;
        if (events[2].revents && !forward(command, &command->err, STDERR))
            return false;
        if (events[3].revents && !take_frames(command))
            return false;
    }
}

// The client is gone, so its command must end.
static void end_command(const struct command* command) {
    struct pollfd event = {.fd = command->process, .events = POLLIN};
    kill(-command->pid, SIGTERM);
    poll(&event, 1, GRACE_MS);
    kill(-command->pid, SIGKILL);
}

static void run(int client, bool on_tty, char** arguments) {
    static struct command command;
    command.client = client;
    (void)signal(SIGCHLD, SIG_DFL);
    int error = on_tty ? start_on_tty(&command, arguments) : start_on_pipes(&command, arguments);
    if (error)
        return refuse(client, error == ENOENT ? NOT_FOUND : NOT_EXECUTABLE,
                      arguments[on_tty ? 3 : 0], error);
    command.process = (int)syscall(SYS_pidfd_open, command.pid, 0);
    if (!send_frame(client, ACCEPTED, "", 0) || !serve(&command))
        return end_command(&command);
    int status;
    waitpid(command.pid, &status, 0);
    char code = (char)(WIFSIGNALED(status) ? SIGNALLED + WTERMSIG(status) : WEXITSTATUS(status));
    send_frame(client, EXIT, &code, 1);
    finish(client);
}

// --- requests ---

// Splits the payload into its strings. Returns false if there are too many.
static bool split(char* payload, size_t length, char** strings, size_t* count) {
    *count = 0;
    for (size_t at = 0; at < length; at += strlen(payload + at) + 1) {
        if (*count == MAX_STRINGS)
            return false;
        strings[(*count)++] = payload + at;
    }
    strings[*count] = NULL;
    return true;
}

// Serves one connection, from its request to its end. It never reads past the request, because the
// next reader needs the rest.
static void answer(int client, const char* token) {
    static char payload[MAX_REQUEST + 1];
    static char* strings[MAX_STRINGS + 1];
    char header[HEADER];
    size_t count;
    if (!read_all(client, header, HEADER) || header[0] != REQUEST)
        return;
    const size_t length = header_length(header);
    if (length > MAX_REQUEST || !read_all(client, payload, length) ||
        !split(payload, length, strings, &count) || count < 3)
        return refuse(client, NOT_EXECUTABLE, "request", EBADMSG);
    if (strcmp(strings[0], token) != 0)
        return refuse(client, NOT_EXECUTABLE, "this VM belongs to another lab", EACCES);
    char** arguments = strings + 2;
    count -= 2;
    if (strcmp(strings[1], "exec") == 0)
        run(client, false, arguments);
    else if (strcmp(strings[1], "tty") == 0 && count > 3)
        run(client, true, arguments);
    else if (strcmp(strings[1], "vsock") == 0 && count == 3)
        relay_vsock(client, arguments);
    else if (strcmp(strings[1], "unix") == 0)
        relay_unix(client, arguments);
    else
        refuse(client, NOT_EXECUTABLE, strings[1], ENOSYS);
}

static int listen_on(int argc, char** argv) {
    struct sockaddr_vm vsock = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY};
    struct sockaddr_in inet = {.sin_family = AF_INET};
    struct sockaddr* address = (struct sockaddr*)&vsock;
    socklen_t size = sizeof(vsock);
    if (argc == 3 && strcmp(argv[1], "vsock") == 0) {
        vsock.svm_port = (unsigned int)strtoul(argv[2], NULL, 10);
    } else if (argc == 4 && strcmp(argv[1], "tcp") == 0 &&
               inet_pton(AF_INET, argv[2], &inet.sin_addr) == 1) {
        inet.sin_port = htons((uint16_t)strtoul(argv[3], NULL, 10));
        address = (struct sockaddr*)&inet;
        size = sizeof(inet);
    } else {
        (void)fputs("usage: agent vsock PORT | agent tcp ADDRESS PORT\n", stderr);
        return -1;
    }
    const int on = 1;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        bind(fd, address, size) < 0 || listen(fd, SOMAXCONN) < 0) {
        perror("agent");
        return -1;
    }
    return fd;
}

static bool read_token(char* token, int size) {
    FILE* file = fopen(TOKEN_FILE, "re");
    bool ok = file && fgets(token, size, file);
    if (file)
        (void)fclose(file);
    return ok;
}

int main(int argc, char** argv) {
    char token[128];
    int listener = listen_on(argc, argv);
    if (listener < 0 || !read_token(token, sizeof(token)))
        return EXIT_FAILURE;
    setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
    setenv("HOME", "/root", 1);
    setenv("USER", "root", 1);
    setenv("LANG", "C.UTF-8", 1);
    if (chdir("/root") < 0)
        return EXIT_FAILURE;
    (void)signal(SIGCHLD, SIG_IGN); // the kernel reaps the children that serve connections
    (void)signal(SIGPIPE, SIG_IGN);
    while (true) {
        int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0)
            continue;
        if (fork() == 0) {
            close(listener);
            answer(client, token);
            _exit(0);
        }
        close(client);
    }
}
