/* SPDX-License-Identifier: GPL-2.0 */
/* File systems that a test has for itself. */
#ifndef __BPF_PROVENANCE_FS_H
#define __BPF_PROVENANCE_FS_H

#include <stdbool.h>

enum own_fs {
	FS_NONE,		/* what @dir lies on */
	FS_EXT4_128,		/* inodes of 128 bytes: times in whole seconds */
	FS_EXT4_VERITY,
	FS_XFS,
	FS_BTRFS,
	FS_SQUASHFS,		/* has what @dir/file has when it is mounted */
	FS_OVERLAY,		/* over @dir/lower, which the caller may have made */
	FS_OVERLAY_META,	/* the same, where chmod() copies no data; verity=on */
	FS_TMPFS,
	FS_FUSE,		/* its file is what @dir/file says when it is mounted */
	FS_FUSE_HUNG,		/* the same, but a read is never answered */
	FS_EROFS,		/* has what @dir/file has when it is mounted, on a device */
	FS_EROFS_FILE,		/* the same in @dir/image, without one */
};

/* Where the image of FS_EROFS and FS_EROFS_FILE has the contents of its file. */
#define EROFS_FILE_AT (3 * 4096)

/* Does the file lie on a file system of this type, as /proc/filesystems names it? */
bool fs_is(int fd, const char *type);

/*
 * Mount one at @dir, a directory on a disk, where only this process and its children
 * see it. Returns 0 or a negative errno; -EOPNOTSUPP if the kernel has no such file
 * system, or the machine no program that makes one. fs_unmount() cleans up, even so.
 */
int fs_mount(enum own_fs fs, const char *dir);

/* Unmount it, at once or with -EBUSY, and empty the directory. FS_NONE: that alone. */
int fs_unmount(enum own_fs fs, const char *dir);

/* For fs_mount(): the server of FS_FUSE at the current directory, in fuse.c. */
int fuse_mount(bool hangs);
void fuse_end(void);

#endif
