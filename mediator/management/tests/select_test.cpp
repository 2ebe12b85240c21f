// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/management/select.h"

#include <gtest/gtest.h>

#include <string>

namespace vrdma::management {
namespace {

using Names = std::vector<std::string>;

Names select_names(const Range& range) {
    return select(Names{"c", "a", "d", "b"}, range, [](const std::string& name) { return name; });
}

TEST(Select, PagesAreInOrder) {
    EXPECT_EQ(select_names({"", false, 3}), (Names{"a", "b", "c"}));
    EXPECT_EQ(select_names({"c", false, 3}), Names{"d"});
    EXPECT_EQ(select_names({"d", false, 3}), Names{});
}

TEST(Select, APageMayBeginAfterANameThatIsGone) {
    EXPECT_EQ(select_names({"bb", false, 1}), Names{"c"});
}

TEST(Select, OneOfThatName) {
    EXPECT_EQ(select_names({"b", true, 1}), Names{"b"});
    EXPECT_EQ(select_names({"bb", true, 1}), Names{});
}

} // namespace
} // namespace vrdma::management
