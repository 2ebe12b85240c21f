// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A mediator with as many devices as a test wants, and a control thread on which it is asked.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "mediator/base/event_fd.h"
#include "mediator/base/event_loop.h"
#include "mediator/helper/socket.h"
#include "mediator/management/select.h"
#include "mediator/management/service.h"
#include "mediator/sniffer/ring.h"

namespace vrdma::management {

class FakeMediator final : public Mediator {
  public:
    explicit FakeMediator(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            Device device{};
            const std::string name = fmt::format("disk-{:04}/0", i);
            helper::write(device.name, name);
            helper::write(device.type, "small");
            device.share = {100, 0, 0};
            helper::write(device.uplink, i == 1 ? "blue" : "");
            device.protocols = i == 1 ? roce_v1 | roce_v2 : 0;
            device.usages[static_cast<std::size_t>(Resource::qp)] = {i, 256};
            devices_.push_back({name, device});
        }
    }

    std::vector<Device> devices(const Range& range) const override {
        std::vector<Device> devices;
        for (const Named& named : select(devices_, range, &Named::name)) {
            devices.push_back(named.device);
        }
        return devices;
    }
    std::vector<Counters> counters(const Range& range) const override {
        std::vector<Counters> counted;
        auto used = devices_;
        std::erase_if(used, [](const Named& named) {
            return named.device.usages[static_cast<std::size_t>(Resource::qp)].used == 0;
        });
        for (const Named& named : select(std::move(used), range, &Named::name)) {
            counted.push_back({named.device.name, {7}});
        }
        return counted;
    }
    std::vector<Uplink> uplinks(const Range& /*range*/) const override { return uplinks_of; }
    std::vector<Peer> peers(const Range& /*range*/) const override { return {}; }
    std::vector<Poller> pollers(const Range& /*range*/) const override {
        Poller poller{};
        helper::write(poller.name, "0");
        poller.busy_ns = 1'500'000'000;
        return {poller};
    }
    std::vector<Activity> activity(const Range& /*range*/) const override { return {activity_of}; }
    Answered<> set_limits(const std::string& name, const Share& share,
                          const Quotas& quotas) override {
        for (Named& named : devices_) {
            if (named.name == name) {
                named.device.share = share;
                for (std::size_t i = 0; i < resources; ++i) {
                    std::uint64_t& max = named.device.usages[i].max;
                    max = quotas[i] != quota_stays ? quotas[i] : max;
                }
                return {};
            }
        }
        return tl::unexpected{Refusal{std::errc::no_such_file_or_directory, "no such device"}};
    }
    Answered<> set_protocols(const std::string& name, std::uint32_t protocols) override {
        for (Named& named : devices_) {
            if (named.name == name && named.device.protocols != 0) {
                named.device.protocols = protocols;
                return {};
            }
        }
        return tl::unexpected{refused};
    }
    // Knows no values, and refuses a device without a name.
    Answered<std::string> create_device(const Settings& settings) override {
        created = settings;
        const auto name = std::ranges::find(settings, "name", [](const Setting& setting) {
            return helper::read(setting.key).value_or("");
        });
        if (name == settings.end()) {
            return tl::unexpected{Refusal{std::errc::file_exists, "there is such a device"}};
        }
        return "/run/" + helper::read(name->text).value_or("") + ".sock";
    }
    Answered<> destroy_device(const std::string& name, bool force) override {
        const bool known = std::erase_if(devices_, [&](const Named& named) {
                               return force && named.name == name;
                           }) > 0;
        return known ? Answered<>{} : tl::unexpected{refused};
    }
    Answered<std::string> add_uplink(const Settings& settings) override {
        created = settings;
        return "lan";
    }
    Answered<> remove_uplink(const std::string& name) override {
        return name == "lan" ? Answered<>{} : tl::unexpected{refused};
    }
    // The first device's sniffer.
    Answered<UniqueFd> start_sniffer(const std::string& name,
                                     std::uint32_t payload_limit) override {
        if (name != devices_.front().name) {
            return tl::unexpected{Refusal{std::errc::no_such_file_or_directory, "no such device"}};
        }
        const std::lock_guard hold{sniffing_};
        if (sniffer_) {
            return tl::unexpected{Refusal{std::errc::device_or_resource_busy, "it has one"}};
        }
        auto created = sniffer::Ring::create(payload_limit);
        sniffer_.emplace(std::move(created->ring));
        return std::move(created->file);
    }
    Answered<> stop_sniffer(const std::string& name) override {
        const std::lock_guard hold{sniffing_};
        if (name != devices_.front().name || !sniffer_) {
            return tl::unexpected{Refusal{std::errc::no_such_file_or_directory, "it has none"}};
        }
        sniffer_.reset();
        return {};
    }
    void stop_all_sniffers() override {
        const std::lock_guard hold{sniffing_};
        sniffer_.reset();
    }
    // On any thread. A sniffer must run.
    void record(std::span<const std::byte> frame) {
        const std::lock_guard hold{sniffing_};
        ASSERT_TRUE(sniffer_);
        sniffer_->record(frame, sniffer::Direction::sent);
    }
    std::string log_level() const override { return level_; }
    bool set_log_level(const std::string& level) override {
        level_ = level == "debug" ? level : level_;
        return level == "debug";
    }
    void reload(std::function<void(Reloaded)> done) override {
        if (delays) {
            delayed = std::move(done);
        } else {
            done(reloaded);
        }
    }

    bool delays = false; // reloads, until the test calls `delayed`
    std::function<void(Reloaded)> delayed;
    Refusal refused{std::errc::device_or_resource_busy, "a QP uses RoCE v1"};
    Settings created; // what was asked for last
    Activity activity_of{};
    std::vector<Uplink> uplinks_of;
    Reloaded reloaded{"", {"types.small: weight 3"}, {"name"}};

  private:
    struct Named {
        std::string name;
        Device device;
    };

    std::vector<Named> devices_;
    std::mutex sniffing_;
    std::optional<sniffer::Ring> sniffer_;
    std::string level_ = "info";
};

// Runs a service of the mediator in a thread.
class ControlThread {
  public:
    ControlThread(UniqueFd process, const Service::Listening& listening, const Task& task,
                  Mediator& mediator)
        : thread_{[this, process = std::move(process), listening, task, &mediator]() mutable {
              EventLoop loop;
              const auto ends = loop.watch(end_.fd(), [&](std::uint32_t) { loop.stop(); });
              const auto service =
                  Service::open(std::move(process), listening, task, mediator, loop);
              EXPECT_TRUE(ends && service && loop.run());
          }} {}
    ControlThread(const ControlThread&) = delete;
    ControlThread& operator=(const ControlThread&) = delete;
    ~ControlThread() {
        end_.signal();
        thread_.join();
    }

  private:
    EventFd end_ = EventFd::create().value();
    std::thread thread_;
};

} // namespace vrdma::management
