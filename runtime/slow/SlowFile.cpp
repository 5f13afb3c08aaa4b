#include "runtime/slow/SlowFile.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace stow::slow {

namespace {

/// Of tmpfs and ramfs, as statfs(2) names them.
constexpr long tmpfsMagic = 0x01021994, ramfsMagic = 0x858458f6;

constexpr const char *remedy = "; name a folder on a disk with room: --offload=FOLDER";

struct Free {
  void operator()(char *memory) const { std::free(memory); }
};

/// Calls an interrupted system call again.
template <typename Call> auto uninterrupted(const Call &call) {
  auto result = call();
  while (result < 0 && errno == EINTR)
    result = call();
  return result;
}

/// Bytes that this user may still write in the file system of `file`.
Bytes freeBytes(int file) {
  struct statvfs system = {};
  return ::fstatvfs(file, &system) == 0
             ? static_cast<Bytes>(system.f_bavail) * static_cast<Bytes>(system.f_frsize)
             : 0;
}

} // namespace

SlowFile::SlowFile(const std::string &folder, Bytes bytes) : path(folder), size(bytes) {
  file = open();
  if (file < 0)
    throw Error::badInput("cannot make the file of slow memory in '" + path +
                          "': " + std::strerror(errno) + remedy);
  direct = ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) | O_DIRECT) == 0;
  try {
    reserve();
    probe();
  } catch (...) {
    ::close(file);
    throw;
  }
  struct statfs system = {};
  inMemory =
      ::fstatfs(file, &system) == 0 && (system.f_type == tmpfsMagic || system.f_type == ramfsMagic);
}

SlowFile::~SlowFile() { ::close(file); }

/// Without a name; where the file system has no such files, of a name that is gone before it returns.
int SlowFile::open() const {
  const int nameless = ::open(path.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (nameless >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
    return nameless;
  std::string name = path + "/stowage-slow-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0)
    ::unlink(name.c_str());
  return named;
}

void SlowFile::reserve() {
  auto refuse = [&](const std::string &why) {
    throw Error::badInput("the slow memory in '" + path + "' needs " + formatBytesExact(size) +
                          ", but " + why + remedy);
  };
  rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      limit.rlim_cur < static_cast<rlim_t>(size))
    refuse("this process may write files of " +
           formatBytesExact(static_cast<Bytes>(limit.rlim_cur)) + " at most (ulimit -f)");
  const Bytes room = freeBytes(file);
  if (room < size) // rather than to fill the disk for a moment
    refuse("there is " + formatBytesExact(room) + " of room");
  if (uninterrupted([&] { return ::fallocate(file, 0, 0, size); }) == 0)
    return;
  if (errno == EDQUOT)
    refuse("the quota of this user leaves less");
  if (errno == ENOSPC)
    refuse("there is " + formatBytesExact(room) + " of room");
  if (errno != EOPNOTSUPP && errno != ENOSYS)
    refuse(std::string("it cannot be reserved: ") + std::strerror(errno));
  reserved = false;
  if (::ftruncate(file, size) != 0)
    refuse(std::string("it cannot be made so long: ") + std::strerror(errno));
}

/// Some file systems take the flag and refuse the first transfer.
void SlowFile::probe() {
  if (!direct || size < alignment)
    return;
  const std::unique_ptr<char, Free> page(
      static_cast<char *>(std::aligned_alloc(alignment, alignment)));
  std::memset(page.get(), 0, alignment);
  const auto done = uninterrupted([&] { return ::pwrite(file, page.get(), alignment, 0); });
  if (done < 0 && errno == EINVAL)
    direct = ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) & ~O_DIRECT) != 0;
}

std::vector<std::string> SlowFile::notes() const {
  std::vector<std::string> notes;
  if (inMemory)
    notes.push_back("'" + path +
                    "' is a tmpfs, which is memory: what travels there still takes memory of this "
                    "machine; name a folder on a disk: --offload=FOLDER");
  else if (!direct)
    notes.push_back("the file system of '" + path +
                    "' has no O_DIRECT: copies pass through the page cache");
  if (!reserved)
    notes.push_back("the file system of '" + path +
                    "' reserves no room: a disk that fills up ends the run");
  return notes;
}

void SlowFile::fail(const char *what, Bytes offset, Bytes count, Bytes done, int problem) const {
  const char *why = problem != 0   ? std::strerror(problem)
                    : *what == 'r' ? "the file is shorter than what was reserved"
                                   : "the disk took no more";
  throw Error::badInput(concat("slow memory in '", path, "': expected to ", what, " ", count,
                               " bytes at ", offset, ", found ", done, ": ", why));
}

void SlowFile::write(Bytes offset, const char *from, Bytes count) const {
  for (Bytes done = 0; done < count;) {
    const auto written = uninterrupted([&] {
      return ::pwrite(file, from + done, static_cast<size_t>(count - done), offset + done);
    });
    if (written <= 0)
      fail("write", offset, count, done, written < 0 ? errno : 0);
    done += written;
  }
  if (!direct)
    dropFromCache(offset, count);
}

void SlowFile::read(Bytes offset, char *to, Bytes count) const {
  for (Bytes done = 0; done < count;) {
    const auto got = uninterrupted(
        [&] { return ::pread(file, to + done, static_cast<size_t>(count - done), offset + done); });
    if (got <= 0)
      fail("read", offset, count, done, got < 0 ? errno : 0);
    done += got;
  }
  if (!direct)
    dropFromCache(offset, count);
}

/// Only pages that are on the disk leave the cache. A disk that did not take them says so here.
void SlowFile::dropFromCache(Bytes offset, Bytes count) const {
  constexpr unsigned written =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (uninterrupted([&] { return ::sync_file_range(file, offset, count, written); }) != 0)
    fail("write", offset, count, 0, errno);
  ::posix_fadvise(file, offset, count, POSIX_FADV_DONTNEED);
}

} // namespace stow::slow
