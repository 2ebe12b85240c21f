// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/new_device.h"

#include <fmt/format.h>
#include <grp.h>

#include <charconv>
#include <cstdint>

#include "ctl/misuse.h"
#include "ctl/resources.h"
#include "ctl/table.h"

namespace vrdma::ctl {
namespace {

constexpr char path_option[] = "--path";
constexpr char personality_option[] = "--personality";

// The option sets a key of the body. Without the option, vrdmad has a default for it.
template <typename Value>
CLI::Option* add_key(CLI::App* command, nlohmann::json& body, const std::string& option,
                     const std::string& key, const char* about) {
    return command->add_option_function<Value>(
        option, [&body, key](const Value& value) { body[key] = value; }, about);
}

CLI::Option* add_list(CLI::App* command, nlohmann::json& body, const std::string& option,
                      const char* key, const char* about) {
    return add_key<std::vector<std::string>>(command, body, option, key, about)->delimiter(',');
}

// vrdmad cannot look for groups any more.
gid_t group_of(const std::string& text) {
    gid_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc{} && last == end) {
        return number;
    }
    const auto* const found = ::getgrnam(text.c_str());
    if (found == nullptr) {
        throw CLI::ValidationError{"--group", fmt::format("there is no group '{}'", text)};
    }
    return found->gr_gid;
}

CLI::Option* add_cdi_directory(CLI::App* command, CdiOptions& cdi) {
    return command
        ->add_option("--cdi-directory", cdi.directory, "Directory of the CDI specification")
        ->capture_default_str();
}

std::string path_of(const std::string& device) {
    return "/v1/devices/" + encode(device);
}

} // namespace

void NewDevice::add_options(CLI::App* command) {
    command->add_option("TYPE", mdev_.type, "A type of vrdmad.conf(5)")->required();
    CLI::Option* const uuid = command->add_option(
        "--uuid", mdev_.uuid, "Name of a mediated device; without it a random UUID");
    CLI::Option* const parent =
        command->add_option("--parent", mdev_.parent, "The name of the vrdmad of a mediated device")
            ->capture_default_str();
    CLI::Option* const name =
        add_key<std::string>(command, body_, "--name", "name",
                             "Name of a device behind a socket; the others belong to such a device")
            ->excludes(uuid)
            ->excludes(parent);
    for (CLI::Option* const option : add_socket_options(command)) {
        option->needs(name);
    }
    for (CLI::Option* const option : add_cdi_options(command)) {
        option->needs(name);
    }
}

std::vector<CLI::Option*> NewDevice::add_socket_options(CLI::App* command) {
    using Number = std::uint64_t;
    const auto text = [&](const char* option, const char* key, const char* about) {
        return add_key<std::string>(command, body_, option, key, about);
    };
    const auto number = [&](const char* option, const char* key, const char* about) {
        return add_key<Number>(command, body_, option, key, about);
    };
    CLI::Option* const group = command->add_option_function<std::string>(
        "--group", [this](const std::string& name) { body_["group"] = group_of(name); },
        "Group of the socket");
    CLI::Option* const protocol =
        text("--protocol", "protocol", "roce-v1, roce-v2 or both, which is the default")
            ->check(is_protocol());
    std::vector<CLI::Option*> options{
        text(path_option, "socket", "Path of the socket, by default /run/vrdma/NAME.sock"),
        group,
        text("--mode", "mode", "Permissions of the socket, by default 0600"),
        text("--mac", "mac", "MAC address"),
        text("--addresses", "addresses", "IP addresses or prefixes that it may use"),
        text("--uplink", "uplink", "Its uplink or fabric, by default the type's; '' for none"),
        add_list(command, body_, "--vlans", "vlans", "VLANs of its uplink, as in 7,100-199"),
        add_list(command, body_, "--pkeys", "pkeys", "Its P_Keys, as in 0xffff,0x8001"),
        text(personality_option, "personality", "The driver that it is made for, by default vrdma")
            ->check(CLI::IsMember({"vrdma", "pvrdma"})),
        number("--clients", "clients", "Number of clients at a time, by default 1"),
        number("--window-gib", "window_gib", "Size of each client's IOVA space"),
        number("--weight", "weight", "Its part of the poller's time, compared with others'"),
        number("--bytes-per-second", "max_bytes_per_second", "0 means no limit"),
        number("--operations-per-second", "max_operations_per_second", "0 means no limit"),
        protocol};
    for (const Resource& resource : resources) {
        const std::string name = resource.name;
        options.push_back(
            add_key<Number>(command, body_, "--" + name, "max_" + name, resource.about));
    }
    return options;
}

