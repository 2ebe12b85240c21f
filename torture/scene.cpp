// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "torture/scene.h"

#include <algorithm>

namespace vrdma::torture {
namespace {

constexpr std::uint32_t most_bytes = 5000;
constexpr std::uint32_t packet = 1024; // the path's MTU

bool rarely(Random& script) {
    return script.below(40) == 0;
}

std::uint32_t drawn_length(Random& script, const Shape& shape) {
    std::uint32_t length = 0;
    switch (script.below(5)) {
        case 0:
            length = script.below(3);
            break;
        case 1:
            length = script.below(65);
            break;
        case 2:
            length = packet * script.below(4);
            break;
        default:
            length = script.below(most_bytes);
    }
    if (rarely(script)) {
        length = script.below(longest_message);
    }
    return std::min(length, shape.longest());
}

// Those that bind or invalidate are drawn less often, because most of them end a key that others
// need.
ibv_wr_opcode drawn_opcode(Random& script, const Shape& shape) {
    static constexpr std::array of_keys{IBV_WR_SEND_WITH_INV, IBV_WR_BIND_MW, IBV_WR_LOCAL_INV};
    if (shape.type == IBV_QPT_RC && !shape.extended && script.chance(5)) {
        return script.pick(of_keys);
    }
    return script.pick(opcodes_of(shape.type));
}

Key drawn_key(Random& script, bool window) {
    static constexpr std::array wrong{Key::none, Key::without_rights, Key::stale, Key::window};
    if (rarely(script)) {
        return script.pick(wrong);
    }
    return window && script.chance(50) ? Key::window : Key::region;
}

Flaw drawn_flaw(Random& script, const Message& message, const Shape& shape) {
    if (!rarely(script)) {
        return Flaw::none;
    }
    if (shape.type == IBV_QPT_UD) {
        return script.chance(50) ? Flaw::qkey : Flaw::lkey;
    }
    if (message.is_atomic() && script.chance(40)) {
        return Flaw::alignment;
    }
    return script.chance(50) ? Flaw::end : Flaw::lkey;
}

Message drawn_message(Random& script, const Shape& shape, const Scene& scene) {
    Message message;
    message.opcode = drawn_opcode(script, shape);
    message.length = message.is_atomic() ? atomic_size : drawn_length(script, shape);
    message.imm = static_cast<std::uint32_t>(script.next());
    message.target = message.is_atomic()
                         ? script.below(Scene::shared_targets)
                         : Scene::shared_targets + static_cast<unsigned>(scene.messages.size());
    message.inlined = !message.is_fetch() && !message.is_local() &&
                      message.length <= shape.inline_size && script.chance(50);
    message.signaled = shape.signal_all || script.chance(70);
    message.solicited = script.chance(20);
    // Without a fence, a later message may invalidate a key before a READ uses it (IBA 10.8.3.3).
    message.fenced =
        shape.reliable() && (message.opcode == IBV_WR_SEND_WITH_INV || script.chance(10));
    message.matches = script.chance(50);
    message.key = drawn_key(script, scene.window);
    message.flaw = drawn_flaw(script, message, shape);
    // Across hosts, a longer message has taken a receive of an SRQ, or established the connection,
    // before its last lkey is found wrong. A READ's wrong lkey is only found when the answer
    // arrives.
    if (message.flaw == Flaw::lkey) {
        message.length = std::min(message.length, packet);
        if (message.is_fetch() && shape.type == IBV_QPT_XRC_SEND) {
            message.flaw = Flaw::none;
        }
    }
    if (message.fenced && !message.is_fetch() && !message.is_local() && !message.inlined &&
        !scene.messages.empty()) {
        const Message& before = scene.messages.back();
        message.forwarded = before.is_fetch() && message.length <= before.length;
    }
    return message;
}

// Each message that needs a receive has one, unless something fails.
void draw_messages(Random& script, const Shape& shape, std::uint32_t room, Scene& scene) {
    const std::uint32_t most = std::min(Scene::most_messages, shape.send_depth);
    std::uint32_t receives = 0;
    for (std::uint32_t left = script.between(1, most); left > 0; --left) {
        const Message message = drawn_message(script, shape, scene);
        if (message.takes_receive() && receives == room) {
            continue;
        }
        receives += message.takes_receive() ? 1 : 0;
        scene.messages.push_back(message);
    }
    if (scene.messages.empty()) { // if no receive may be posted, one that needs none
        Message message;
        message.opcode = shape.type == IBV_QPT_UD ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
        message.target = Scene::shared_targets;
        scene.messages.push_back(message);
    }
    scene.messages.back().signaled = true; // tells that all before it is done
}

void draw_receptions(Random& script, const Shape& shape, std::uint32_t room, Scene& scene) {
    for (const Message& message : scene.messages) {
        if (!message.takes_receive() || scene.receptions.size() == room) {
            continue;
        }
        Reception reception;
        reception.length = script.chance(50) ? message.length : shape.longest();
        if (rarely(script)) {
            reception.length = script.below(message.length + 1);
        }
        reception.bad_lkey = rarely(script);
        scene.receptions.push_back(reception);
    }
    if (shape.type != IBV_QPT_XRC_SEND && !shape.patient() && script.chance(15)) {
        scene.receptions.resize(
            script.below(static_cast<std::uint32_t>(scene.receptions.size()) + 1));
    }
    if (shape.type == IBV_QPT_RC && shape.patient() && script.chance(20)) {
        scene.late = script.below(static_cast<std::uint32_t>(scene.receptions.size()) + 1);
    }
}

} // namespace

Scene Scene::drawn(Random& script, const std::array<Standing, pairs>& standings) {
    Scene scene;
    scene.pair = script.below(pairs);
    scene.sender = script.below(2);
    const Standing& standing = standings[scene.pair];
    const Shape fresh = Shape::drawn(script);
    // Some broken pairs are kept: sending from or to a failed QP is a case of its own.
    scene.renews = !standing.there || script.chance(standing.broken ? 95 : 25);
    scene.shape = scene.renews ? fresh : standing.shape;
    const bool connected = scene.shape.type == IBV_QPT_RC;
    const bool works = scene.renews || !standing.broken;
    scene.words = script.next();
    scene.registers = script.chance(5);
    scene.window = connected && works && script.chance(25);
    scene.fails_first = script.chance(3);
    scene.drains = works && !scene.fails_first && script.chance(5);
    scene.fails = {script.chance(3), script.chance(3)};
    scene.limit = scene.shape.shared && script.chance(30) ? script.between(1, most_receives) : 0;
    const std::uint32_t posted = scene.renews ? 0 : standing.receives[1 - scene.sender];
    const std::uint32_t depth =
        std::min(most_receives, scene.shape.shared ? most_receives : scene.shape.receive_depth);
    const std::uint32_t room = depth - std::min(depth, posted);
    draw_messages(script, scene.shape, room, scene);
    draw_receptions(script, scene.shape, room, scene);
    // While receives are still being posted, it depends on timing whether the limit is reached.
    if (scene.late != 0) {
        scene.limit = 0;
    }
    return scene;
}

} // namespace vrdma::torture
