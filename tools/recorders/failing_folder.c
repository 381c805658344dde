/* A process started with this in LD_PRELOAD gets EIO from every write and sync below the folder whose path is in the file
 * that FAILING_FOLDER_FILE names, once that file exists. Made for `ask_kafka_offline`; any broker may be run under it.
 *
 *   cc -shared -fPIC -o failing_folder.so tools/recorders/failing_folder.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static int has_failed(int fd) {
  const char *file = getenv("FAILING_FOLDER_FILE");
  int named = file ? open(file, O_RDONLY) : -1;
  if (named < 0) return 0;
  char folder[1024], link[64], path[1024];
  ssize_t length = read(named, folder, sizeof folder - 1);
  close(named);
  if (length <= 0) return 0;
  folder[length] = 0;
  folder[strcspn(folder, "\n")] = 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  return strncmp(path, folder, strlen(folder)) == 0;
}

#define FAILS(type, name, parameters, arguments)                  \
  type name parameters {                                          \
    static type(*real) parameters;                                \
    if (!real) real = (type(*) parameters)dlsym(RTLD_NEXT, #name); \
    if (has_failed(fd)) {                                         \
      errno = EIO;                                                \
      return -1;                                                  \
    }                                                             \
    return real arguments;                                        \
  }

FAILS(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
FAILS(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
FAILS(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
FAILS(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
FAILS(ssize_t, pwritev, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
FAILS(int, fsync, (int fd), (fd))
FAILS(int, fdatasync, (int fd), (fd))
FAILS(int, ftruncate, (int fd, off_t size), (fd, size))
FAILS(int, ftruncate64, (int fd, off64_t size), (fd, size))
