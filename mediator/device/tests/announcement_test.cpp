// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A device announces what it needs, and another one says whether it can take its place.
#include <cstring>
#include <random>

#include "mediator/device/incoming_state.h"
#include "mediator/device/tests/device_test.h"

namespace vrdma {
namespace {

class AnnouncementTest : public DeviceTest {
  protected:
    // One of each kind that is counted.
    void create_objects() {
        EXPECT_EQ(guest.create(VRDMA_ADMIN_ALLOC_PD), 1);
        EXPECT_GT(guest.create(VRDMA_ADMIN_REG_MR, mr_command(1)), 0);
        EXPECT_EQ(guest.create(VRDMA_ADMIN_CREATE_EQ, eq_command()), 1);
        EXPECT_EQ(guest.create(VRDMA_ADMIN_CREATE_CQ, cq_command(1)), 1);
        EXPECT_GT(guest.create(VRDMA_ADMIN_CREATE_SRQ, srq_command(1)), 0);
        EXPECT_GT(guest.create(VRDMA_ADMIN_CREATE_QP, qp_command(1, 1)), 0);
        vrdma_admin_cmd ah{};
        ah.create_ah.pd = 1;
        ah.create_ah.av.dgid[0] = 0xfd;
        ah.create_ah.av.port_num = 1;
        EXPECT_EQ(guest.create(VRDMA_ADMIN_CREATE_AH, ah), 1);
    }

    // A device with an address and objects.
    std::vector<std::byte> announce() {
        EXPECT_TRUE(guest.enable());
        EXPECT_EQ(guest.run(VRDMA_ADMIN_SET_GID, gid_command(0)), 0);
        create_objects();
        auto announcement = device.announce();
        device.reset(); // the device stands for the one on the other host, too
        return announcement;
    }

    // Whether a device of this type, with this identity, takes the place.
    std::errc admitted(std::span<const std::byte> announcement, const DeviceType& type_,
                       const verbs::Identity& identity) {
        test::GuestPort port_{ArenaMemory::create(1 << 20).value(), type_};
        Device other{"other", type_, identity, port_, hca, gids};
        const auto admitted = other.admit(announcement);
        EXPECT_FALSE(other.enabled());
        return admitted ? std::errc{} : admitted.error();
    }

