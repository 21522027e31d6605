// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/compiler.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "fs.h"

/* The layers are in the directory, hidden by the mount. */
static const char * const layers[] = { "lower", "upper", "work" };

#define OVERLAY_LAYERS "lowerdir=lower,upperdir=upper,workdir=work"

/* An image of size 0 is read-only, with the contents of @dir/file. */
static const struct {
	const char *type, *mkfs;
	off_t size;
} kinds[] = {
	[FS_EXT4_128]	 = { "ext4", "mkfs.ext4 -q -F -b 4096 -I 128 image", 32 << 20 },
	[FS_EXT4_1K]	 = { "ext4", "mkfs.ext4 -q -F -b 1024 image", 32 << 20 },
	[FS_EXT4_VERITY] = { "ext4", "mkfs.ext4 -q -F -b 4096 -O verity image", 32 << 20 },
	[FS_XFS]	 = {
		"xfs", "mkfs.xfs -q -f -K -i exchange=1 image || mkfs.xfs -q -f -K image", 300 << 20
	},
	[FS_BTRFS]	 = { "btrfs", "mkfs.btrfs -q -f image", 256 << 20 },
	[FS_SQUASHFS]	 = { "squashfs", "mksquashfs file image -quiet -no-progress" },
	[FS_EROFS]	 = { "erofs" },
	[FS_EROFS_FILE]	 = { "erofs" },
	[FS_OVERLAY]	 = { "overlay" },
	[FS_OVERLAY_META] = { "overlay" },
	[FS_TMPFS]	 = { "tmpfs" },
};

const char *fs_needs(enum own_fs fs)
{
	static const char * const needs[] = {
		[FS_EXT4_128]	 = "needs CONFIG_EXT4_FS, CONFIG_BLK_DEV_LOOP and mkfs.ext4",
		[FS_EXT4_1K]	 = "needs CONFIG_EXT4_FS, CONFIG_BLK_DEV_LOOP and mkfs.ext4",
		[FS_EXT4_VERITY] =
			"needs CONFIG_EXT4_FS, CONFIG_FS_VERITY, CONFIG_BLK_DEV_LOOP, mkfs.ext4",
		[FS_XFS]	 = "needs CONFIG_XFS_FS, CONFIG_BLK_DEV_LOOP and mkfs.xfs",
		[FS_BTRFS]	 = "needs CONFIG_BTRFS_FS, CONFIG_BLK_DEV_LOOP and mkfs.btrfs",
		[FS_SQUASHFS]	 = "needs CONFIG_SQUASHFS_ZLIB, CONFIG_BLK_DEV_LOOP and mksquashfs",
		[FS_OVERLAY]	 = "needs CONFIG_OVERLAY_FS",
		[FS_OVERLAY_META] = "needs CONFIG_OVERLAY_FS with metacopy and verity",
		[FS_TMPFS]	 = "needs CONFIG_TMPFS",
		[FS_STALLING]	 =
			"needs CONFIG_FUSE_FS, CONFIG_SQUASHFS_ZLIB, CONFIG_BLK_DEV_LOOP, mksquashfs",
		[FS_FUSE]	 = "needs CONFIG_FUSE_FS",
		[FS_FUSE_HUNG]	 = "needs CONFIG_FUSE_FS",
		[FS_FUSE_SILENT] = "needs CONFIG_FUSE_FS",
		[FS_FUSE_SLOW]	 = "needs CONFIG_FUSE_FS",
		[FS_EROFS]	 = "needs CONFIG_EROFS_FS and CONFIG_BLK_DEV_LOOP",
		[FS_EROFS_FILE]	 = "needs CONFIG_EROFS_FS_BACKED_BY_FILE",
	};

	return needs[fs] ?: "";
}

static bool kernel_has(const char *type)
{
	char line[64], name[64];
	bool found = false;
	FILE *f;

	f = fopen("/proc/filesystems", "r");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f))
		found = (sscanf(line, "nodev %63s", name) == 1 ||
			 sscanf(line, "%63s", name) == 1) && !strcmp(name, type);
	fclose(f);
	return found;
}

int fs_new_page(const char *path)
{
	int fd, err;

	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	err = ftruncate(fd, 4096) ? -errno : 0;
	close(fd);
	return err;
}

