// Stands for file systems that lack functions: those named in CANNOT fail with the number behind
// them, as in CANNOT=fchmod:1,rename:38.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>

static int fails(const char* what) {
  const char* all = getenv("CANNOT");
  const size_t length = strlen(what);
  while (all != NULL && *all != 0) {
    if (strncmp(all, what, length) == 0 && all[length] == ':') {
      errno = atoi(all + length + 1);
      return 1;
    }
    all = strchr(all, ',');
    if (all != NULL) ++all;
  }
  return 0;
}

#define CALL(name, parameters, arguments)                            \
  int name parameters {                                              \
    if (fails(#name)) return -1;                                     \
    return ((int(*) parameters)dlsym(RTLD_NEXT, #name)) arguments;   \
  }

CALL(chmod, (const char* path, mode_t mode), (path, mode))
CALL(fchmod, (int file, mode_t mode), (file, mode))
CALL(fchown, (int file, uid_t owner, gid_t group), (file, owner, group))
CALL(rename, (const char* from, const char* to), (from, to))
CALL(renameat2, (int a, const char* from, int b, const char* to, unsigned flags),
     (a, from, b, to, flags))
CALL(link, (const char* from, const char* to), (from, to))
CALL(linkat, (int a, const char* from, int b, const char* to, int flags), (a, from, b, to, flags))
CALL(flock, (int file, int operation), (file, operation))
CALL(ftruncate, (int file, off_t size), (file, size))
CALL(fallocate, (int file, int mode, off_t at, off_t size), (file, mode, at, size))
CALL(sync_file_range, (int file, off64_t at, off64_t size, unsigned flags), (file, at, size, flags))

int fsync(int file) {
  struct stat info;
  if (fstat(file, &info) == 0 && fails(S_ISDIR(info.st_mode) ? "syncdir" : "fsync")) return -1;
  return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file);
}

static int control(const char* name, int file, int command, void* argument) {
  if (command >= F_OFD_GETLK && command <= F_OFD_SETLKW && fails("locks")) return -1;
  return ((int (*)(int, int, void*))dlsym(RTLD_NEXT, name))(file, command, argument);
}

int fcntl(int file, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  return control("fcntl", file, command, argument);
}

int fcntl64(int file, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  return control("fcntl64", file, command, argument);
}

void* mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) {
  if (file >= 0 && (flags & MAP_SHARED) != 0 && fails("mmap")) return MAP_FAILED;
  return ((void* (*)(void*, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap"))(
      at, size, protection, flags, file, offset);
}
