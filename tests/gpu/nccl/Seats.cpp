#include "tests/gpu/nccl/Seats.h"

#include "runtime/base/Concat.h"

#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace stow::sim {

std::string describe(const Operation &operation) {
  static constexpr std::array names = {"all-reduce", "reduce-scatter", "all-gather", "reduce",
                                       "broadcast"};
  return concat(names[static_cast<size_t>(operation.kind)], " of ", operation.count,
                " floats, root ", operation.root);
}

static Table *mapTable(int file) {
  void *memory = file < 0
                     ? MAP_FAILED
                     : mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0)
    close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<Table *>(memory);
}

bool makeTable(char *id) {
  static std::atomic<int> count = 0;
  std::snprintf(id, 128, "/standin-nccl-%d-%d", getpid(), count++);
  const int file = shm_open(id, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (file >= 0 && ftruncate(file, sizeof(Table)) != 0) {
    close(file);
    return false;
  }
  Table *table = mapTable(file);
  if (!table)
    return false;
  new (table) Table();
  closeTable(table);
  return true;
}

Table *openTable(const char *id) { return mapTable(shm_open(id, O_RDWR, 0600)); }

void forgetTable(const char *id) { shm_unlink(id); }

void closeTable(Table *table) { munmap(table, sizeof(Table)); }

bool runs(int process) {
  std::ifstream file(concat("/proc/", process, "/stat"));
  std::string text;
  if (!std::getline(file, text))
    return false;
  const size_t state = text.rfind(") ");
  return state != std::string::npos && text[state + 2] != 'Z' && text[state + 2] != 'X';
}

} // namespace stow::sim
