/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "iova.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <vrdma/device.h>

struct vrdma_iova_node {
	uint64_t start, end;
	uint64_t longest; /* of this node and its subtree */
	uint32_t priority;
	struct vrdma_iova_node *left, *right; /* in the list of spares: right is the next one */
};

typedef struct vrdma_iova_node node;

static uint64_t longest(const node *n)
{
	return n ? n->longest : 0;
}

static void update(node *n)
{
	n->longest = n->end - n->start;
	if (longest(n->left) > n->longest)
		n->longest = longest(n->left);
	if (longest(n->right) > n->longest)
		n->longest = longest(n->right);
}

/* All of `left` lies below all of `right`. */
static node *join(node *left, node *right)
{
	if (!left)
		return right;
	if (!right)
		return left;
	if (left->priority > right->priority) {
		left->right = join(left->right, right);
		update(left);
		return left;
	}
	right->left = join(left, right->left);
	update(right);
	return right;
}

/* Nodes that start below `start` go left. */
static void split(node *tree, uint64_t start, node **left, node **right)
{
	if (!tree) {
		*left = NULL;
		*right = NULL;
	} else if (tree->start < start) {
		*left = tree;
		split(tree->right, start, &tree->right, right);
		update(tree);
	} else {
		*right = tree;
		split(tree->left, start, left, &tree->left);
		update(tree);
	}
}

static uint32_t next_random(struct vrdma_iova_space *space)
{
	space->random ^= space->random << 13;
	space->random ^= space->random >> 17;
	space->random ^= space->random << 5;
	return space->random;
}

static void put_spare(struct vrdma_iova_space *space, node *n)
{
	n->right = space->spare;
	space->spare = n;
}

static node *take_spare(struct vrdma_iova_space *space, uint64_t start, uint64_t end)
{
	node *n = space->spare;

	space->spare = n->right;
	*n = (node){.start = start, .end = end, .priority = next_random(space)};
	update(n);
	return n;
}

/* Gives back the node of a free range that has become empty, or that is no longer needed. */
static node *remove_root(struct vrdma_iova_space *space, node *tree)
{
	node *rest = join(tree->left, tree->right);

	put_spare(space, tree);
	return rest;
}

/* Takes `length` from the front of the first range that is long enough. There must be one. */
static node *carve(struct vrdma_iova_space *space, node *tree, uint64_t length, uint64_t *iova)
{
	if (longest(tree->left) >= length) {
		tree->left = carve(space, tree->left, length, iova);
	} else if (tree->end - tree->start >= length) {
		*iova = tree->start;
		tree->start += length;
		if (tree->start == tree->end)
			return remove_root(space, tree);
	} else {
		tree->right = carve(space, tree->right, length, iova);
	}
	update(tree);
	return tree;
}

static bool whole_pages(uint64_t *length)
{
	*length += VRDMA_PAGE_SIZE - 1;
	*length -= *length % VRDMA_PAGE_SIZE;
	return *length != 0;
}

static int add_spare(struct vrdma_iova_space *space)
{
	node *n = malloc(sizeof(*n));

	if (!n)
		return ENOMEM;
	put_spare(space, n);
	return 0;
}

int vrdma_iova_init(struct vrdma_iova_space *space, uint64_t start, uint64_t end)
{
	*space = (struct vrdma_iova_space){.start = start, .end = end, .random = 2463534242u};
	if (start >= end || start % VRDMA_PAGE_SIZE || end % VRDMA_PAGE_SIZE)
		return EINVAL;
	if (add_spare(space))
		return ENOMEM;
	space->free = take_spare(space, start, end);
	return 0;
}

void vrdma_iova_destroy(struct vrdma_iova_space *space)
{
	while (space->free)
		space->free = remove_root(space, space->free);
	while (space->spare) {
		node *n = space->spare;

		space->spare = n->right;
		free(n);
	}
}

int vrdma_iova_alloc(struct vrdma_iova_space *space, uint64_t length, uint64_t *iova)
{
	if (!whole_pages(&length))
		return EINVAL;
	if (longest(space->free) < length)
		return ENOSPC;
	/* For the node that the range needs when it is freed. */
	if (add_spare(space))
		return ENOMEM;
	space->free = carve(space, space->free, length, iova);
	return 0;
}

static node *last(node *tree)
{
	while (tree && tree->right)
		tree = tree->right;
	return tree;
}

static node *first(node *tree)
{
	while (tree && tree->left)
		tree = tree->left;
	return tree;
}

int vrdma_iova_free(struct vrdma_iova_space *space, uint64_t iova, uint64_t length)
{
	uint64_t start = iova, end;
	node *left, *right, *below, *above, *spare, *edge;

	if (!whole_pages(&length) || iova % VRDMA_PAGE_SIZE || iova < space->start ||
	    iova > space->end || length > space->end - iova)
		return EINVAL;
	end = iova + length;
	split(space->free, start, &left, &right);
	below = last(left);
	above = first(right);
	if ((below && below->end > start) || (above && above->start < end)) {
		space->free = join(left, right);
		return EINVAL;
	}
	if (below && below->end == start) {
		start = below->start;
		split(left, start, &left, &edge);
		put_spare(space, edge);
	}
	if (above && above->start == end) {
		end = above->end;
		split(right, end, &edge, &right);
		put_spare(space, edge);
	}
	space->free = join(join(left, take_spare(space, start, end)), right);

	/* The spare that vrdma_iova_alloc() added for the range. */
	spare = space->spare;
	space->spare = spare->right;
	free(spare);
	return 0;
}
