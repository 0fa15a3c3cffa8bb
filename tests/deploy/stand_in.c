/* Takes the place of every program of docker-compose.yml: checks, then waits for a signal.
 *
 * Absolute paths in arguments (/path and --flag=/path) can be read. With TOCSIN_STORAGE__PATH, that
 * folder and /tmp can be written, the credentials file can be read, and the root file system is
 * read-only. It prints "ready", or what is wrong. The program that makes the bucket ends. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void must(int ok, const char *what, const char *path) {
  if (ok) return;
  fprintf(stderr, "%s %s: %s\n", what, path, strerror(errno));
  exit(1);
}

static int creates(const char *folder) {
  char path[4096];
  snprintf(path, sizeof path, "%s/stand-in", folder);
  return open(path, O_CREAT | O_WRONLY, 0600) >= 0;
}

int main(int count, char **arguments) {
  int ends = 0;
  for (int i = 1; i < count; i++) {
    char *value = strchr(arguments[i], '=');
    char *path = value ? value + 1 : arguments[i];
    if (*path == '/') must(access(path, R_OK) == 0, "read", path);
    if (strcmp(path, "/bucket.py") == 0) ends = 1;
  }
  char *store = getenv("TOCSIN_STORAGE__PATH");
  if (store) {
    char *credentials = getenv("TOCSIN_STORAGE__UPLOAD__CREDENTIALS_FILE");
    must(creates(store), "write", store);
    must(creates("/tmp"), "write", "/tmp");
    must(access(credentials, R_OK) == 0, "read", credentials);
    must(!creates("") && errno == EROFS, "read-only", "/");
  }
  puts("ready");
  fflush(stdout);
  while (!ends) pause();
  return 0;
}
