// SPDX-License-Identifier: GPL-2.0
/*
 * The user space of Documentation/bpf/task_vma.rst: from a record to a file, and to a
 * symbol in it. Link with -lelf.
 */
#include <fcntl.h>
#include <gelf.h>
#include <linux/fs.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* [record] */
/* As the kernel has it: from vmlinux.h, or copied. */
struct bpf_task_vma_record {
	__u64 start;
	__u64 end;
	__u64 offset;
	__u64 ino;
	__u64 mm;
	__u32 flags;
	__u32 seq;
	__u32 dev_major;
	__u32 dev_minor;
	__u32 generation;
	__u8 build_id_status;
	__u8 build_id_len;
	__u8 reserved[2];
	__u8 build_id[20];
	__u8 reserved2[4];
};

/* Where in the file is the sampled address? */
static uint64_t file_offset(const struct bpf_task_vma_record *vma, uint64_t ip)
{
	return ip - vma->start + vma->offset;
}
/* [end of record] */

/* [path] */
/* Is @fd the file of the record? */
static bool is_file_of(int fd, const struct bpf_task_vma_record *vma)
{
	unsigned int generation;
	struct stat st;

	if (fstat(fd, &st) || st.st_ino != vma->ino || major(st.st_dev) != vma->dev_major ||
	    minor(st.st_dev) != vma->dev_minor)
		return false;
	/* A later file may have the same inode number, but not the same generation. */
	if (ioctl(fd, FS_IOC_GETVERSION, &generation))
		return true;	/* the file system has none */
	return generation == vma->generation;
}

/*
 * Opens the mapped file while the process lives, and fills @path for later samples of
 * the same (dev, ino, generation). Needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE.
 */
static int open_file_of(int pid, const struct bpf_task_vma_record *vma, char *path, size_t size)
{
	char link[100];
	ssize_t len;
	int fd;

	snprintf(link, sizeof(link), "/proc/%d/map_files/%llx-%llx", pid,
		 (unsigned long long)vma->start, (unsigned long long)vma->end);
	fd = open(link, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	len = readlink(link, path, size - 1);
	/* Something else may be mapped there by now. */
	if (len < 0 || !is_file_of(fd, vma)) {
		close(fd);
		return -1;
	}
	path[len] = 0;
	return fd;
}
/* [end of path] */

/* [symbol] */
/* Finds the function at an offset of an ELF file, and copies its name. */
static bool symbol_at(int fd, uint64_t offset, char *name, size_t size)
{
	Elf_Scn *section = NULL;
	bool found = false;
	GElf_Shdr shdr;
	GElf_Phdr phdr;
	uint64_t addr;
	size_t i, n;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!elf || elf_getphdrnum(elf, &n))
		goto out;
	/* From a file offset to an address of the file's own, as symbols have it. */
	for (i = 0; i < n; i++)
		if (gelf_getphdr(elf, i, &phdr) && phdr.p_type == PT_LOAD &&
		    offset - phdr.p_offset < phdr.p_filesz)
			break;
	if (i == n)
		goto out;
	addr = offset - phdr.p_offset + phdr.p_vaddr;

	while (!found && (section = elf_nextscn(elf, section))) {
		Elf_Data *data = elf_getdata(section, NULL);
		GElf_Sym sym;

		if (!data || !gelf_getshdr(section, &shdr) ||
		    (shdr.sh_type != SHT_SYMTAB && shdr.sh_type != SHT_DYNSYM))
			continue;
		for (i = 0; !found && gelf_getsym(data, i, &sym); i++) {
			if (GELF_ST_TYPE(sym.st_info) != STT_FUNC ||
			    addr - sym.st_value >= sym.st_size)
				continue;
			snprintf(name, size, "%s", elf_strptr(elf, shdr.sh_link, sym.st_name));
			found = true;
		}
	}
out:
	elf_end(elf);
	return found;
}
/* [end of symbol] */
