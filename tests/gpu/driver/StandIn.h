/* What tests may ask of the stand-in for libcuda beside the driver's own functions. Found by dlsym in
 * the stand-in: a real driver has none of these, which is how a test tells them apart. C, so that
 * every test can declare them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes [address, address + bytes) of the device that a command may touch. */
typedef struct {
  uint64_t address, bytes;
  const char *name; /* for messages; may be null */
} StandInRange;

/* The next kernel launched or captured by this thread may read `reads` and `writes`, and write
 * `writes`; anything else it touches is an error. Module variables are always allowed. */
void standinExpectAccess(const StandInRange *reads, size_t readCount, const StandInRange *writes,
                         size_t writeCount);

/* Called by every launch before it is taken up, captured ones too: the place to call
 * standinExpectAccess for a program that does not know of the stand-in. `params` are the kernel's
 * parameters as cuLaunchKernel takes them. Null removes it. */
typedef void (*StandInOnLaunch)(void *user, const char *kernel, const unsigned grid[3],
                                const unsigned block[3], void **params);
void standinOnLaunch(StandInOnLaunch function, void *user);

/* Looks for races in every kernel from now on (slow), or no longer. */
void standinCheckRaces(int on);

/* What happened since the process began, or since standinReset. */
typedef struct {
  uint64_t allocations, frees;        /* cuMemAlloc, cuMemFree */
  uint64_t hostAllocations;           /* pinned memory */
  uint64_t allocatedBytes, peakBytes; /* of the device, now and at most */
  uint64_t modules;                   /* loaded */
  uint64_t launches;                  /* cuLaunchKernel that were not captured */
  uint64_t kernels;                   /* that ran, those of graphs too */
  uint64_t captures, instantiations, graphLaunches;
  uint64_t copies, copiedBytes, sets; /* that ran */
  uint64_t synchronizations;          /* calls that wait for the device: of context, stream, event,
                                        copies that are not asynchronous, frees */
  uint64_t eventSynchronizations;     /* those of events, which are also among the former */
  uint64_t threadInstructions;
} StandInCounters;
void standinCounters(StandInCounters *counters);

/* The `nth` next call (1: the very next) of driver function `function` ("cuMemAlloc", as documented,
 * without version) returns `result` and does nothing. "kernel" and "copy" instead of a function:
 * the nth of them to run fails so. Results that a device does not survive stay: every later call
 * returns them. */
void standinFail(const char *function, unsigned nth, int result);

/* Why the last call failed: kernel, PTX line, thread, address ...; "" before the first failure. Valid
 * until the next failure. */
const char *standinLastError(void);

/* Device memory from now on; the chip's where it is 0. */
void standinSetMemory(uint64_t bytes);
/* Order among commands that nothing orders: 0 the last submitted first, 1 the first, others drawn. */
void standinSetOrder(uint64_t seed);
/* PTX for a cubin: modules loaded from exactly these bytes are made of it. */
void standinProvidePtx(const void *cubin, size_t bytes, const char *ptx);
/* Where the device's bytes lie on the host, for stand-ins of libraries; null: they are not inside one
 * allocation. Call it only inside a host function of the stream (cuLaunchHostFunc). */
void *standinHostPointer(uint64_t address, uint64_t bytes);
/* Work of a library that waits for other processes: asked again and again when the stream comes to it, until it is not 0. Captured as a
 * kernel is. `released` is called when neither a graph nor a stream has it any more. Returns the driver's result. */
typedef int (*StandInPoll)(void *user);
int standinLaunchPolled(void *stream, StandInPoll poll, void *user, void (*released)(void *user));
/* Runs one command of each stream that has one and for which all before it is done, for stand-ins whose other processes wait for this one. */
void standinStep(void);
/* Lets simulated time pass, for stand-ins of libraries: inside a host function of the stream. */
void standinPass(double seconds);
/* Forgets everything: contexts, memory, failures, counters; reads the environment again. */
void standinReset(void);

#ifdef __cplusplus
}
#endif