bool fs_is(int fd, const char *type)
{
	unsigned int maj, min;
	char line[4096], *dash;
	bool found = false;
	struct stat st;
	FILE *f;

	f = fopen("/proc/self/mountinfo", "r");
	if (!f)
		return false;
	if (fstat(fd, &st))
		st.st_dev = 0;
	while (!found && fgets(line, sizeof(line), f)) {
		dash = strstr(line, " - ");
		found = dash && sscanf(line, "%*d %*d %u:%u", &maj, &min) == 2 &&
			makedev(maj, min) == st.st_dev &&
			!strncmp(dash + 3, type, strlen(type)) && dash[3 + strlen(type)] == ' ';
	}
	fclose(f);
	return found;
}

/* In the current directory; the output of a command is only shown if it fails. */
static int run(const char *command)
{
	char line[200];
	int status;

	snprintf(line, sizeof(line), "out=$(%s 2>&1) || { r=$?; echo \"# $out\"; exit $r; }",
		 command);
	status = system(line);
	if (!status)
		return 0;
	return WIFEXITED(status) && WEXITSTATUS(status) == 127 ? -EOPNOTSUPP : -EIO;
}

/*
 * squashfs reads ahead synchronously: the caller waits for the device. The server of the
 * image is at "below". Without compression, the image starts with the contents of files.
 */
static int mount_stalling(void)
{
	int err;

	err = run("mksquashfs * image -noD -no-fragments -quiet -no-progress");
	if (err)
		return err;
	if (!kernel_has("squashfs"))
		return -EOPNOTSUPP;
	if (mkdir("below", 0755) || rename("image", "below/file") || chdir("below"))
		return -errno;
	err = fuse_mount_stalling();
	if (chdir("..") && !err)
		err = -errno;
	if (err)
		return err;
	err = run("mount -t squashfs -o loop,ro below/file .");
	if (err) {
		fuse_end();
		umount("below");
	}
	return err;
}

static int mount_image(enum own_fs fs)
{
	int fd, err = 0;

	if (kinds[fs].size) {
		fd = open("image", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0)
			return -errno;
		err = ftruncate(fd, kinds[fs].size) ? -errno : 0;
		close(fd);
	}
	err = err ?: run(kinds[fs].mkfs);
	if (err)
		return err;
	/* Unmounting detaches the loop device. */
	err = run(kinds[fs].size ? "mount -o loop image ." : "mount -o loop,ro image .");
	return err && !kernel_has(kinds[fs].type) ? -EOPNOTSUPP : err;
}

#define EROFS_BLOCK 4096
#define EROFS_NID(n) (EROFS_BLOCK + 32 * (n))

/* The part of an erofs superblock that must not be zero, and inodes, in little endian. */
struct erofs_super {
	uint32_t magic, checksum, features;
	uint8_t block_bits, slots;
	uint16_t root_nid;
	uint64_t inodes, epoch;
	uint32_t nsec, blocks, meta_block;
};

struct erofs_inode {
	uint16_t format, xattrs, mode, nlink;
	uint32_t size, mtime, block, ino;
	uint16_t uid, gid;
	uint32_t reserved;
};

struct erofs_dirent {
	uint64_t nid;
	uint16_t name_at;
	uint8_t type, reserved;
} __packed;

/*
 * Blocks of an image without compression: the superblock, inodes 1 (a directory) and 2,
 * the directory, and from EROFS_FILE_AT on the contents of "file".
 */
