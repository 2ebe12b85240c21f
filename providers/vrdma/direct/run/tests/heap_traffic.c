/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A program that knows nothing of vrdma and uses its heap as programs do, while it registers pieces
 * of it. Several threads allocate, clear, grow and free memory, also memory of other threads. They
 * let the kernel write there, and let the device copy from one piece to another.
 *
 *     heap_traffic DEVICE GID_INDEX SECONDS SEED
 *
 * Each thread checks that its memory still has the content that it wrote.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 3
#define BLOCKS 64 /* per thread */
#define SHELVES 16
#define PATTERN ((size_t)1 << 20)
#define PORT 1

/* Memory of the heap, and the offset of its content in the pattern. */
struct block {
	unsigned char *data;
	size_t length;
	size_t phase;
};

struct worker {
	pthread_t thread;
	unsigned int seed;
	struct ibv_cq *cq;
	struct ibv_qp *qps[2]; /* connected to each other */
	struct block blocks[BLOCKS];
	unsigned long allocated, registered;
};

static unsigned char pattern[2 * PATTERN];
static int pattern_file;
static struct ibv_context *context;
static struct ibv_pd *pd;
static union ibv_gid gid;
static unsigned char gid_index;
static atomic_bool stop;
static bool kernel_waits; /* else system calls may fail on memory that is being moved */

/* Where threads leave blocks for others. */
static struct {
	pthread_mutex_t lock;
	struct block block;
} shelves[SHELVES];

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	_exit(1);
}

static void require(bool holds, const char *what)
{
	if (!holds)
		fail("%s: %s", what, strerror(errno));
}

static unsigned int draw(struct worker *worker, unsigned int below)
{
	return (unsigned int)rand_r(&worker->seed) % below;
}

/* --- Content --- */

static void make_pattern(void)
{
	unsigned int seed = 1;
	size_t i;

	for (i = 0; i < PATTERN; i++)
		pattern[i] = pattern[PATTERN + i] = (unsigned char)(rand_r(&seed) >> 8);
	pattern_file = memfd_create("pattern", MFD_CLOEXEC);
	require(pattern_file >= 0, "memfd_create");
	require(pwrite(pattern_file, pattern, sizeof(pattern), 0) == (ssize_t)sizeof(pattern),
		"pwrite");
}

static void verify(const struct block *block, const char *when)
{
	if (memcmp(block->data, pattern + block->phase, block->length) != 0)
		fail("%zu bytes at %p are not what they were, %s", block->length,
		     (void *)block->data, when);
}

/* Fills the block: the kernel writes the first part of it, the program the rest. */
static void fill(struct worker *worker, struct block *block)
{
	size_t done = 0;

	block->phase = draw(worker, PATTERN);
	while (done < block->length && draw(worker, 2)) {
		const ssize_t n = pread(pattern_file, block->data + done, block->length - done,
					(off_t)(block->phase + done));

		if (n < 0 && (errno != EFAULT || kernel_waits))
			fail("pread: %s", strerror(errno));
		done += n > 0 ? (size_t)n : 0;
	}
	memcpy(block->data + done, pattern + block->phase + done, block->length - done);
}

/* --- The heap --- */

static size_t draw_length(struct worker *worker)
{
	static const size_t most[] = {64, 500, 4096, 20000, 140000, 600000};

	return 1 + draw(worker, (unsigned int)most[draw(worker, 6)]);
}

static unsigned char *allocate(struct worker *worker, size_t length)
{
	unsigned char *data;
	void *aligned;
	size_t i;

	switch (draw(worker, 4)) {
	case 0:
		data = calloc(1, length);
		require(data, "calloc");
		for (i = 0; i < length; i++)
			if (data[i])
				fail("calloc() gave memory that is not zero, at %zu of %zu", i,
				     length);
		return data;
	case 1:
		require(posix_memalign(&aligned, (size_t)64 << draw(worker, 7), length) == 0,
			"posix_memalign");
		return aligned;
	default:
		data = malloc(length);
		require(data, "malloc");
		return data;
	}
}

static void renew(struct worker *worker, struct block *block)
{
	if (block->data)
		verify(block, "before free()");
	free(block->data);
	block->length = draw_length(worker);
	block->data = allocate(worker, block->length);
	fill(worker, block);
	worker->allocated++;
}

static void resize(struct worker *worker, struct block *block)
{
	const size_t length = draw_length(worker);
	unsigned char *const data = realloc(block->data, length);

	require(data, "realloc");
	block->data = data;
	if (block->length > length)
		block->length = length;
	verify(block, "after realloc()");
	block->length = length;
	fill(worker, block);
}

static void swap(struct worker *worker, struct block *block)
{
	const unsigned int i = draw(worker, SHELVES);
	const struct block mine = *block;

	pthread_mutex_lock(&shelves[i].lock);
	*block = shelves[i].block;
	shelves[i].block = mine;
	pthread_mutex_unlock(&shelves[i].lock);
	if (!block->data)
		renew(worker, block);
	verify(block, "from another thread");
}

/* --- The device --- */

static struct ibv_qp *make_qp(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	require(qp, "ibv_create_qp");
	return qp;
}

