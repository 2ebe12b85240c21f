// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/frontend/gathering.h"

namespace vrdma {

void Gathering::begin() {
    timer_ = loop_.after(times_.shortest, [this] {
        long_enough_ = true;
        timer_ = loop_.after(times_.longest - times_.shortest, [this] { end(); });
        if (awaited_ == 0) {
            end();
        }
    });
}

Gathering::Awaited Gathering::await() {
    if (over_) {
        return {};
    }
    ++awaited_;
    return Awaited{this};
}

void Gathering::come() {
    if (--awaited_ == 0 && long_enough_) {
        end_soon();
    }
}

// A client's command has its answer before its device runs. So a client that has no answer knows
// that the state that it has brought is still the device's newest one.
void Gathering::end_soon() {
    timer_ = loop_.after(std::chrono::milliseconds{0}, [this] { end(); });
}

Gathering::Held Gathering::hold(std::function<void()> action) {
    if (over_) {
        end_soon();
    }
    held_.emplace(next_, std::move(action));
    return Held{this, next_++};
}

// An action may end what is held, or hold nothing more, because the gathering is over.
void Gathering::end() {
    over_ = true;
    timer_ = {};
    while (!held_.empty()) {
        const auto first = held_.extract(held_.begin());
        first.mapped()();
    }
    if (const auto last = std::exchange(last_, {})) {
        last();
    }
}

void Gathering::Held::happen() {
    if (gathering_ == nullptr) {
        return;
    }
    const auto own = std::exchange(gathering_, nullptr)->held_.extract(number_);
    if (!own.empty()) {
        own.mapped()();
    }
}

} // namespace vrdma
