// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/testimony.h"

#include <cstdio>
#include <fstream>

#include "torture/stage.h"

namespace vrdma::torture {
namespace {

const char* name(ibv_qp_type type) {
    switch (type) {
        case IBV_QPT_RC:
            return "RC";
        case IBV_QPT_UC:
            return "UC";
        case IBV_QPT_UD:
            return "UD";
        default:
            return "XRC";
    }
}

// Describes a scene for people.
void describe(std::ostream& out, unsigned number, const Scene& scene) {
    const Shape& shape = scene.shape;
    out << "scene " << number << ": pair " << scene.pair << ' ' << name(shape.type)
        << (scene.renews ? " anew" : "") << (shape.shared ? ", SRQ" : "")
        << (shape.patient() ? ", patient" : "") << ", side " << scene.sender << " sends"
        << (scene.registers ? ", registers again" : "") << (scene.window ? ", window" : "")
        << (scene.fails_first ? ", fails first" : "") << (scene.drains ? ", drains" : "")
        << (scene.fails[0] ? ", 0 fails" : "") << (scene.fails[1] ? ", 1 fails" : "") << ", limit "
        << scene.limit << ", late " << scene.late << '\n';
    for (const Message& message : scene.messages) {
        out << "  message: opcode " << message.opcode << ", " << message.length << " bytes to "
            << message.target << (message.inlined ? ", inline" : "")
            << (message.signaled ? "" : ", unsignaled") << (message.fenced ? ", fenced" : "")
            << (message.forwarded ? ", forwarded" : "") << ", key " << static_cast<int>(message.key)
            << ", flaw " << static_cast<int>(message.flaw) << '\n';
    }
    for (const Reception& reception : scene.receptions) {
        out << "  receive: " << reception.length << " bytes"
            << (reception.bad_lkey ? ", wrong lkey" : "") << '\n';
    }
}

std::string joined(const std::vector<std::string>& lines, unsigned side) {
    std::string all;
    for (const std::string& line : lines) {
        all += "  side " + std::to_string(side) + ": " + line + '\n';
    }
    return all;
}

void send(const ControlConnection& control, const std::string& text) {
    control.send(static_cast<std::uint32_t>(text.size()));
    control.send(std::as_bytes(std::span{text}));
}

std::string receive(const ControlConnection& control) {
    std::string text(control.receive<std::uint32_t>(), '\0');
    control.receive(std::as_writable_bytes(std::span{text}));
    return text;
}

} // namespace

void testify(const Round& round, const Side& side) {
    EventLog events;
    const Device device{side.device, side.gid_index,
                        [&](const ibv_async_event& event) { events.note(event); }};
    Stage stage{side.connect(), device, events, side.number, round.seed};
    Random script = Random::of({round.seed, round.number});
    std::ofstream out;
    if (!side.transcript.empty()) {
        out.open(side.transcript);
    }
    std::size_t steps = 0;
    place.doing = "scene";
    for (; steps < round.steps; ++place.step) {
        const Scene scene = Scene::drawn(script, stage.standings());
        if (side.number != 0) {
            describe(out, place.step, scene);
            out.flush(); // so that the scene is known if it is the last
        }
        const std::string seen = joined(stage.play(scene), side.number);
        if (side.number == 0) {
            send(stage.control(), seen);
        } else {
            out << receive(stage.control()) << seen;
        }
        steps += scene.posts();
    }
    require(side.number == 0 || out.good(), "the transcript cannot be written");
    std::printf("seed %llu round %u: %zu steps\n", static_cast<unsigned long long>(round.seed),
                round.number, steps);
    static_cast<void>(std::fflush(stdout));
}

} // namespace vrdma::torture