static void connect_qp(struct ibv_qp *qp, const struct ibv_qp *to)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = to->qp_num,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1,
			    .port_num = PORT,
			    .grh = {.dgid = gid, .sgid_index = gid_index, .hop_limit = 64}},
	};

	require(!ibv_modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS),
		"INIT");
	attr.qp_state = IBV_QPS_RTR;
	require(!ibv_modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER),
		"RTR");
	attr.qp_state = IBV_QPS_RTS;
	require(!ibv_modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
		"RTS");
}

static struct ibv_mr *register_block(struct worker *worker, const struct block *block)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, block->data, block->length,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	require(mr, "ibv_reg_mr");
	worker->registered++;
	return mr;
}

static void write_across(struct worker *worker, const struct ibv_mr *from, const struct ibv_mr *to,
			 size_t length)
{
	struct ibv_sge sge = {(uintptr_t)from->addr, (uint32_t)length, from->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)to->addr, .rkey = to->rkey},
	};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int n;

	require(!ibv_post_send(worker->qps[0], &wr, &bad), "ibv_post_send");
	while ((n = ibv_poll_cq(worker->cq, 1, &wc)) == 0)
		sched_yield();
	if (n < 0 || wc.status != IBV_WC_SUCCESS)
		fail("RDMA WRITE: %s", ibv_wc_status_str(wc.status));
}

/* The device copies the beginning of one block to another. The rest of both must not change. */
static void transfer(struct worker *worker, const struct block *from, struct block *to)
{
	const size_t length = from->length < to->length ? from->length : to->length;
	struct block rest = {to->data + length, to->length - length, to->phase + length};
	struct ibv_mr *source, *sink;

	if (from == to)
		return;
	source = register_block(worker, from);
	sink = register_block(worker, to);
	verify(from, "registered");
	verify(to, "registered");
	write_across(worker, source, sink, length);
	verify(&rest, "behind what the device has written");
	to->phase = from->phase;
	rest = *to;
	rest.length = length;
	verify(&rest, "where the device has written");
	require(!ibv_dereg_mr(source) && !ibv_dereg_mr(sink), "ibv_dereg_mr");
	fill(worker, to);
}

/* --- */

static void *work(void *arg)
{
	struct worker *worker = arg;
	unsigned int i;

	for (i = 0; i < BLOCKS; i++)
		renew(worker, &worker->blocks[i]);
	while (!stop) {
		struct block *block = &worker->blocks[draw(worker, BLOCKS)];

		switch (draw(worker, 8)) {
		case 0:
			resize(worker, block);
			break;
		case 1:
			swap(worker, block);
			break;
		case 2:
		case 3:
			transfer(worker, &worker->blocks[draw(worker, BLOCKS)], block);
			break;
		default:
			renew(worker, block);
		}
	}
	for (i = 0; i < BLOCKS; i++) {
		verify(&worker->blocks[i], "at the end");
		free(worker->blocks[i].data);
	}
	return NULL;
}

static void start(struct worker *worker, unsigned int seed)
{
	worker->seed = seed;
	worker->cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	require(worker->cq, "ibv_create_cq");
	worker->qps[0] = make_qp(worker->cq);
	worker->qps[1] = make_qp(worker->cq);
	connect_qp(worker->qps[0], worker->qps[1]);
	connect_qp(worker->qps[1], worker->qps[0]);
	require(!pthread_create(&worker->thread, NULL, work, worker), "pthread_create");
}

static void finish(struct worker *worker)
{
	pthread_join(worker->thread, NULL);
	printf("%lu blocks, %lu regions\n", worker->allocated, worker->registered);
	require(!ibv_destroy_qp(worker->qps[0]) && !ibv_destroy_qp(worker->qps[1]) &&
			!ibv_destroy_cq(worker->cq),
		"destroy");
}

static void open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	require(list, "ibv_get_device_list");
	for (i = 0; list[i] && strcmp(ibv_get_device_name(list[i]), name) != 0; i++)
		;
	require(list[i], name);
	context = ibv_open_device(list[i]);
	require(context, "ibv_open_device");
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	require(pd && !ibv_query_gid(context, PORT, gid_index, &gid), "PD and GID");
}

static bool may_handle_faults(void)
{
	const long fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd >= 0)
		close((int)fd);
	return fd >= 0;
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS];
	unsigned int i;

	if (argc != 5)
		fail("usage: heap_traffic DEVICE GID_INDEX SECONDS SEED");
	gid_index = (unsigned char)atoi(argv[2]);
	kernel_waits = may_handle_faults();
	for (i = 0; i < SHELVES; i++)
		pthread_mutex_init(&shelves[i].lock, NULL);
	make_pattern();
	open_device(argv[1]);
	for (i = 0; i < THREADS; i++)
		start(&workers[i], (unsigned int)atoi(argv[4]) + i);
	usleep((useconds_t)(atof(argv[3]) * 1e6));
	stop = true;
	for (i = 0; i < THREADS; i++)
		finish(&workers[i]);
	require(!ibv_dealloc_pd(pd) && !ibv_close_device(context), "close");
	return 0;
}
