// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "ctl/table.h"

#include <gtest/gtest.h>

namespace vrdma::ctl {
namespace {

TEST(Table, AlignsColumnsAndEndsLinesWithTheirText) {
    EXPECT_EQ(table({"Name", "State"}, {{"a", "Active"}, {"a-long-name", ""}}, 0),
              "Name         State\n"
              "a            Active\n"
              "a-long-name\n");
}

TEST(Table, FitsTheTerminal) {
    EXPECT_EQ(table({"Name", "Description"}, {{"a", "a device"}}, 9), "Name  Des\na     a d\n");
}

TEST(Table, ATerminalObeysNothingInIt) {
    EXPECT_EQ(table({"Name"}, {{"\x1b[2J\n\xc3"}}, 0), "Name\n?[2J??\n");
}

TEST(List, AlignsValues) {
    EXPECT_EQ(list({{"Name", "a"}, {"MTU", "4096"}}), "Name:  a\nMTU:   4096\n");
}

} // namespace
} // namespace vrdma::ctl
