// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
//
// A directory in the place of vrdmad's, of the driver's and of that of CDI's specifications.
#include "ctl/cdi.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace vrdma::ctl {
namespace {

namespace fs = std::filesystem;

class CdiTest : public testing::Test {
  protected:
    CdiTest() {
        fs::create_directories(place / "lib/vrdma");
        std::ofstream{place / "lib/libvrdma.so.1"} << "x";
        std::ofstream{place / "lib/vrdma/libvrdma-run.so"} << "x";
    }
    CdiTest(const CdiTest&) = delete;
    CdiTest& operator=(const CdiTest&) = delete;
    ~CdiTest() override { fs::remove_all(place); }

    static fs::path temporary() {
        std::string name = fs::temp_directory_path() / "vrdma-cdi-XXXXXX";
        EXPECT_NE(::mkdtemp(name.data()), nullptr);
        return name;
    }
    CdiDevice device(const std::string& name, const std::string& driver) const {
        return {name, place / "control.sock", {true, place / "cdi/new", driver}};
    }
    static mode_t mode_of(const fs::path& path) {
        struct stat status {};
        EXPECT_EQ(::stat(path.c_str(), &status), 0);
        return status.st_mode & 0777U;
    }
    std::string driver() const { return place / "lib"; }
    fs::path file() const { return place / "cdi/new/vrdma.io-device_web.json"; }

    fs::path place = temporary();
};

TEST_F(CdiTest, OthersOfTheHostDoNotReachASocket) {
    const CdiDevice web = device("web", driver());
    const mode_t before = ::umask(077);
    const auto problem = web.prepare();
    ::umask(before);
    ASSERT_FALSE(problem) << problem->text;
    EXPECT_EQ(web.socket(), place / "containers/web/web.sock");
    EXPECT_EQ(mode_of(place / "containers"), 0700U);
    EXPECT_EQ(mode_of(place / "containers/web"), 0755U);
    EXPECT_FALSE(web.prepare()); // what a command left that was killed
}

TEST_F(CdiTest, AContainerGetsTheSocketTheDriverAndTheEnvironment) {
    const auto specified = device("web", driver()).specification("10.0.0.5, fd00::5,fd00::/64");
    EXPECT_EQ(specified["kind"], "vrdma.io/device");
    ASSERT_EQ(specified["devices"].size(), 1U);
    EXPECT_EQ(specified["devices"][0]["name"], "web");
    const auto& edits = specified["devices"][0]["containerEdits"];
    const std::string libraries =
        driver() + "/libvrdma.so.1:" + driver() + "/vrdma/libvrdma-run.so";
    EXPECT_EQ(edits["env"],
              (nlohmann::json{"VRDMA_RUN_DEVICES=/run/vrdma/web/web.sock,10.0.0.5,fd00::5",
                              "LD_PRELOAD=" + libraries}));
    ASSERT_EQ(edits["mounts"].size(), 3U);
    EXPECT_EQ(edits["mounts"][0]["hostPath"], (place / "containers/web").string());
    EXPECT_EQ(edits["mounts"][0]["containerPath"], "/run/vrdma/web");
    for (const auto& mount : edits["mounts"]) {
        EXPECT_EQ(mount["options"][1], "ro");
    }
}

TEST_F(CdiTest, AnImageMayHaveTheDriver) {
    const auto specified = device("web", "").specification("");
    const auto& edits = specified["devices"][0]["containerEdits"];
    EXPECT_EQ(edits["env"], nlohmann::json::array({"VRDMA_RUN_DEVICES=/run/vrdma/web/web.sock"}));
    EXPECT_EQ(edits["mounts"].size(), 1U);
}

TEST_F(CdiTest, IsWrittenAndRemoved) {
    const CdiDevice web = device("web", driver());
    ASSERT_FALSE(web.prepare());
    ASSERT_FALSE(web.write("10.0.0.5"));
    EXPECT_EQ(mode_of(file()), 0644U);
    EXPECT_EQ(nlohmann::json::parse(std::ifstream{file()}), web.specification("10.0.0.5"));
    EXPECT_EQ(std::distance(fs::directory_iterator{file().parent_path()}, {}), 1);
    web.remove();
    EXPECT_FALSE(fs::exists(file()));
    EXPECT_FALSE(fs::exists(place / "containers/web"));
    web.remove();
}

TEST_F(CdiTest, RefusesBeforeAnythingIsMade) {
    for (const char* name : {"", "..", "a/b", "-web", "web-", "Web", "a-name-of-16-chrs"}) {
        const auto problem = device(name, driver()).prepare();
        ASSERT_TRUE(problem) << name;
        EXPECT_TRUE(problem->text.ends_with("(EINVAL)")) << problem->text;
    }
    const auto problem = device("web", place).prepare();
    ASSERT_TRUE(problem);
    EXPECT_NE(problem->text.find("install vrdma-run, or give --driver (ENOENT)"),
              std::string::npos);
    EXPECT_FALSE(fs::exists(place / "containers"));
}

// vrdmad's user could put a link where vrdmactl makes a directory.
TEST_F(CdiTest, FollowsNoLink) {
    fs::create_directories(place / "elsewhere");
    fs::create_directory_symlink(place / "elsewhere", place / "containers");
    EXPECT_TRUE(device("web", driver()).prepare());
    EXPECT_TRUE(fs::is_empty(place / "elsewhere"));
}

TEST_F(CdiTest, AFileInTheWayIsAProblem) {
    const CdiDevice web = device("web", driver());
    ASSERT_FALSE(web.prepare());
    fs::create_directories(file() / "in-the-way");
    const auto problem = web.write("");
    ASSERT_TRUE(problem);
    EXPECT_NE(problem->text.find("vrdma.io-device_web.json: "), std::string::npos);
    EXPECT_EQ(std::distance(fs::directory_iterator{file().parent_path()}, {}), 1);
}

} // namespace
} // namespace vrdma::ctl
