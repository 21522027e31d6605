/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM build_id

#if !defined(_TRACE_BUILD_ID_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_BUILD_ID_H

#include <linux/fs.h>
#include <linux/kdev_t.h>
#include <linux/tracepoint.h>

DECLARE_EVENT_CLASS(build_id,
	TP_PROTO(const struct inode *inode, int err),
	TP_ARGS(inode, err),
	TP_STRUCT__entry(__field(dev_t, dev)
			 __field(u64, ino)
			 __field(int, err)),
	TP_fast_assign(__entry->dev = inode->i_sb->s_dev;
		       __entry->ino = inode->i_ino;
		       __entry->err = err;),
	TP_printk("dev=%u:%u ino=%llu err=%d", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->ino, __entry->err)
);

#define DEFINE_BUILD_ID_EVENT(name)				\
	DEFINE_EVENT(build_id, name,				\
		TP_PROTO(const struct inode *inode, int err),	\
		TP_ARGS(inode, err))

/* The headers of a file were read to find its build ID; @err is the result. */
DEFINE_BUILD_ID_EVENT(build_id_parse);
/* The cache has an entry. @err: 0, or -ENOENT if the file has no build ID. */
DEFINE_BUILD_ID_EVENT(build_id_hit);
/* The cache has no entry. */
DEFINE_BUILD_ID_EVENT(build_id_miss);
/* An entry was added (@err is 0), or could not be added (-EAGAIN). */
DEFINE_BUILD_ID_EVENT(build_id_fill);
/*
 * The entry was removed because somebody got write access (open, truncate, nfsd),
 * FIDEDUPERANGE may have changed the blocks, or the inode is evicted. There is no event when
 * an entry makes room for another one, is replaced after a change of ctime or size, or the
 * cache is switched off.
 */
DEFINE_BUILD_ID_EVENT(build_id_invalidate);

#endif /* _TRACE_BUILD_ID_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
