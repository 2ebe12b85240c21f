// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/control/reloader.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "mediator/control/config/additions.h"

namespace vrdma::control {

using Kind = ReloadMessage::Kind;

Result<std::unique_ptr<Reloader>> Reloader::create(UniqueFd process, Running& running,
                                                   EventLoop& loop,
                                                   std::function<void()> on_changes) {
    std::unique_ptr<Reloader> reloader{
        new Reloader{std::move(process), running, std::move(on_changes)}};
    auto messages = loop.watch(reloader->process_.get(),
                               [all = reloader.get()](std::uint32_t) { all->hear(); });
    if (!messages) {
        return fail(messages.error());
    }
    reloader->messages_ = std::move(*messages);
    return reloader;
}

void Reloader::reload(Done done) {
    if (!process_) {
        asked_.push_back(std::move(done));
        return refuse("the process that reads it again has ended; restart vrdmad to apply changes");
    }
    constexpr std::byte request{1};
    if (asked_.size() == max_asked ||
        ::send(process_.get(), &request, sizeof(request), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        return done(
            {"too many have asked for it to be read again; the requests before will be answered",
             {},
             {}});
    }
    asked_.push_back(std::move(done));
}

void Reloader::hear() {
    std::array<std::byte, sizeof(ReloadMessage)> bytes; // NOLINT(*-member-init): recv() fills it
    for (int i = 0; i < turn && process_; ++i) {
        const ssize_t size =
            ::recv(process_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_TRUNC);
        if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        const bool whole = size == static_cast<ssize_t>(bytes.size());
        const auto message = whole ? read_reload_message(bytes) : std::nullopt;
        if (!message || !hear(*message)) {
            return end();
        }
    }
}

// Returns false if the message is invalid.
bool Reloader::hear(const ReloadMessage& message) {
    switch (message.kind) {
        case Kind::log_level:
            coming_.log_level = static_cast<spdlog::level::level_enum>(message.number);
            return message.number <= static_cast<std::uint32_t>(spdlog::level::off);
        case Kind::type:
        case Kind::device:
            return hear_share(message);
        case Kind::wait:
        case Kind::wrong:
            return hear_text(message);
        case Kind::complete:
            complete();
            return true;
    }
    return false;
}

bool Reloader::hear_share(const ReloadMessage& message) {
    const bool of_type = message.kind == Kind::type;
    const std::size_t all =
        of_type ? running_.config.types.size() : count_of_file(running_.config.vfio_user);
    const auto share = share_of(message);
    if (!share || message.number >= all) {
        return false;
    }
    (of_type ? coming_.types : coming_.devices)[message.number] = *share;
    return true;
}

bool Reloader::hear_text(const ReloadMessage& message) {
    auto text = text_of(message);
    if (!text) {
        return false;
    }
    if (message.kind == Kind::wrong) {
        coming_ = {};
        refuse(*text + "; nothing changes");
    } else if (coming_.wait.size() < max_wait) {
        coming_.wait.push_back(std::move(*text));
    }
    return true;
}

void Reloader::complete() {
    management::Reloaded outcome;
    const Changes changes = std::exchange(coming_, {});
    outcome.changed = apply(changes, running_);
    outcome.restart = changes.wait;
    on_changes_();
    tell(outcome);
}

void Reloader::refuse(const std::string& why) {
    spdlog::error("{}: {}", running_.path, why);
    tell({fmt::format("{}: {}", running_.path, why), {}, {}});
}

// The oldest request is answered. A process that says more than it was asked for tells nobody.
void Reloader::tell(const management::Reloaded& outcome) {
    if (!asked_.empty()) {
        const Done done = std::move(asked_.front());
        asked_.pop_front();
        done(outcome);
    }
}

void Reloader::end() {
    messages_ = {};
    process_ = {};
    const std::string why =
        "the process that reads it again has ended or sent an invalid message; restart vrdmad to "
        "apply changes";
    spdlog::error("{}: {}", running_.path, why);
    while (!asked_.empty()) {
        tell({fmt::format("{}: {}", running_.path, why), {}, {}});
    }
}

} // namespace vrdma::control
