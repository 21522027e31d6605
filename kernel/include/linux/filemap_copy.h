/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_FILEMAP_COPY_H
#define _LINUX_FILEMAP_COPY_H

#include <linux/types.h>

struct address_space;
struct file;

ssize_t filemap_copy_nowait(struct address_space *mapping, loff_t pos, void *buf, size_t len,
			    bool unpinned);
ssize_t filemap_copy(struct file *file, loff_t pos, void *buf, size_t len);
void filemap_start_read(struct file *file, loff_t pos);

#endif
