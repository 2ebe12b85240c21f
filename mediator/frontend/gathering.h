// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// The first moments of a vrdmad, in which the devices that the one before has left come back. They
// run again together, because a device would look in vain for a peer that is not back yet.
//
// A gathering lasts until each client that has connected meanwhile has brought its device back, or
// wants to use a new one. It has a shortest time, for clients that are about to connect, and a
// longest time, so that no client can delay the others much.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "mediator/base/event_loop.h"

namespace vrdma {

class Gathering {
  public:
    struct Times {
        std::chrono::milliseconds shortest{10};
        std::chrono::milliseconds longest{500};
    };

    // While one exists, the gathering waits for it.
    class Awaited {
      public:
        Awaited() = default;
        Awaited(Awaited&& other) noexcept : gathering_{std::exchange(other.gathering_, nullptr)} {}
        Awaited& operator=(Awaited&& other) noexcept {
            std::swap(gathering_, other.gathering_);
            return *this;
        }
        Awaited(const Awaited&) = delete;
        Awaited& operator=(const Awaited&) = delete;
        ~Awaited() {
            if (gathering_ != nullptr) {
                gathering_->come();
            }
        }

      private:
        friend class Gathering;
        explicit Awaited(Gathering* gathering) : gathering_{gathering} {}

        Gathering* gathering_ = nullptr;
    };

    // Something that happens when the gathering is over, unless this ends before.
    class Held {
      public:
        Held() = default;
        Held(Held&& other) noexcept { *this = std::move(other); }
        Held& operator=(Held&& other) noexcept {
            std::swap(gathering_, other.gathering_);
            std::swap(number_, other.number_);
            return *this;
        }
        Held(const Held&) = delete;
        Held& operator=(const Held&) = delete;
        ~Held() {
            if (gathering_ != nullptr) {
                gathering_->held_.erase(number_);
            }
        }

        // Lets it happen at once, if it has not happened yet.
        void happen();

      private:
        friend class Gathering;
        Held(Gathering* gathering, std::uint64_t number) : gathering_{gathering}, number_{number} {}

        Gathering* gathering_ = nullptr;
        std::uint64_t number_ = 0;
    };

    // The loop must outlive the gathering, which must outlive all that it has returned.
    // `last` happens once, after all that was held.
    explicit Gathering(EventLoop& loop, std::function<void()> last = {})
        : Gathering{loop, Times{}, std::move(last)} {}
    Gathering(EventLoop& loop, const Times& times, std::function<void()> last = {})
        : loop_{loop}, times_{times}, last_{std::move(last)} {}
    Gathering(const Gathering&) = delete;
    Gathering& operator=(const Gathering&) = delete;
    ~Gathering() = default;

    // It is under way from its creation on. Its times begin now.
    void begin();
    void end();
    bool over() const noexcept { return over_; }

    Awaited await();
    // Calls `action` in the loop's next turn if the gathering is over.
    Held hold(std::function<void()> action);

  private:
    void come();
    void end_soon();

    EventLoop& loop_;
    const Times times_;
    std::function<void()> last_;
    bool over_ = false;
    bool long_enough_ = false;
    unsigned awaited_ = 0;
    std::uint64_t next_ = 0;
    std::map<std::uint64_t, std::function<void()>> held_;
    EventLoop::Timer timer_;
};

} // namespace vrdma
