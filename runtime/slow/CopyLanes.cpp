#include "runtime/slow/CopyLanes.h"

#include "runtime/base/Concat.h"
#include "runtime/base/LeftThreads.h"
#include "runtime/slow/Checksum.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <system_error>

namespace stow::slow {

void CopyLanes::Free::operator()(char *memory) const { std::free(memory); }

CopyLanes::CopyLanes(const SlowFile &file, const CopyPace &pace) : file(file), time(pace.time) {
  out.bytesPerSecond = pace.outBytesPerSecond;
  in.bytesPerSecond = pace.inBytesPerSecond;
  out.latencySeconds = in.latencySeconds = pace.latencySeconds;
  const int count = time == CopyTime::Background ? 2 * kThreadsPerLane : 1;
  for (int i = 0; i < count; ++i)
    staging.push_back(pieceBuffer());
  if (time != CopyTime::Background)
    return;
  try {
    for (int i = 0; i < count; ++i)
      threads.emplace_back([this, i] { work(i % 2 == 0 ? out : in, staging[i].get()); });
  } catch (const std::system_error &error) {
    stop();
    throw Error::badInput(std::string("cannot start the threads that copy to slow memory: ") +
                          error.what());
  }
}

CopyLanes::Staging CopyLanes::pieceBuffer() {
  Staging memory(static_cast<char *>(std::aligned_alloc(SlowFile::alignment, kPieceBytes)));
  if (!memory)
    throw std::bad_alloc();
  return memory;
}

CopyLanes::~CopyLanes() { stop(); }

void CopyLanes::stop() {
  if (!isOwn()) {
    leaveThreads(threads, changed, mutex);
    return;
  }
  {
    const std::lock_guard lock(mutex);
    isStopping = true;
  }
  changed.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void CopyLanes::requireOwn(const Job &job) const {
  if (!isOwn())
    requireOwn(concat(job.copy.isOut ? "copy_out" : "copy_in", " of node '", job.copy.node, "'"));
}

void CopyLanes::requireOwn(const std::string &title) const {
  if (!isOwn())
    throw CopyFailed(concat(title, ": process ", ::getpid(), " was forked from process ", process,
                            ", which has the threads that copy to slow memory in '", file.folder(),
                            "' and the file; open the model in the process that runs it"));
}

/// Locks in the process of the lanes. In a forked one nobody else is there, and who held the mutex never gives it back.
std::unique_lock<std::mutex> CopyLanes::lock() const {
  return isOwn() ? std::unique_lock(mutex) : std::unique_lock<std::mutex>();
}

size_t CopyLanes::placeFor(const SlowPlace &where) {
  const int64_t pieces = (where.bytes + kPieceBytes - 1) / kPieceBytes;
  places.push_back(std::make_unique<Place>(Place{where, std::vector<uint64_t>(pieces)}));
  return places.size() - 1;
}

size_t CopyLanes::addPlace(const SlowPlace &place) {
  const std::lock_guard lock(mutex);
  if (!pieces)
    pieces = pieceBuffer();
  const size_t number = placeFor(place);
  Place &added = *places[number];
  std::memset(pieces.get(), 0, kPieceBytes); // as the reserved file is
  for (size_t i = 0; i < added.sums.size(); ++i)
    added.sums[i] = checksumOf(std::span<const char>(
        pieces.get(), static_cast<size_t>(
                          alignUp(bytesOf(added, static_cast<int64_t>(i)), SlowFile::alignment))));
  return number;
}

void CopyLanes::put(size_t place, int64_t piece) {
  Place &to = *places.at(place);
  const std::string title = concat("state '", to.where.name, "'");
  requireOwn(title);
  try {
    writePiece(to, piece, pieces.get());
  } catch (const std::exception &error) {
    throw CopyFailed(concat(title, ": ", error.what()));
  }
}

const char *CopyLanes::get(size_t place, int64_t piece) {
  const Place &from = *places.at(place);
  const std::string title = concat("state '", from.where.name, "'");
  requireOwn(title);
  try {
    readPiece(from, piece, pieces.get());
  } catch (const std::exception &error) {
    throw CopyFailed(concat(title, ": ", error.what()));
  }
  return pieces.get();
}

size_t CopyLanes::add(const LaneCopy &copy) {
  const std::lock_guard lock(mutex);
  auto job = std::make_unique<Job>();
  job->copy = copy;
  if (copy.isOut)
    job->copy.source.reset();
  job->pieces = (copy.bytes + kPieceBytes - 1) / kPieceBytes;
  if (copy.place)
    job->place = *copy.place;
  else if (job->copy.source)
    job->place = jobs.at(*copy.source)->place;
  else
    job->place = placeFor({copy.slowOffset, copy.bytes, copy.node});
  jobs.push_back(std::move(job));
  for (Lane *lane : {&out, &in})
    lane->queue.reserve(jobs.size());
  return jobs.size() - 1;
}

void CopyLanes::start(size_t copy) {
  Job &job = *jobs.at(copy);
  requireOwn(job);
  {
    const std::lock_guard lock(mutex);
    job.taken = job.done = 0;
    job.isEnded = false;
    job.problem.clear();
    if (time == CopyTime::Background) {
      Lane &lane = laneOf(job);
      if (lane.head == lane.queue.size()) {
        lane.queue.clear();
        lane.head = 0;
      }
      lane.queue.push_back(copy);
    }
  }
  if (time == CopyTime::Background)
    changed.notify_all();
  else if (time == CopyTime::Early)
    copyNow(copy);
}

void CopyLanes::await(size_t copy) {
  Job &job = *jobs.at(copy);
  requireOwn(job);
  if (time == CopyTime::Late)
    copyNow(copy);
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return job.isEnded; });
  if (!job.problem.empty())
    throw CopyFailed(concat(job.copy.isOut ? "copy_out" : "copy_in", " of node '", job.copy.node,
                            "': ", job.problem));
}

