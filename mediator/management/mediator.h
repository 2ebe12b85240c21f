// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// What can be asked of the mediator from outside. The control thread asks.
#pragma once

#include <functional>
#include <string>
#include <system_error>
#include <tl/expected.hpp>
#include <vector>

#include "mediator/base/unique_fd.h"
#include "mediator/management/reports.h"

namespace vrdma::management {

// Selects one thing, or some in the order of their names.
struct Range {
    std::string name;  // of the one, or after which the others come
    bool exact = true; // only the one
    std::size_t most = 1;
};

struct Reloaded {
    std::string error; // for people; if there is one, nothing has changed
    std::vector<std::string> changed;
    std::vector<std::string> restart; // keys and tables that have changed, and take a restart
};

struct Refusal {
    std::errc error;
    std::string reason; // for people
};
template <typename T = void>
using Answered = tl::expected<T, Refusal>;

class Mediator {
  public:
    virtual ~Mediator() = default;

    virtual std::vector<Device> devices(const Range& range) const = 0;
    // Of devices that are in use. A poller is asked for each.
    virtual std::vector<Counters> counters(const Range& range) const = 0;
    virtual std::vector<Uplink> uplinks(const Range& range) const = 0;
    virtual std::vector<Peer> peers(const Range& range) const = 0;
    virtual std::vector<Poller> pollers(const Range& range) const = 0;
    virtual std::vector<Activity> activity(const Range& range) const = 0; // one, of any range

    // The share holds until the configuration is read again, and quotas until vrdmad starts again.
    // If one is refused, nothing has changed: it is more than the type allows, or less than is
    // used.
    virtual Answered<> set_limits(const std::string& name, const Share& share,
                                  const Quotas& quotas) = 0;

    // Holds until vrdmad starts again. Refuses to take away a protocol that is in use.
    virtual Answered<> set_protocols(const std::string& name, std::uint32_t protocols) = 0;

    // A device behind a socket, with the settings of [[vfio_user]], and an uplink with those of
    // [[uplink]]. They stay until they are removed or the host starts again. Those that the
    // configuration has are refused, and without `force` a device in use and an uplink that a
    // device is bound to.
    virtual Answered<std::string> create_device(const Settings& settings) = 0; // its socket's path
    virtual Answered<> destroy_device(const std::string& name, bool force) = 0;
    virtual Answered<std::string> add_uplink(const Settings& settings) = 0; // its name
    virtual Answered<> remove_uplink(const std::string& name) = 0;

    // Records the frames of a device's messages. Returns the file of a sniffer::Ring. It ends with
    // the device, or by a call. Refuses a second one.
    virtual Answered<UniqueFd> start_sniffer(const std::string& name,
                                             std::uint32_t payload_limit) = 0;
    virtual Answered<> stop_sniffer(const std::string& name) = 0;
    virtual void stop_all_sniffers() = 0;

    // Levels as they are called in vrdmad.conf. Returns false if that is none.
    virtual std::string log_level() const = 0;
    virtual bool set_log_level(const std::string& level) = 0;

    // Reads the configuration again, as SIGHUP does, and calls `done` when that is done.
    virtual void reload(std::function<void(Reloaded)> done) = 0;
};

} // namespace vrdma::management