std::vector<CLI::Option*> NewDevice::add_cdi_options(CLI::App* command) {
    CLI::Option* const cdi =
        command->add_flag("--cdi", cdi_.wanted, "Make it a device that containers can get")
            ->excludes(path_option)
            ->excludes(personality_option);
    CLI::Option* const directory = add_cdi_directory(command, cdi_)->needs(cdi);
    CLI::Option* const driver =
        command
            ->add_option("--driver", cdi_.driver,
                         "Directory of the driver's libraries, which containers get, too; '' if "
                         "the image has vrdma-run")
            ->capture_default_str()
            ->needs(cdi);
    return {cdi, directory, driver};
}

Answer NewDevice::create(const Client& client) const {
    if (!body_.contains("name")) {
        return Mdevs{}.create(mdev_);
    }
    nlohmann::json body = body_;
    body["type"] = mdev_.type;
    return cdi_.wanted ? create_for_containers(client, std::move(body))
                       : client.post("/v1/devices", body);
}

// Any user of a container may use its device. Other users of the host do not reach the socket.
Answer NewDevice::create_for_containers(const Client& client, nlohmann::json body) const {
    if (Answer reached = client.get("/v1/log-level"); !reached) {
        return reached; // before anything is made
    }
    const CdiDevice device{body["name"], client.socket(), cdi_};
    if (auto problem = device.prepare()) {
        return tl::unexpected{std::move(*problem)};
    }
    body["socket"] = device.socket();
    body.emplace("mode", "0666");
    Answer answer = client.post("/v1/devices", body);
    if (!answer) {
        device.remove_directory();
        return answer;
    }
    if (auto problem = device.write(body.value("addresses", ""))) {
        (void)client.remove(path_of(body["name"]) + "?force=true");
        device.remove();
        return tl::unexpected{std::move(*problem)};
    }
    (*answer)["cdi"] = device.qualified_name();
    return answer;
}

void OldDevice::add_options(CLI::App* command) {
    command->add_option("NAME", name, "Name of the device, as `device list` has it")->required();
    command->add_flag("--force", force, "Take it from the VM or the clients that have it");
    add_cdi_directory(command, cdi);
}

Answer OldDevice::destroy(const Client& client) const {
    if (Mdevs::is_uuid(name)) {
        return Mdevs{}.destroy(name, force);
    }
    Answer answer = client.remove(path_of(name) + (force ? "?force=true" : ""));
    if (answer) {
        CdiDevice{name, client.socket(), cdi}.remove();
    }
    return answer;
}

// A client needs the path of the socket, and a container the name.
std::string show_created(const nlohmann::json& answer, Width /*width*/) {
    const char* const key = answer.contains("cdi")      ? "cdi"
                            : answer.contains("socket") ? "socket"
                                                        : "name";
    return printable(answer.at(key).get<std::string>()) + "\n";
}

void NewUplink::add_options(CLI::App* command) {
    add_key<std::string>(command, body_, "INTERFACE", "interface", "A network interface")
        ->required();
    add_key<std::string>(command, body_, "--name", "name", "Its name, by default the interface's");
    add_key<std::string>(command, body_, "--transport", "transport", "How packets are exchanged")
        ->check(CLI::IsMember({"auto", "af_xdp", "af_packet"}));
    add_list(command, body_, "--vlans", "vlans", "VLANs that devices may use, as in 7,100-199");
}

Answer NewUplink::add(const Client& client) const {
    return client.post("/v1/uplinks", body_);
}

} // namespace vrdma::ctl