void CopyLanes::cancel() {
  if (!isOwn())
    return;
  std::unique_lock lock(mutex);
  for (Lane *lane : {&out, &in})
    lane->head = lane->queue.size();
  changed.wait(lock, [&] {
    return std::ranges::all_of(jobs, [](const auto &job) { return job->taken == job->done; });
  });
  for (const auto &job : jobs)
    job->isEnded = false;
}

double CopyLanes::seconds(size_t copy) const {
  const auto held = lock();
  const Job &job = *jobs.at(copy);
  return std::chrono::duration<double>(job.end - job.begin).count();
}

LaneTraffic CopyLanes::traffic() const {
  const auto held = lock();
  return {out.passed, in.passed};
}

// Pieces. ---------------------------------------------------------------------------------------------

Bytes CopyLanes::bytesOf(const Job &job, int64_t piece) {
  return std::min(kPieceBytes, job.copy.bytes - piece * kPieceBytes);
}

Bytes CopyLanes::bytesOf(const Place &place, int64_t piece) {
  return std::min(kPieceBytes, place.where.bytes - piece * kPieceBytes);
}

/// Whether there is a piece to take: a copy in waits for its source.
bool CopyLanes::isReady(const Lane &lane) const {
  if (lane.head == lane.queue.size())
    return false;
  const Job &job = *jobs[lane.queue[lane.head]];
  return !job.copy.source || jobs[*job.copy.source]->isEnded;
}

void CopyLanes::work(Lane &lane, char *buffer) {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return isStopping || isReady(lane); });
    if (isStopping)
      return;
    int64_t piece = 0;
    Job &job = take(lane, piece);
    const Clock::time_point until = reserve(lane, bytesOf(job, piece), piece == 0);
    std::string problem = job.problem;
    lock.unlock();
    try {
      if (problem.empty())
        copyPiece(job, piece, buffer);
    } catch (const std::exception &error) {
      problem = error.what();
    }
    if (lane.bytesPerSecond > 0)
      std::this_thread::sleep_until(until);
    lock.lock();
    finishPiece(lane, job, piece, problem);
  }
}

