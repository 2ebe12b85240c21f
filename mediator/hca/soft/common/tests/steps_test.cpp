// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "mediator/hca/soft/common/steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace vrdma::hca::soft {
namespace {

using Objects = std::unordered_map<int, std::unique_ptr<int>>;

Objects make(int count) {
    Objects objects;
    for (int i = 0; i < count; ++i) {
        objects.emplace(i, std::make_unique<int>(0));
    }
    return objects;
}

// A runner that records how many objects each step has touched.
struct Steps {
    std::vector<std::size_t> sizes;
    std::size_t touched = 0;

    template <typename Step>
    void operator()(Step&& step) {
        touched = 0;
        step();
        sizes.push_back(touched);
    }
    std::size_t longest() const { return *std::ranges::max_element(sizes); }
    std::size_t total() const {
        return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    }
};

TEST(Steps, CallEachObjectOnceAndFewAtATime) {
    const Objects objects = make(1000);
    Steps steps;
    call_in_steps(
        objects, [&](auto&& step) { steps(step); },
        [&](int& object) {
            ++object;
            ++steps.touched;
        });
    EXPECT_TRUE(std::ranges::all_of(objects, [](const auto& o) { return *o.second == 1; }));
    EXPECT_LE(steps.longest(), objects_per_step);
    EXPECT_EQ(steps.total(), 1000u);
}

TEST(Steps, RemoveEachObjectOnceAndFewAtATime) {
    Objects objects = make(1000);
    Steps steps;
    remove_in_steps(
        objects, [&](auto&& step) { steps(step); },
        [&](int key) {
            ++steps.touched;
            return std::move(objects.extract(key).mapped());
        });
    EXPECT_TRUE(objects.empty());
    EXPECT_LE(steps.longest(), objects_per_step);
    EXPECT_EQ(steps.total(), 1000u);
}

TEST(Steps, NothingTakesNone) {
    Steps steps;
    call_in_steps(
        Objects{}, [&](auto&& step) { steps(step); }, [](int&) {});
    EXPECT_TRUE(steps.sizes.empty());
}

} // namespace
} // namespace vrdma::hca::soft
