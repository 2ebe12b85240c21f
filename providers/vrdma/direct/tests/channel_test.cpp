// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#include "channel.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace
{

// A channel of async events, and a reader that acts like libibverbs.
class Channel : public testing::Test
{
      protected:
	Channel()
	{
		EXPECT_EQ(vrdma_channel_init(&channel, sizeof(vrdma_event)), 0);
		fcntl(channel.read_fd, F_SETFL, O_NONBLOCK);
	}
	~Channel() override
	{
		close(channel.read_fd);
		vrdma_channel_destroy(&channel);
	}
	Channel(const Channel &) = delete;
	Channel &operator=(const Channel &) = delete;

	vrdma_event_source source(int *element)
	{
		vrdma_event_source made;
		vrdma_event_source_init(&made, &channel, element);
		return made;
	}
	std::optional<vrdma_event> read() const
	{
		vrdma_event event{};
		if (::read(channel.read_fd, &event, sizeof(event)) != sizeof(event))
			return std::nullopt;
		return event;
	}
	void expect_event(const int *element, uint32_t type) const
	{
		const auto event = read();
		ASSERT_TRUE(event);
		EXPECT_EQ(event->element, reinterpret_cast<uintptr_t>(element));
		EXPECT_EQ(event->type, type);
	}
	void expect_nothing() const
	{
		EXPECT_FALSE(read());
	}

	vrdma_event_channel channel{};
	int a = 0, b = 0;
};

TEST_F(Channel, AnEventIsReadAsItWasPosted)
{
	vrdma_event_source one = source(&a);
	vrdma_event_post(&one, 3);
	expect_event(&a, 3);
	vrdma_event_taken(&one, 3);
	EXPECT_EQ(vrdma_event_retire(&one), 1u);
}

TEST_F(Channel, WhatIsUnreadComesOnce)
{
	vrdma_event_source one = source(&a);
	for (int i = 0; i < 1000; i++)
		vrdma_event_post(&one, 3);
	vrdma_event_post(&one, 4);
	expect_event(&a, 3);
	expect_event(&a, 4);
	expect_nothing();
}

TEST_F(Channel, WhatWasReadComesAgain)
{
	vrdma_event_source one = source(&a);
	vrdma_event_post(&one, 3);
	expect_event(&a, 3);
	vrdma_event_taken(&one, 3);
	vrdma_event_post(&one, 3);
	expect_event(&a, 3);
	vrdma_event_taken(&one, 3);
	EXPECT_EQ(vrdma_event_retire(&one), 2u);
}

TEST_F(Channel, NothingIsLostBeyondItsDepth)
{
	constexpr size_t count = size_t{3} * VRDMA_CHANNEL_DEPTH;
	std::vector<int> elements(count);
	std::vector<vrdma_event_source> sources;
	sources.reserve(elements.size());
	for (int &element : elements)
		sources.push_back(source(&element));
	for (vrdma_event_source &each : sources)
		vrdma_event_post(&each, 1);
	for (size_t i = 0; i < count; i++) {
		expect_event(&elements[i], 1);
		vrdma_event_taken(&sources[i], 1);
	}
	expect_nothing();
}

TEST_F(Channel, RetiringTakesBackOnlyItsOwn)
{
	vrdma_event_source one = source(&a), other = source(&b);
	vrdma_event_post(&one, 1);
	vrdma_event_post(&other, 1);
	vrdma_event_post(&one, 2);
	EXPECT_EQ(vrdma_event_retire(&one), 0u);
	expect_event(&b, 1);
	expect_nothing();
}

TEST_F(Channel, RetiringTakesBackWhatWaits)
{
	std::vector<int> elements(VRDMA_CHANNEL_DEPTH);
	std::vector<vrdma_event_source> sources;
	sources.reserve(elements.size());
	for (int &element : elements)
		sources.push_back(source(&element));
	for (vrdma_event_source &each : sources)
		vrdma_event_post(&each, 1);
	vrdma_event_source one = source(&a), other = source(&b);
	vrdma_event_post(&one, 1);
	vrdma_event_post(&other, 1);

	EXPECT_EQ(vrdma_event_retire(&one), 0u);
	for (size_t i = 0; i < sources.size(); i++) {
		expect_event(&elements[i], 1);
		vrdma_event_taken(&sources[i], 1);
	}
	expect_event(&b, 1);
	expect_nothing();
}

// The program is in ibv_get_cq_event(): it has read the event, and will acknowledge it. Expect the
// event to count once, when the object retires, and not again when libibverbs reports it.
TEST_F(Channel, RetiringCountsWhatIsBeingRead)
{
	vrdma_event_source one = source(&a), other = source(&b);
	vrdma_event_post(&one, 1);
	vrdma_event_post(&other, 1);
	expect_event(&a, 1);
	EXPECT_EQ(vrdma_event_retire(&one), 1u);
	vrdma_event_taken(&one, 1);
	EXPECT_EQ(one.reported, 1u);
	EXPECT_EQ(channel.in_flight, 1u);
}

TEST_F(Channel, WithoutAListenerEventsGoNowhere)
{
	vrdma_event_source deaf;
	vrdma_event_source_init(&deaf, nullptr, &a);
	vrdma_event_post(&deaf, 1);
	EXPECT_EQ(vrdma_event_retire(&deaf), 0u);
}

// A direct channel, whose events are taken by a call.
class DirectChannel : public testing::Test
{
      protected:
	DirectChannel()
	{
		vrdma_channel_init_direct(&channel);
		vrdma_event_source_init(&one, &channel, &a);
		vrdma_event_source_init(&other, &channel, &b);
	}

	void expect_event(const int *element, uint32_t type)
	{
		vrdma_event event{};
		ASSERT_TRUE(vrdma_event_take(&channel, &event));
		EXPECT_EQ(event.element, reinterpret_cast<uintptr_t>(element));
		EXPECT_EQ(event.type, type);
	}
	void expect_nothing()
	{
		vrdma_event event{};
		EXPECT_FALSE(vrdma_event_take(&channel, &event));
	}

	vrdma_event_channel channel{};
	int a = 0, b = 0;
	vrdma_event_source one{}, other{};
};

// Post an event again and again; expect it once, and then once more after it was taken.
TEST_F(DirectChannel, AnEventIsTakenOnce)
{
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 1000; i++)
			vrdma_event_post(&one, 0);
		expect_event(&a, 0);
		expect_nothing();
	}
	EXPECT_EQ(vrdma_event_retire(&one), 2u);
}

