/* SPDX-License-Identifier: GPL-2.0 */
/* Private file systems for tests. */
#ifndef __BPF_PROVENANCE_FS_H
#define __BPF_PROVENANCE_FS_H

#include <stdbool.h>
#include <sys/types.h>

enum own_fs {
	FS_NONE,		/* the file system of @dir */
	FS_EXT4_128,		/* inodes of 128 bytes: times in whole seconds */
	FS_EXT4_1K,		/* blocks of 1 KiB */
	FS_EXT4_VERITY,
	FS_XFS,
	FS_BTRFS,
	FS_SQUASHFS,		/* contents of @dir/file at mount time */
	FS_OVERLAY,		/* over @dir/lower, which the caller may have made */
	FS_OVERLAY_META,	/* the same, where chmod() copies no data; verity=on */
	FS_TMPFS,
	FS_STALLING,		/* all files of @dir, on a device that fs_stall() stalls */
	FS_FUSE,		/* contents of @dir/file at mount time */
	FS_FUSE_HUNG,		/* the same, but a read is never answered */
	FS_FUSE_SILENT,		/* reads bypass the page cache and are never answered */
	FS_FUSE_SLOW,		/* @dir/file is also file1, file2, ...; a read takes two seconds */
	FS_EROFS,		/* contents of @dir/file at mount time, on a device */
	FS_EROFS_FILE,		/* the same in @dir/image, without a device */
};

/* Offset of the file's contents in the image of FS_EROFS and FS_EROFS_FILE. */
#define EROFS_FILE_AT (3 * 4096)

/* Does the file lie on a file system of this type, as /proc/filesystems names it? */
bool fs_is(int fd, const char *type);

/*
 * Mount one at @dir, a directory on a disk, where only this process and its children
 * see it. Returns 0 or a negative errno; -EOPNOTSUPP if the kernel lacks the file
 * system, or the machine its mkfs. fs_unmount() cleans up even then.
 */
int fs_mount(enum own_fs fs, const char *dir);

/* Create a file of 4096 zeros. Returns 0 or a negative errno. */
int fs_new_page(const char *path);

/* The text of a SKIP() after -EOPNOTSUPP. */
const char *fs_needs(enum own_fs fs);

/* Unmount it, or return -EBUSY, and empty the directory. FS_NONE: only the latter. */
int fs_unmount(enum own_fs fs, const char *dir);

/*
 * Answer no read of the device of FS_STALLING, until it is called with false. fs_unmount()
 * does that as well. If the test ends without it, the reads fail.
 */
void fs_stall(bool stall);

/* Does a read wait for the stalled device? Returns its offset in the image, or -1. */
off_t fs_stalled_read(void);

/*
 * The number of reads that the server of FS_FUSE, or a similar one, has received. It takes
 * requests in their order: all reads that were sent before a call that waits for it are counted.
 */
unsigned int fuse_reads(void);

/* Stop the server of FS_FUSE: it answers nothing until it is continued. */
void fuse_stop(bool stop);

/* For fs_mount(): the server of FS_FUSE at the current directory, in fuse.c. */
int fuse_mount(enum own_fs fs);
int fuse_mount_stalling(void);
void fuse_end(void);

#endif