static int write_erofs(void)
{
	struct {
		struct erofs_dirent dirent[3];
		char names[7];
	} __packed dir = {
		.dirent = {
			{ .nid = 1, .name_at = sizeof(dir.dirent), .type = 2 },
			{ .nid = 1, .name_at = sizeof(dir.dirent) + 1, .type = 2 },
			{ .nid = 2, .name_at = sizeof(dir.dirent) + 3, .type = 1 },
		},
		.names = { '.', '.', '.', 'f', 'i', 'l', 'e' },
	};
	const struct erofs_super super = {
		.magic = 0xe0f5e1e2, .block_bits = 12, .root_nid = 1, .inodes = 2,
		.blocks = EROFS_FILE_AT / EROFS_BLOCK + 1, .meta_block = 1,
	};
	struct erofs_inode inode[] = {
		{ .mode = S_IFDIR | 0755, .nlink = 2, .size = sizeof(dir), .block = 2, .ino = 1 },
		{ .mode = S_IFREG | 0755, .nlink = 1, .block = EROFS_FILE_AT / EROFS_BLOCK,
		  .ino = 2 },
	};
	char data[EROFS_BLOCK] = "";
	ssize_t size;
	int in, out;
	bool ok;

	in = open("file", O_RDONLY | O_CLOEXEC);
	out = open("image", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	size = read(in, data, sizeof(data));
	inode[1].size = size;
	ok = size > 0 && pwrite(out, &super, sizeof(super), 1024) == sizeof(super) &&
	     pwrite(out, inode, sizeof(inode), EROFS_NID(1)) == sizeof(inode) &&
	     pwrite(out, &dir, sizeof(dir), 2 * EROFS_BLOCK) == sizeof(dir) &&
	     pwrite(out, data, sizeof(data), EROFS_FILE_AT) == sizeof(data) && !fsync(out);
	close(in);
	close(out);
	return ok ? 0 : -EIO;
}

static int mount_erofs(bool on_device)
{
	int err = write_erofs();

	if (err)
		return err;
	if (!kernel_has("erofs"))
		return -EOPNOTSUPP;
	if (on_device)
		return run("mount -t erofs -o loop,ro image .");
	if (!mount("image", ".", "erofs", MS_RDONLY, NULL))
		return 0;
	/* Without CONFIG_EROFS_FS_BACKED_BY_FILE */
	return errno == ENOTBLK ? -EOPNOTSUPP : -errno;
}

static bool is_fuse(enum own_fs fs)
{
	return fs == FS_FUSE || fs == FS_FUSE_HUNG || fs == FS_FUSE_SILENT || fs == FS_FUSE_SLOW;
}

static int mount_here(enum own_fs fs)
{
	const char *options = NULL;
	size_t i;

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -errno;
	if (fs == FS_STALLING)
		return mount_stalling();
	if (is_fuse(fs))
		return fuse_mount(fs);
	if (fs == FS_EROFS || fs == FS_EROFS_FILE)
		return mount_erofs(fs == FS_EROFS);
	if (kinds[fs].mkfs)
		return mount_image(fs);
	if (fs == FS_OVERLAY || fs == FS_OVERLAY_META) {
		for (i = 0; i < ARRAY_LEN(layers); i++)
			if (mkdir(layers[i], 0755) && errno != EEXIST)
				return -errno;
		options = fs == FS_OVERLAY ? OVERLAY_LAYERS :
			  OVERLAY_LAYERS ",redirect_dir=on,metacopy=on,verity=on";
	}
	if (!mount(kinds[fs].type, ".", kinds[fs].type, 0, options))
		return 0;
	/* EINVAL: overlayfs does not have the options; only the kernel may mount its tmpfs. */
	return errno == ENODEV || ((fs == FS_OVERLAY_META || fs == FS_TMPFS) && errno == EINVAL) ?
		-EOPNOTSUPP : -errno;
}

int fs_mount(enum own_fs fs, const char *dir)
{
	int err, old;

	if (fs == FS_NONE)
		return 0;
	old = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (old < 0)
		return -errno;
	err = chdir(dir) ? -errno : mount_here(fs);
	/* mount(8) only prints its reason. */
	if (err == -EIO && (access("/dev/loop-control", F_OK) ||
			    (fs == FS_EXT4_VERITY && access("/sys/fs/ext4/features/verity", F_OK))))
		err = -EOPNOTSUPP;
	if (fchdir(old) && !err)
		err = -errno;
	close(old);
	return err;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return ftw->level ? remove(path) : 0;
}

int fs_unmount(enum own_fs fs, const char *dir)
{
	char below[256];

	if (is_fuse(fs))
		fuse_end();
	if (fs == FS_STALLING)
		fs_stall(false);
	if (fs != FS_NONE && umount(dir))
		return -errno;
	if (fs == FS_STALLING) {
		fuse_end();
		snprintf(below, sizeof(below), "%s/below", dir);
		if (umount(below))
			return -errno;
	}
	return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) ? -errno : 0;
}
