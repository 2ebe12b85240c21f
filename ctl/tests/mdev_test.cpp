// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A directory that looks like sysfs. Its attributes keep what was written to them.
#include "ctl/mdev.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

namespace vrdma::ctl {
namespace {

namespace fs = std::filesystem;

constexpr char uuid[] = "6aeb1a04-3a2c-4d4c-9a51-2b1ad5d2ac60";

class MdevTest : public testing::Test {
  protected:
    MdevTest() {
        for (const char* type : {"vrdma-small", "vrdma-large", "other-huge"}) {
            put(types / type / "create", "");
        }
        fs::create_directories(sysfs / "module/vrdma_mdev");
        fs::create_directories(devices);
    }
    MdevTest(const MdevTest&) = delete;
    MdevTest& operator=(const MdevTest&) = delete;
    ~MdevTest() override { fs::remove_all(sysfs); }

    static fs::path temporary() {
        std::string name = fs::temp_directory_path() / "vrdma-sysfs-XXXXXX";
        EXPECT_NE(::mkdtemp(name.data()), nullptr);
        return name;
    }
    static void put(const fs::path& file, const std::string& text) {
        fs::create_directories(file.parent_path());
        std::ofstream{file} << text;
    }
    static std::string text_in(const fs::path& file) {
        std::ifstream stream{file};
        return {std::istreambuf_iterator<char>{stream}, {}};
    }
    void add_device(const std::string& type) const {
        put(devices / uuid / "mac", "02:00:00:00:00:01\n");
        put(devices / uuid / "remove", "");
        fs::create_symlink(types / type, devices / uuid / "mdev_type");
    }
    std::string create_error(const NewMdev& wanted) const {
        const auto created = mdevs.create(wanted);
        EXPECT_FALSE(created);
        return created ? "" : created.error().text;
    }
    std::string destroy_error(const std::string& name, bool from_vm = false) const {
        const auto destroyed = mdevs.destroy(name, from_vm);
        EXPECT_FALSE(destroyed);
        return destroyed ? "" : destroyed.error().text;
    }

    const fs::path sysfs = temporary();
    const fs::path types = sysfs / "class/mdev_bus/vrdma/mdev_supported_types";
    const fs::path devices = sysfs / "bus/mdev/devices";
    const Mdevs mdevs{sysfs};
};

TEST_F(MdevTest, IsCreatedByItsUuid) {
    const auto created = mdevs.create({"vrdma", "small", "6AEB1A04-3a2c-4d4c-9a51-2b1ad5d2ac60"});
    ASSERT_TRUE(created);
    EXPECT_EQ(created->at("name"), uuid);
    EXPECT_EQ(text_in(types / "vrdma-small/create"), uuid);
}

TEST_F(MdevTest, HasARandomUuidOtherwise) {
    const auto first = mdevs.create({"vrdma", "small", ""});
    const auto second = mdevs.create({"vrdma", "small", ""});
    ASSERT_TRUE(first && second);
    EXPECT_NE(first->at("name"), second->at("name"));
    EXPECT_EQ(text_in(types / "vrdma-small/create"), second->at("name"));
}

TEST_F(MdevTest, IsNotCreatedWithoutItsParts) {
    EXPECT_EQ(create_error({"vrdma", "tiny", uuid}),
              "'vrdma' has no type 'tiny', but these: large, small (ENOENT)");
    for (const char* type : {"", "..", "small/../vrdma-large", "vrdma-small"}) {
        EXPECT_TRUE(create_error({"vrdma", type, uuid}).ends_with("(ENOENT)")) << type;
    }
    for (const char* parent : {"other", "", "..", "../mdev_bus/vrdma"}) {
        EXPECT_EQ(create_error({parent, "small", uuid}), "no vrdmad with the name '" +
                                                             std::string{parent} +
                                                             "' serves mediated devices (ENODEV)");
    }
    for (const char* wrong : {"disk", "6aeb1a04-3a2c-4d4c-9a51-2b1ad5d2ac6g",
                              "6aeb1a04-3a2c-4d4c-9a51-2b1ad5d2ac600", "../../x"}) {
        EXPECT_EQ(create_error({"vrdma", "small", wrong}),
                  "'" + std::string{wrong} + "' is no UUID (EINVAL)");
    }
    fs::remove_all(sysfs / "module/vrdma_mdev");
    EXPECT_EQ(create_error({"vrdma", "small", uuid}),
              "the kernel module vrdma_mdev is not loaded (ENODEV)");
}

TEST_F(MdevTest, IsNotCreatedTwice) {
    add_device("vrdma-small");
    EXPECT_EQ(create_error({"vrdma", "small", uuid}),
              "there is a device '" + std::string{uuid} + "' already (EEXIST)");
}

// /dev/full fails each write, as an attribute does whose type has no instance left.
TEST_F(MdevTest, IsNotCreatedWithoutAnInstance) {
    fs::remove(types / "vrdma-small/create");
    fs::create_symlink("/dev/full", types / "vrdma-small/create");
    EXPECT_EQ(create_error({"vrdma", "small", uuid}),
              "no instance of the type 'small' is left (ENOSPC)");
}

TEST_F(MdevTest, IsDestroyed) {
    add_device("vrdma-small");
    ASSERT_TRUE(mdevs.destroy(uuid, false));
    EXPECT_EQ(text_in(devices / uuid / "remove"), "1");
}

// An attribute that is a directory cannot be written. A busy device's MAC cannot either: expect the
// device to stay, and to go if it is taken from the VM.
TEST_F(MdevTest, IsNotDestroyedWhileItsMacCannotBeSet) {
    add_device("vrdma-small");
    fs::remove(devices / uuid / "mac");
    fs::create_directory(devices / uuid / "mac");
    EXPECT_EQ(destroy_error(uuid),
              "the kernel does not remove '" + std::string{uuid} + "' (EISDIR)");
    EXPECT_EQ(text_in(devices / uuid / "remove"), "");
    ASSERT_TRUE(mdevs.destroy(uuid, true));
    EXPECT_EQ(text_in(devices / uuid / "remove"), "1");
}

TEST_F(MdevTest, OthersAreNotDestroyed) {
    EXPECT_EQ(destroy_error("disk-00/0"),
              "there is no mediated device 'disk-00/0' of vrdma (ENOENT)");
    EXPECT_TRUE(destroy_error(uuid).ends_with("(ENOENT)"));
    add_device("other-huge");
    EXPECT_TRUE(destroy_error(uuid, true).ends_with("(ENOENT)"));
    EXPECT_EQ(text_in(devices / uuid / "remove"), "");
}

} // namespace
} // namespace vrdma::ctl