/// The next piece of the copy that is at hand.
CopyLanes::Job &CopyLanes::take(Lane &lane, int64_t &piece) {
  Job &job = *jobs[lane.queue[lane.head]];
  piece = job.taken++;
  if (piece == 0)
    job.begin = Clock::now();
  if (job.taken == job.pieces)
    ++lane.head;
  if (job.copy.source && !jobs[*job.copy.source]->problem.empty())
    job.problem = jobs[*job.copy.source]->problem;
  return job;
}

/// When so many bytes have passed at the lane's bandwidth, one piece behind the other.
CopyLanes::Clock::time_point CopyLanes::reserve(Lane &lane, Bytes bytes, bool isFirst) const {
  const Clock::time_point now = Clock::now();
  if (lane.bytesPerSecond <= 0)
    return now;
  const double seconds =
      static_cast<double>(bytes) / lane.bytesPerSecond + (isFirst ? lane.latencySeconds : 0);
  lane.freeAt = std::max(lane.freeAt, now) +
                std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  return lane.freeAt;
}

void CopyLanes::finishPiece(Lane &lane, Job &job, int64_t piece, const std::string &problem) {
  if (job.problem.empty() && !problem.empty())
    job.problem = problem;
  if (problem.empty())
    lane.passed += bytesOf(job, piece);
  if (++job.done == job.pieces) {
    job.end = Clock::now();
    job.isEnded = true;
  }
  changed.notify_all();
}

void CopyLanes::copyPiece(Job &job, int64_t piece, char *buffer) {
  const auto count = static_cast<size_t>(bytesOf(job, piece));
  char *memory = job.copy.memory + piece * kPieceBytes;
  Place &place = *places[job.place];
  if (job.copy.isOut) {
    std::memcpy(buffer, memory, count);
    return writePiece(place, piece, buffer);
  }
  readPiece(place, piece, buffer);
  std::memcpy(memory, buffer, count);
}

/// What `buffer` holds, which is filled up to whole blocks.
void CopyLanes::writePiece(Place &place, int64_t piece, char *buffer) {
  const Bytes count = bytesOf(place, piece), stored = alignUp(count, SlowFile::alignment);
  std::memset(buffer + count, 0, static_cast<size_t>(stored - count));
  place.sums[static_cast<size_t>(piece)] =
      checksumOf(std::span<const char>(buffer, static_cast<size_t>(stored)));
  file.write(place.where.slowOffset + piece * kPieceBytes, buffer, stored);
}

void CopyLanes::readPiece(const Place &place, int64_t piece, char *buffer) const {
  const Bytes stored = alignUp(bytesOf(place, piece), SlowFile::alignment);
  const Bytes offset = place.where.slowOffset + piece * kPieceBytes;
  file.read(offset, buffer, stored);
  const uint64_t expected = place.sums[static_cast<size_t>(piece)];
  const uint64_t found = checksumOf(std::span<const char>(buffer, static_cast<size_t>(stored)));
  if (found != expected)
    throw Error::badInput(concat("slow memory in '", file.folder(), "': the ", stored, " bytes at ",
                                 offset,
                                 " are not those that were written: expected the "
                                 "checksum ",
                                 expected, ", found ", found));
}

/// All of it on the calling thread, its source first.
void CopyLanes::copyNow(size_t copy) {
  Job &job = *jobs[copy];
  if (job.isEnded)
    return;
  if (job.copy.source)
    copyNow(*job.copy.source);
  std::unique_lock lock(mutex);
  Lane &lane = laneOf(job);
  lane.queue.assign(1, copy);
  lane.head = 0;
  for (int64_t i = 0; i < job.pieces; ++i) {
    int64_t piece = 0;
    take(lane, piece);
    std::string problem;
    try {
      copyPiece(job, piece, staging.front().get());
    } catch (const std::exception &error) {
      problem = error.what();
    }
    finishPiece(lane, job, piece, problem);
  }
}

} // namespace stow::slow