    static constexpr std::uint64_t max_length = 1 << 20;
    const verbs::Identity same{mac, {}, true};
};

TEST_F(AnnouncementTest, ADeviceAboveAQuotaIsRefused) {
    const auto announcement = announce();
    for (const verbs::Quotas& quotas : {verbs::Quotas{.pds = 0},
                                        {.mrs = 0},
                                        {.cqs = 0},
                                        {.qps = 0},
                                        {.srqs = 0},
                                        {.ahs = 0},
                                        {.blocks = 1},
                                        {.memory = 0}}) {
        ASSERT_TRUE(device.set_quotas(quotas));
        EXPECT_EQ(device.admit(announcement).error(), std::errc::not_enough_memory);
    }
    ASSERT_TRUE(device.set_quotas({.pds = 1, .mrs = 1, .cqs = 1, .qps = 1, .srqs = 1, .ahs = 1}));
    EXPECT_TRUE(device.admit(announcement));
}

TEST_F(AnnouncementTest, AnEqualDeviceIsAdmitted) {
    const auto announcement = announce();
    EXPECT_TRUE(device.admit(announcement));
    EXPECT_TRUE(device.admit(announcement)) << "it has given back all that it tried";
    EXPECT_EQ(guest.status(), VRDMA_STATUS_READY);
    EXPECT_EQ(admitted(announcement, type, same), std::errc{});
}

TEST_F(AnnouncementTest, ADeviceThatIsNotEnabledNeedsLittle) {
    EXPECT_TRUE(device.admit(device.announce()));
    DeviceType small = type;
    small.limits.max_qp = 0;
    EXPECT_EQ(admitted(device.announce(), small, same), std::errc{});
}

TEST_F(AnnouncementTest, ATypeMayBeTooSmall) {
    const auto announcement = announce();
    const auto with = [&](auto change) {
        DeviceType other = type;
        change(other.limits);
        return admitted(announcement, other, same);
    };
    const auto too_small = std::errc::not_enough_memory;
    EXPECT_EQ(with([](verbs::Limits& l) { l.max_pd = 0; }), too_small);
    EXPECT_EQ(with([](verbs::Limits& l) { l.max_mr = 0; }), too_small);
    EXPECT_EQ(with([](verbs::Limits& l) { l.max_cq = 0; }), too_small);
    EXPECT_EQ(with([](verbs::Limits& l) { l.max_qp = 0; }), too_small);
    EXPECT_EQ(with([](verbs::Limits& l) { l.max_srq = 0; }), too_small);
    EXPECT_EQ(with([](verbs::Limits& l) { l.max_ah = 0; }), too_small);
    EXPECT_EQ(with([](verbs::Limits& l) { l.max_blocks = 1; }), too_small);
    EXPECT_EQ(with([](verbs::Limits& l) { l.max_memory = 1; }), too_small);
    EXPECT_EQ(with([](verbs::Limits& l) { l.max_memory = 1 << 20; }), std::errc{});
    EXPECT_EQ(with([](verbs::Limits& l) { l.vectors *= 2; }), std::errc::invalid_argument);
    EXPECT_EQ(with([](verbs::Limits& l) { l.doorbell_pages *= 2; }), std::errc::invalid_argument);
}

TEST_F(AnnouncementTest, TheIdentityMustFit) {
    const auto announcement = announce();
    verbs::Identity other = same;
    other.mac[5]++;
    EXPECT_EQ(admitted(announcement, type, other), std::errc::invalid_argument);
    other = same;
    other.pkeys.push_back(0x8001);
    EXPECT_EQ(admitted(announcement, type, other), std::errc::invalid_argument);
    other = same;
    other.prefixes = verbs::parse_prefixes("10.0.0.0/8").value();
    EXPECT_EQ(admitted(announcement, type, other), std::errc::permission_denied);
}

TEST_F(AnnouncementTest, ADeviceWithAnUplinkNeedsOne) {
    DeviceType wide = type;
    wide.uplink = "wan";
    test::GuestPort port_{ArenaMemory::create(1 << 28).value(), wide};
    test::GuestAllocator allocator_{port_.memory()};
    verbs::Identity identity{{0x52, 0x54, 0, 1, 2, 4}, {}, true};
    identity.uplink = "wan";
    Device bound{"bound", wide, identity, port_, hca, gids};
    test::AdminClient driver{bound, port_, allocator_};
    ASSERT_TRUE(driver.enable());
    const auto announcement = bound.announce();
    bound.reset();
    EXPECT_TRUE(bound.admit(announcement));
    identity.uplink = "";
    EXPECT_EQ(admitted(announcement, type, identity), std::errc::no_such_device);
    identity.uplink = "wan";
    hca.next_error = std::errc::no_such_device;
    EXPECT_EQ(admitted(announcement, type, identity), std::errc::no_such_device);
}

TEST_F(AnnouncementTest, AnAddressMayBeTaken) {
    const auto announcement = announce();
    const verbs::Identity another{{0x52, 0x54, 0, 1, 2, 5}, {}, true};
    Gid gid{0xfd};
    gid[15] = 1;
    ASSERT_TRUE(gids.claim(gid, &another));
    const auto admitted = device.admit(announcement);
    ASSERT_FALSE(admitted);
    EXPECT_EQ(admitted.error(), std::errc::address_in_use);
}

// The image of a device without objects has an empty section of each format.
TEST_F(AnnouncementTest, TheFormatsAreThoseOfAnImage) {
    ASSERT_TRUE(guest.enable());
    device.freeze();
    const auto image = device.save();
    std::size_t at = sizeof(SectionState) + sizeof(DeviceState);
    for (const auto& format : verbs::Objects::formats()) {
        SectionState section;
        ASSERT_LE(at + sizeof(section), image.size());
        std::memcpy(&section, image.data() + at, sizeof(section));
        EXPECT_EQ(section.section, format.section);
        EXPECT_EQ(section.version, format.section_version);
        EXPECT_EQ(section.records, 0u);
        at += sizeof(section);
    }
    EXPECT_EQ(at + sizeof(SectionState), image.size()) << "the section `end` follows";
}

TEST_F(AnnouncementTest, AnotherFormatIsRefused) {
    auto announcement = announce();
    // The version of the first section, behind the header of the list.
    announcement[2 * sizeof(SectionState) + sizeof(DeviceState) + 4] ^= std::byte{1};
    const auto admitted = device.admit(announcement);
    ASSERT_FALSE(admitted);
    EXPECT_EQ(admitted.error(), std::errc::protocol_not_supported);
}

// The engine of the destination saves connections in another format.
TEST_F(AnnouncementTest, AnotherFormatOfConnectionsIsRefused) {
    const auto announcement = announce();
    ++hca.version;
    const auto admitted = device.admit(announcement);
    ASSERT_FALSE(admitted);
    EXPECT_EQ(admitted.error(), std::errc::protocol_not_supported);
}

TEST_F(AnnouncementTest, TheDeviceFollowsItsAnnouncement) {
    const auto announcement = to_stream(announce(), StreamPart::announcement);
    ASSERT_TRUE(guest.enable());
    device.freeze();
    const auto image = to_stream(device.save());
    device.reset();
    auto stream = announcement;
    stream.insert(stream.end(), image.begin(), image.end());
    IncomingState incoming{device, max_length};
    ASSERT_TRUE(incoming.take(stream));
    ASSERT_TRUE(incoming.restore());
    EXPECT_EQ(guest.status(), VRDMA_STATUS_ENABLED);
}

TEST_F(AnnouncementTest, ThereIsOneAnnouncement) {
    const auto announcement = to_stream(device.announce(), StreamPart::announcement);
    IncomingState incoming{device, max_length};
    ASSERT_TRUE(incoming.take(announcement));
    EXPECT_FALSE(incoming.restore()) << "no image has come";
    EXPECT_FALSE(incoming.take(announcement));
}

// Cuts an announcement at each byte, and adds one. Expects it to be refused.
TEST_F(AnnouncementTest, OnlyAWholeOneIsOne) {
    auto announcement = announce();
    for (std::size_t size = 0; size < announcement.size(); ++size) {
        EXPECT_FALSE(device.admit(std::span{announcement}.first(size))) << size;
    }
    announcement.push_back(std::byte{0});
    EXPECT_FALSE(device.admit(announcement));
}

// Announces an address in a VLAN that no device can have; expects a device with an uplink to refuse
// it.
TEST_F(AnnouncementTest, AVlanMustExist) {
    auto announcement = announce();
    const hca::Gid gid{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    const auto bytes = std::as_bytes(std::span{gid});
    const auto found =
        std::search(announcement.begin(), announcement.end(), bytes.begin(), bytes.end());
    ASSERT_NE(found, announcement.end());
    const auto at = static_cast<std::size_t>(found - announcement.begin()) -
                    offsetof(verbs::GidState, gid) + offsetof(verbs::GidState, vlan);
    const verbs::Identity bound{mac, {}, true, "uplink"};
    for (const std::uint16_t vlan : {std::uint16_t{VRDMA_MAX_VLAN + 1}, std::uint16_t{0xffff}}) {
        std::memcpy(&announcement[at], &vlan, sizeof(vlan));
        EXPECT_EQ(admitted(announcement, type, bound), std::errc::invalid_argument);
    }
}

// Changes bytes of announcements at random. Expects no harm.
TEST_F(AnnouncementTest, AHostileOneDoesNoHarm) {
    const auto announcement = announce();
    std::minstd_rand random{1}; // NOLINT(cert-msc32-c,cert-msc51-cpp): failures must repeat
    for (int i = 0; i < 20000; ++i) {
        auto changed = announcement;
        for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
            changed[random() % changed.size()] = static_cast<std::byte>(random());
        }
        (void)device.admit(changed);
    }
    EXPECT_TRUE(device.admit(announcement));
}

} // namespace
} // namespace vrdma
