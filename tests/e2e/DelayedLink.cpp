// Preloaded into ranks on MPI: what they exchange takes as long as over a slower link, whatever connects them.
//
// DELAYED_LINK=GB/S,US: an exchange (MPI_Ialltoallv, MPI_Iallgatherv) is done no sooner than US microseconds and the time of the bytes that
// this rank sends, at that many gigabytes a second, behind its start or the end of the one before it, whichever is later. Programs find MPI's
// functions by dlsym, so that is what is replaced. Either family of libraries: handles pass through as whole registers.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace {

using Clock = std::chrono::steady_clock;
using Handle = intptr_t;

void *realSymbol(void *library, const char *name) {
  using Dlsym = void *(*)(void *, const char *);
  static const auto real = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34"));
  return real(library, name);
}

struct Functions {
  int (*alltoallv)(const void *, const int *, const int *, Handle, void *, const int *, const int *,
                   Handle, Handle, void *) = nullptr;
  int (*allgatherv)(const void *, int, Handle, void *, const int *, const int *, Handle, Handle,
                    void *) = nullptr;
  int (*test)(void *, int *, void *) = nullptr;
  int (*typeSize)(Handle, int *) = nullptr;
  int (*commRank)(Handle, int *) = nullptr;
  int (*commSize)(Handle, int *) = nullptr;
} real;

struct Link {
  double bytesPerSecond = 0, latencySeconds = 0;
  Clock::time_point free;

  Link() {
    double gigabytes = 0, microseconds = 0;
    const char *text = std::getenv("DELAYED_LINK");
    if (!text || std::sscanf(text, "%lf,%lf", &gigabytes, &microseconds) != 2 || gigabytes <= 0) {
      std::fputs("DELAYED_LINK: expected GB/S,US\n", stderr);
      std::abort();
    }
    bytesPerSecond = gigabytes * 1e9;
    latencySeconds = microseconds * 1e-6;
  }

  Clock::time_point reserve(double bytes) {
    free = std::max(free, Clock::now()) +
           std::chrono::duration_cast<Clock::duration>(
               std::chrono::duration<double>(latencySeconds + bytes / bytesPerSecond));
    return free;
  }
};

Link &link() {
  static Link only;
  return only;
}

/// Exchanges under way, by the address of their request: one at a time, but for what answers in between.
struct UnderWay {
  void *request = nullptr;
  Clock::time_point due;
  bool isDone = false;
};
std::array<UnderWay, 16> underWay;

void note(void *request, double bytes) {
  for (UnderWay &known : underWay)
    if (!known.request) {
      known = {request, link().reserve(bytes), false};
      return;
    }
  std::abort();
}

double sizeOf(Handle type) {
  int size = 0;
  real.typeSize(type, &size);
  return size;
}

int rankOf(Handle comm) {
  int rank = 0;
  real.commRank(comm, &rank);
  return rank;
}

int sizeOfComm(Handle comm) {
  int size = 0;
  real.commSize(comm, &size);
  return size;
}

int MPI_Ialltoallv(const void *from, const int *counts, const int *starts, Handle type, void *to,
                   const int *toCounts, const int *toStarts, Handle toType, Handle comm,
                   void *request) {
  double sent = 0;
  const int own = rankOf(comm), ranks = sizeOfComm(comm);
  for (int other = 0; other < ranks; ++other)
    sent += other == own ? 0 : counts[other] * sizeOf(type);
  note(request, sent);
  return real.alltoallv(from, counts, starts, type, to, toCounts, toStarts, toType, comm, request);
}

int MPI_Iallgatherv(const void *from, int count, Handle type, void *to, const int *counts,
                    const int *starts, Handle toType, Handle comm, void *request) {
  note(request, (sizeOfComm(comm) - 1) * counts[rankOf(comm)] * sizeOf(toType));
  return real.allgatherv(from, count, type, to, counts, starts, toType, comm, request);
}

int test(void *request, int *isDone, void *status) {
  for (UnderWay &known : underWay)
    if (known.request == request) {
      int result = 0;
      if (!known.isDone) {
        int now = 0;
        result = real.test(request, &now, status);
        known.isDone = now != 0;
      }
      *isDone = known.isDone && Clock::now() >= known.due;
      if (*isDone)
        known = {};
      return result;
    }
  return real.test(request, isDone, status);
}

template <typename Function> void *instead(void *library, const char *name, Function &known) {
  known = reinterpret_cast<Function>(realSymbol(library, name));
  return reinterpret_cast<void *>(known);
}

} // namespace

extern "C" void *dlsym(void *library, const char *name) {
  const bool isScatter = std::strcmp(name, "MPI_Ialltoallv") == 0;
  const bool isGather = std::strcmp(name, "MPI_Iallgatherv") == 0;
  const bool isTest = std::strcmp(name, "MPI_Test") == 0;
  if (!isScatter && !isGather && !isTest)
    return realSymbol(library, name);
  instead(library, "MPI_Type_size", real.typeSize);
  instead(library, "MPI_Comm_rank", real.commRank);
  instead(library, "MPI_Comm_size", real.commSize);
  if (isScatter)
    return instead(library, name, real.alltoallv) ? reinterpret_cast<void *>(MPI_Ialltoallv)
                                                  : nullptr;
  if (isGather)
    return instead(library, name, real.allgatherv) ? reinterpret_cast<void *>(MPI_Iallgatherv)
                                                   : nullptr;
  return instead(library, name, real.test) ? reinterpret_cast<void *>(test) : nullptr;
}
