// Loaded before everything else (LD_PRELOAD): the n-th larger allocation of C++, thread, write, fsync or rename fails.
//
// halfstep_arm(kind, n) lets the next n calls of a kind pass and the one after them fail, once; n < 0 lets all pass.
// halfstep_calls(kind) says how many there were since then.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>

enum { ALLOCATION, THREAD, WRITE, FSYNC, RENAME, KINDS };
enum { LARGE = 512 };

static std::atomic<long> left_over[KINDS] = {-1, -1, -1, -1, -1};
static std::atomic<long> calls[KINDS];

static bool fails(int kind) {
    if (left_over[kind] < 0) return false;
    ++calls[kind];
    return left_over[kind]-- == 0;
}

template <class F>
static F next(const char *name) {
    return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

extern "C" {

void halfstep_arm(int kind, long n) {
    calls[kind] = 0;
    left_over[kind] = n;
}

long halfstep_calls(int kind) { return calls[kind]; }
}

// What the core allocates for rows and cells. Left alone are NumPy's own allocations (some of its loops do not look
// whether they succeeded) and the few bytes of a call's arguments (whose conversion by nanobind may not throw).
void *operator new(size_t n) {
    if (n >= LARGE && fails(ALLOCATION)) throw std::bad_alloc();
    void *found = malloc(n ? n : 1);
    if (!found) throw std::bad_alloc();
    return found;
}
void *operator new[](size_t n) { return operator new(n); }
void *operator new(size_t n, std::align_val_t a) {
    if (n >= LARGE && fails(ALLOCATION)) throw std::bad_alloc();
    void *found = aligned_alloc(size_t(a), (n + size_t(a) - 1) / size_t(a) * size_t(a));
    if (!found) throw std::bad_alloc();
    return found;
}
void *operator new[](size_t n, std::align_val_t a) { return operator new(n, a); }
void operator delete(void *p) noexcept { free(p); }
void operator delete[](void *p) noexcept { free(p); }
void operator delete(void *p, size_t) noexcept { free(p); }
void operator delete[](void *p, size_t) noexcept { free(p); }
void operator delete(void *p, std::align_val_t) noexcept { free(p); }
void operator delete[](void *p, std::align_val_t) noexcept { free(p); }
void operator delete(void *p, size_t, std::align_val_t) noexcept { free(p); }
void operator delete[](void *p, size_t, std::align_val_t) noexcept { free(p); }

extern "C" {

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg) {
    static auto real = next<int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)>("pthread_create");
    return fails(THREAD) ? EAGAIN : real(t, a, f, arg);
}

static int is_file(int fd) {
    struct stat about;
    return fd > 2 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
}

ssize_t write(int fd, const void *data, size_t n) {
    static auto real = next<ssize_t (*)(int, const void *, size_t)>("write");
    if (is_file(fd) && fails(WRITE)) {
        errno = ENOSPC;
        return -1;
    }
    return real(fd, data, n);
}

int fsync(int fd) {
    static auto real = next<int (*)(int)>("fsync");
    if (is_file(fd) && fails(FSYNC)) {
        errno = EIO;
        return -1;
    }
    return real(fd);
}

int rename(const char *from, const char *to) {
    static auto real = next<int (*)(const char *, const char *)>("rename");
    if (fails(RENAME)) {
        errno = EIO;
        return -1;
    }
    return real(from, to);
}
}
