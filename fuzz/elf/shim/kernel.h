/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of the kernel that lib/buildid.c and mm/filemap_copy.c use, for a file that is a
 * buffer. Its page cache has folios of different sizes, some of which may be missing.
 */
#ifndef FUZZ_ELF_SHIM_KERNEL_H
#define FUZZ_ELF_SHIM_KERNEL_H

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <linux/fcntl.h>
#include <linux/types.h>
#include <sys/types.h>
#include <sys/stat.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef unsigned long pgoff_t;

#ifndef __aligned
#define __aligned(x)		__attribute__((aligned(x)))
#endif
#define likely(x)		(x)
#define unlikely(x)		(x)
#define IS_ENABLED(x)		SHIM_##x
#define SHIM_CONFIG_64BIT	1
#define data_race(x)		(x)
#define IS_ERR_VALUE(x)		((unsigned long)(x) >= (unsigned long)-4095)
#define IS_ERR(x)		IS_ERR_VALUE(x)
#define min(a, b)		((a) < (b) ? (a) : (b))
#define min_t(t, a, b)		((t)(a) < (t)(b) ? (t)(a) : (t)(b))
#define round_down(x, a)	((x) & ~((__typeof__(x))(a) - 1))
#define ALIGN(x, a)		(((x) + ((__typeof__(x))(a) - 1)) & ~((__typeof__(x))(a) - 1))
#define check_add_overflow(a, b, d) __builtin_add_overflow(a, b, d)
#define EXPORT_SYMBOL(x)
#define EXPORT_SYMBOL_GPL(x)
/* It says that a caller is wrong, which no file can make it be. */
#define WARN_ON(x)		({ if (x) abort(); 0; })
#define guard(x)		shim_guard
#define barrier()		__asm__ __volatile__("" : : : "memory")
#define smp_rmb()		do { } while (0)

#define GUP_PIN_COUNTING_BIAS	1024
#define PAGE_SHIFT		12
#define PAGE_SIZE		(1UL << PAGE_SHIFT)
#define offset_in_page(x)	((x) & (PAGE_SIZE - 1))
#define MAX_LFS_FILESIZE	INT64_MAX

struct folio {
	loff_t pos;
	size_t size;
	u8 *data;		/* of its own, so that reading beyond it is noticed */
	bool uptodate, pinned;
	bool partial_kmap;	/* only one page of it can be mapped */
	int refs;
	struct xarray *in;
	struct address_space *mapping;
};

struct folios {
	struct folio *folio;
	size_t nr;
};

/* What was put may have been reclaimed, and read again into folios of other sizes. */
struct xarray {
	struct folios now, then;
};

struct inode {
	mode_t i_mode;
	loff_t i_size;
};

struct file;
struct address_space_operations {
	int (*read_folio)(struct file *file, struct folio *folio);
};

struct address_space {
	const struct address_space_operations *a_ops;
	struct inode *host;
	struct xarray i_pages;
};

/* None is on overlayfs. */
struct dentry {
	unsigned int d_flags;
};

#define DCACHE_OP_REAL 1
enum { D_REAL_DATA_NOWAIT };

typedef unsigned int fmode_t;
#define FMODE_READ 1
#define FMODE_OPENED 2

struct file_operations {
	ssize_t (*read)(void);
	ssize_t (*read_iter)(void);
};

struct file {
	const struct file_operations *f_op;
	fmode_t f_mode;
	unsigned int f_flags;
	struct inode *inode;
	struct { struct dentry *dentry; } f_path;
	struct address_space *f_mapping;
	const u8 *data;
};

struct vm_area_struct {
	struct file *vm_file;
};

static inline void shim_guard(void) { }
static inline struct dentry *d_real(struct dentry *d, int type) { (void)d; (void)type; abort(); }
struct inode_of_dentry { struct address_space *i_mapping; };
static inline struct inode_of_dentry *d_inode(struct dentry *d) { (void)d; abort(); }
static inline struct inode *file_inode(struct file *f) { return f->inode; }
static inline loff_t i_size_read(const struct inode *i) { return i->i_size; }
static inline bool secretmem_mapping(struct address_space *m) { (void)m; return false; }
static inline bool mapping_inaccessible(struct address_space *m) { (void)m; return false; }
static inline bool xa_is_value(const void *e) { (void)e; return false; }
static inline bool xa_is_internal(const void *e) { (void)e; return false; }

struct xa_state {
	struct xarray *pages;
	pgoff_t index;
};

#define XA_STATE(xas, p, i)	struct xa_state xas = { (p), (i) }
struct folio *xas_load(const struct xa_state *xas);
ssize_t __kernel_read(struct file *file, void *buf, size_t count, loff_t *pos);

static inline bool folio_try_get(struct folio *f) { f->refs++; return true; }
void folio_put(struct folio *f);
static inline bool folio_test_partial_kmap(const struct folio *f) { return f->partial_kmap; }
static inline size_t folio_size(const struct folio *f) { return f->size; }
static inline loff_t folio_pos(const struct folio *f) { return f->pos; }
static inline bool folio_test_uptodate(const struct folio *f) { return f->uptodate; }
static inline bool folio_contain_hwpoisoned_page(const struct folio *f) { (void)f; return false; }
/* As of large folios, whose pins are counted apart. */
static inline bool folio_has_pincount(const struct folio *f) { (void)f; return true; }
static inline bool folio_maybe_dma_pinned(const struct folio *f) { return f->pinned; }
static inline int folio_ref_count(const struct folio *f) { return f->refs; }
static inline int folio_mapcount(const struct folio *f) { (void)f; return 0; }

/* Interrupts are on: no reference needs an irq_work to be put. */
struct irq_work {
	void (*func)(struct irq_work *work);
};

#define SHIM_CONFIG_IRQ_WORK	1
#define SHIM_CONFIG_PREEMPT_RT	0
#define IRQ_WORK_INIT(f)	{ .func = (f) }
#define DEFINE_PER_CPU(t, n)	__typeof__(t) n
#define raw_cpu_ptr(p)		(p)
#define container_of(p, t, m)	((t *)((char *)(p) - offsetof(t, m)))

static inline bool in_nmi(void) { return false; }
static inline bool irqs_disabled(void) { return false; }
static inline bool test_and_set_bit_lock(int n, unsigned long *p) { (void)n; (void)p; abort(); }
static inline void clear_bit_unlock(int n, unsigned long *p) { (void)n; (void)p; abort(); }
static inline bool folio_ref_dec_unless_one(struct folio *f) { (void)f; abort(); }
static inline bool irq_work_queue(struct irq_work *work) { (void)work; abort(); }

/* For filemap_start_read(), which no parser calls. */
static inline struct folio *filemap_get_folio(struct address_space *m, pgoff_t index)
{
	(void)m;
	(void)index;
	abort();
}
static inline bool filemap_invalidate_trylock_shared(struct address_space *m) { (void)m; abort(); }
static inline void filemap_invalidate_unlock_shared(struct address_space *m) { (void)m; abort(); }
static inline bool folio_trylock(struct folio *f) { (void)f; abort(); }
static inline void folio_unlock(struct folio *f) { (void)f; abort(); }

void *kmap_local_folio(struct folio *f, size_t off);
void kunmap_local(const void *addr);

#endif
