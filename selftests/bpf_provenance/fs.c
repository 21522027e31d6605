// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
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

/* What it takes lies in the directory, under what is mounted there. */
static const char * const layers[] = { "lower", "upper", "work" };

static const struct {
	const char *type, *mkfs;
	off_t size;
} kinds[] = {
	[FS_EXT4_128]	 = { "ext4", "mkfs.ext4 -q -F -b 4096 -I 128 image", 32 << 20 },
	[FS_EXT4_VERITY] = { "ext4", "mkfs.ext4 -q -F -b 4096 -O verity image", 32 << 20 },
	[FS_XFS]	 = { "xfs", "mkfs.xfs -q -f -K image", 300 << 20 },
	[FS_OVERLAY]	 = { "overlay" },
	[FS_TMPFS]	 = { "tmpfs" },
};

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

/* In the current directory; the output of a command is only seen if it fails. */
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

static int mount_image(enum own_fs fs)
{
	int fd, err;

	fd = open("image", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	err = ftruncate(fd, kinds[fs].size) ? -errno : 0;
	close(fd);
	err = err ?: run(kinds[fs].mkfs);
	if (err)
		return err;
	/* Its loop device goes when it is unmounted. */
	err = run("mount -o loop image .");
	return err && !kernel_has(kinds[fs].type) ? -EOPNOTSUPP : err;
}

static int mount_here(enum own_fs fs)
{
	const char *options = NULL;
	size_t i;

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -errno;
	if (fs == FS_FUSE || fs == FS_FUSE_HUNG)
		return fuse_mount(fs == FS_FUSE_HUNG);
	if (kinds[fs].mkfs)
		return mount_image(fs);
	if (fs == FS_OVERLAY) {
		for (i = 0; i < ARRAY_LEN(layers); i++)
			if (mkdir(layers[i], 0755) && errno != EEXIST)
				return -errno;
		options = "lowerdir=lower,upperdir=upper,workdir=work";
	}
	if (!mount(kinds[fs].type, ".", kinds[fs].type, 0, options))
		return 0;
	return errno == ENODEV ? -EOPNOTSUPP : -errno;
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
	if (fs == FS_FUSE || fs == FS_FUSE_HUNG)
		fuse_end();
	if (fs != FS_NONE && umount(dir))
		return -errno;
	return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) ? -errno : 0;
}
