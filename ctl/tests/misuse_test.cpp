// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/misuse.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace vrdma::ctl {
namespace {

class Misuse : public testing::Test {
  protected:
    Misuse() {
        app_.require_subcommand(1);
        app_.add_flag("--json");
        CLI::App* const device = app_.add_subcommand("device");
        device->require_subcommand(1)->fallthrough();
        device->add_subcommand("list")->fallthrough();
        CLI::App* const set = device->add_subcommand("set");
        set->add_option("NAME", name_)->required();
        set->add_option("--weight", weight_)->check(&refuse_no_number);
        app_.add_subcommand("reload");
    }

    std::string explanation(std::vector<std::string> words) {
        std::ranges::reverse(words); // as CLI11 takes them
        try {
            app_.parse(words);
        } catch (const CLI::ParseError& error) {
            return explain(app_, error);
        }
        return "";
    }

    CLI::App app_{"", "vrdmactl"};
    std::string name_;
    std::uint64_t weight_ = 0;
};

TEST_F(Misuse, OfCommandsNamesThose) {
    const std::string all = "\nRun `vrdmactl --help` for more.\n";
    const std::string of_device = "\nRun `vrdmactl device --help` for more.\n";
    EXPECT_EQ(explanation({}), "vrdmactl: a command is missing: device, reload" + all);
    EXPECT_EQ(explanation({"--json"}), "vrdmactl: a command is missing: device, reload" + all);
    EXPECT_EQ(explanation({"show", "x"}),
              "vrdmactl: 'show' is no command of vrdmactl, but these: device, reload" + all);
    EXPECT_EQ(explanation({"device"}), "vrdmactl: a command is missing: list, set" + of_device);
    EXPECT_EQ(
        explanation({"device", "show"}),
        "vrdmactl: 'show' is no command of vrdmactl device, but these: list, set" + of_device);
}

TEST_F(Misuse, OfArgumentsNamesThose) {
    const std::string of_set = "\nRun `vrdmactl device set --help` for more.\n";
    EXPECT_EQ(explanation({"device", "set"}), "vrdmactl: NAME is required" + of_set);
    for (const char* const number :
         {"-1", "-18446744073709551566", "010", "0x10", "1k", "1.5", "+1", " 1"}) {
        EXPECT_EQ(explanation({"device", "set", "a", std::string{"--weight="} + number}),
                  "vrdmactl: --weight: '" + std::string{number} +
                      "' must be a number such as 1000" + of_set);
    }
    EXPECT_EQ(explanation({"device", "set", "a", "--weight", "0"}), "");
    EXPECT_EQ(explanation({"device", "set", "a", "--weight", "50"}), "");
    EXPECT_EQ(weight_, 50u);
}

} // namespace
} // namespace vrdma::ctl
