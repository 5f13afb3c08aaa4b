// The three symbols that Debian's libstdc++.a and libgcc_eh.a take from a glibc younger than the wheel's tag.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#define HIDDEN __attribute__((visibility("hidden")))

// glibc 2.36; std::random_device.
HIDDEN uint32_t arc4random(void) {
  uint32_t drawn = 0;
  if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn)
    abort();
  return drawn;
}

// glibc 2.32; 0 is always right, and has std::shared_ptr count atomically.
HIDDEN char __libc_single_threaded = 0;

// glibc 2.35; the unwinder's search for the file that holds an address.
struct search {
  uintptr_t address;
  struct dl_find_object *found;
};

static int visit(struct dl_phdr_info *info, size_t size, void *data) {
  const struct search *search = data;
  uintptr_t begin = UINTPTR_MAX, end = 0;
  void *frames = 0;
  int holds = 0;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    const uintptr_t first = info->dlpi_addr + header->p_vaddr, last = first + header->p_memsz;
    if (header->p_type == PT_GNU_EH_FRAME)
      frames = (void *)first;
    if (header->p_type != PT_LOAD)
      continue;
    holds |= search->address >= first && search->address < last;
    begin = first < begin ? first : begin;
    end = last > end ? last : end;
  }
  if (!holds || !frames)
    return 0;
  search->found->dlfo_flags = 0;
  search->found->dlfo_map_start = (void *)begin;
  search->found->dlfo_map_end = (void *)end;
  search->found->dlfo_link_map = 0;
  search->found->dlfo_eh_frame = frames;
  return 1;
}

HIDDEN int _dl_find_object(void *address, struct dl_find_object *found) {
  struct search search = {(uintptr_t)address, found};
  return dl_iterate_phdr(visit, &search) ? 0 : -1;
}