// Post two events of one object, and then one of another; expect the other's not to come last.
TEST_F(DirectChannel, ObjectsHaveTurns)
{
	vrdma_event_post(&one, 0);
	vrdma_event_post(&one, 5);
	vrdma_event_post(&other, 0);
	expect_event(&a, 0);
	expect_event(&b, 0);
	expect_event(&a, 5);
	expect_nothing();
}

// Retire an object with an event that nobody took; expect the event to be gone, and not to be
// acknowledged. Expect the other object's event to stay.
TEST_F(DirectChannel, RetiringDropsWhatWaits)
{
	vrdma_event_post(&one, 0);
	vrdma_event_post(&other, 0);
	EXPECT_EQ(vrdma_event_retire(&one), 0u);
	expect_event(&b, 0);
	expect_nothing();
}

TEST_F(DirectChannel, IsNotKnownToBeClosed)
{
	EXPECT_FALSE(vrdma_channel_is_closed(&channel));
	vrdma_channel_destroy(&channel);
}

TEST(ClosedChannel, TellsItsWriter)
{
	vrdma_event_channel channel{};
	ASSERT_EQ(vrdma_channel_init(&channel, sizeof(uint64_t)), 0);
	EXPECT_FALSE(vrdma_channel_is_closed(&channel));
	close(channel.read_fd);
	EXPECT_TRUE(vrdma_channel_is_closed(&channel));

	int element = 0;
	vrdma_event_source source;
	vrdma_event_source_init(&source, &channel, &element);
	vrdma_event_post(&source, 0); // no SIGPIPE
	vrdma_channel_destroy(&channel);
}

} // namespace
