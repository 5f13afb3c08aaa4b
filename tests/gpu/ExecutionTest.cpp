// Threads, warps, blocks and memory: what runs together, and what is refused.
#include "tests/gpu/Ptx.h"

#include <numeric>

using namespace stow::sim;
using testing::AllOf;
using testing::HasSubstr;

namespace {

std::vector<uint32_t> iota(size_t count, uint32_t first = 0) {
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// Stores %r10 of every thread.
const std::string kStore = "add.s64 %d9, %out, %d0;\nst.global.u32 [%d9], %r10;\nret;";

std::vector<uint32_t> results(const std::string &body, Extents block = {32, 1, 1},
                              Extents grid = {1, 1, 1}, const std::string &variables = "",
                              uint64_t dynamicShared = 0) {
  Device device;
  device.like.dynamicSharedBytes = dynamicShared;
  size_t count = size_t{block[0]} * block[1] * block[2] * grid[0];
  uint64_t out = device.upload(std::vector<uint32_t>(count));
  uint64_t in = device.upload(iota(count, 100));
  device.run(kernelOf(body + "\n" + kStore, variables), {in, in, in, out}, block, grid);
  return device.download<uint32_t>(out, count);
}

//===-- divergence ----------------------------------------------------------------------------===//

// Tests loops of different lengths, after which all lanes meet again for a shuffle.
TEST(Divergence, LanesMeetAgain) {
  auto found = results(R"(
    mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, %laneid;
  LOOP:
    setp.ge.u32 %p1, %r11, %r12;
    @%p1 bra DONE;
    add.u32 %r11, %r11, 1;
    and.b32 %r13, %r11, 1;
    setp.eq.u32 %p2, %r13, 0;
    @%p2 bra EVEN;
    add.u32 %r10, %r10, %r11;
    bra LOOP;
  EVEN:
    bra LOOP;
  DONE:
    shfl.sync.idx.b32 %r10, %r10, 31, 31, -1;)");
  EXPECT_EQ(found, std::vector<uint32_t>(32, 256)); // 1 + 3 + ... + 31
}

TEST(Divergence, BranchTables) {
  auto found = results(R"(
    and.b32 %r11, %r0, 3;
  T: .branchtargets A, B, A, C;
    brx.idx %r11, T;
  A: mov.u32 %r10, 1; bra END;
  B: mov.u32 %r10, 2; bra END;
  C: mov.u32 %r10, 3;
  END:)");
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i], (std::vector<uint32_t>{1, 2, 1, 3})[i % 4]);
}

// Tests that lanes that spin do not keep the one that they wait for from running.
TEST(Divergence, SpinningLanesLetOthersRun) {
  Device device;
  uint64_t flag = device.upload(std::vector<uint32_t>{0});
  uint64_t out = device.upload(std::vector<uint32_t>(32));
  device.run(kernelOf(R"(
    setp.eq.u32 %p1, %r0, 31;
    mov.u32 %r10, 42;
    @%p1 bra WRITE;
  SPIN:
    atom.global.add.u32 %r10, [%in0], 0;
    setp.ne.u32 %p2, %r10, 42;
    @%p2 bra SPIN;
    bra END;
  WRITE:
    atom.global.exch.b32 %r15, [%in0], 42;
  END:
)" + kStore),
             {flag, flag, flag, out});
  EXPECT_EQ(device.download<uint32_t>(out, 32), std::vector<uint32_t>(32, 42));
}

//===-- warps ---------------------------------------------------------------------------------===//

TEST(Warp, Shuffles) {
  auto lane = iota(32);
  auto shuffled = [&](const std::string &mode, const std::string &b, const std::string &c) {
    return results("mov.u32 %r11, %laneid; shfl.sync." + mode + ".b32 %r10|%p1, %r11, " + b + ", " +
                   c + ", -1; @!%p1 add.u32 %r10, %r10, 1000;");
  };
  auto up = shuffled("up", "3", "0"), down = shuffled("down", "5", "31");
  auto flip = shuffled("bfly", "16", "31"), index = shuffled("idx", "7", "31");
  auto parts = shuffled("bfly", "9", "0x181f"); // in parts of eight lanes
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(up[i], i < 3 ? i + 1000 : i - 3);
    EXPECT_EQ(down[i], i + 5 > 31 ? i + 1000 : i + 5);
    EXPECT_EQ(flip[i], i ^ 16);
    EXPECT_EQ(index[i], 7u);
    EXPECT_EQ(parts[i], (i ^ 9) <= (i | 7) ? i ^ 9 : i + 1000);
  }
}

TEST(Warp, Votes) {
  auto ballot = results(R"(and.b32 %r11, %r0, 1; setp.eq.u32 %p1, %r11, 0;
    vote.sync.ballot.b32 %r10, %p1, -1;)");
  EXPECT_EQ(ballot[9], 0x55555555u);
  auto any = results(R"(setp.eq.u32 %p1, %r0, 3; vote.sync.any.pred %p2, %p1, -1;
    vote.sync.all.pred %p3, %p1, -1; selp.u32 %r10, 1, 0, %p2; @%p3 mov.u32 %r10, 9;)");
  EXPECT_EQ(any, std::vector<uint32_t>(32, 1));
  auto same = results("shr.u32 %r11, %r0, 3; match.any.sync.b32 %r10, %r11, -1;");
  EXPECT_EQ(same[17], 0x00FF0000u);
  auto sum = results("redux.sync.add.s32 %r10, %r0, -1;");
  EXPECT_EQ(sum, std::vector<uint32_t>(32, 496));
}

// Tests that halves of a warp exchange values apart from each other.
TEST(Warp, MasksOfHalves) {
  auto found = results(R"(
    setp.lt.u32 %p1, %r0, 16;
    @%p1 bra LOW;
    shfl.sync.bfly.b32 %r10, %r0, 1, 31, 0xFFFF0000;
    bra END;
  LOW:
    shfl.sync.bfly.b32 %r10, %r0, 2, 31, 0x0000FFFF;
  END:)");
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(found[i], i < 16 ? i ^ 2 : i ^ 1);
}

TEST(Warp, ShuffleWithoutPartnerIsRefused) {
  Device device;
  uint64_t out = device.upload(iota(32));
  EXPECT_THAT(device.fault(Fault::Kind::Barrier, kernelOf(R"(
    setp.lt.u32 %p1, %r0, 16;
    @%p1 bra LOW;
    bar.sync 0;
    shfl.sync.idx.b32 %r10, %r0, 0, 31, -1;
    ret;
  LOW:
    bar.sync 0;
    shfl.sync.idx.b32 %r10, %r0, 0, 31, 0x0000FFFF;
    ret;)"),
                           {out, out, out, out}),
              HasSubstr("different instructions for barrier 0"));
  EXPECT_THAT(device.fault(Fault::Kind::Barrier, kernelOf(R"(
    setp.lt.u32 %p1, %r0, 16;
    @%p1 exit;
    shfl.sync.idx.b32 %r10, %r0, 3, 31, -1;
    ret;)"),
                           {out, out, out, out}),
              HasSubstr("shuffle from lane 3, which does not take part"));
}

//===-- blocks --------------------------------------------------------------------------------===//

// Tests static and dynamic shared memory: every thread reads what another warp wrote.
TEST(Block, SharedMemoryAndBarrier) {
  auto found = results(R"(
    .shared .align 4 .b8 s[1024];
    mov.u32 %r11, s; mov.u32 %r20, dynamic;
    shl.b32 %r12, %r0, 2; add.u32 %r13, %r11, %r12; add.u32 %r21, %r20, %r12;
    mul.lo.u32 %r14, %r0, 3;
    st.shared.u32 [%r13], %r14; st.shared.u32 [%r21], %r0;
    bar.sync 0;
    sub.u32 %r15, 255, %r0; shl.b32 %r15, %r15, 2;
    add.u32 %r16, %r11, %r15; add.u32 %r22, %r20, %r15;
    ld.shared.u32 %r10, [%r16]; ld.shared.u32 %r23, [%r22];
    sub.u32 %r10, %r10, %r23;)",
                       {256, 1, 1}, {1, 1, 1}, ".extern .shared .align 16 .b8 dynamic[];\n", 1024);
  for (uint32_t i = 0; i < 256; ++i)
    EXPECT_EQ(found[i], 2 * (255 - i));
}

TEST(Block, NumbersOfThreads) {
  auto found = results(R"(
    mov.u32 %r11, %tid.y; mov.u32 %r12, %tid.x; mad.lo.u32 %r13, %r11, 8, %r12;
    mov.u32 %r14, %ctaid.x; mad.lo.u32 %r10, %r14, 32, %r13;
    mul.wide.u32 %d0, %r10, 4;)",
                       {8, 4, 1}, {5, 1, 1});
  EXPECT_EQ(found, iota(160));
}

TEST(Block, BarrierThatSomeNeverReach) {
  Device device;
  uint64_t out = device.upload(iota(64));
  std::string text = device.fault(Fault::Kind::Barrier, kernelOf(R"(
    setp.lt.u32 %p1, %r0, 40;
    @%p1 bra END;
    bar.sync 0;
  END: ret;)"),
                                  {out, out, out, out}, {64, 1, 1});
  EXPECT_THAT(text,
              AllOf(HasSubstr("barrier 0 is never complete: 24 of 64 threads wait, 40 have ended"),
                    HasSubstr("bar.sync 0;"), HasSubstr("kernel k"), HasSubstr("thread (40,0,0)")));
}

// Tests named barriers of some warps, with arrivals that do not wait, and votes.
TEST(Block, NamedBarriersAndVotes) {
  auto found = results(R"(
    .shared .align 4 .b8 s[4];
    mov.u32 %r11, s;
    setp.lt.u32 %p1, %r0, 32;
    @%p1 bra FIRST;
    bar.sync 3, 64;
    ld.shared.u32 %r10, [%r11];
    bra JOIN;
  FIRST:
    setp.eq.u32 %p2, %r0, 0;
    @%p2 st.shared.u32 [%r11], 77;
    bar.arrive 3, 64;
    mov.u32 %r10, 5;
  JOIN:
    setp.eq.u32 %p3, %r10, 77;
    bar.red.popc.u32 %r12, 0, %p3;
    add.u32 %r10, %r10, %r12;)",
                       {64, 1, 1});
  EXPECT_EQ(found[3], 5 + 32u);
  EXPECT_EQ(found[40], 77 + 32u);
}

//===-- memory --------------------------------------------------------------------------------===//

TEST(Memory, VectorsAndNarrowTypes) {
  Device device;
  uint64_t in = device.upload(iota(128)), out = device.upload(std::vector<uint32_t>(128));
  device.run(kernelOf(R"(
    mul.wide.u32 %d1, %r0, 16;
    add.s64 %d2, %in0, %d1; add.s64 %d3, %out, %d1;
    ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%d2];
    ld.global.s8 %r14, [%d2+4];
    ld.global.u16 %h1, [%d2+8];
    cvt.u32.u16 %r15, %h1;
    add.u32 %r10, %r10, %r15;
    st.global.v2.u32 [%d3], {%r13, %r10};
    st.global.v2.u32 [%d3+8], {%r14, %r11};
    ret;)"),
             {in, in, in, out});
  auto found = device.download<uint32_t>(out, 128);
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(found[4 * i], 4 * i + 3);
    EXPECT_EQ(found[4 * i + 1], 4 * i + 4 * i + 2);
    EXPECT_EQ(found[4 * i + 2], static_cast<uint32_t>(static_cast<int8_t>(4 * i + 1)));
    EXPECT_EQ(found[4 * i + 3], 4 * i + 1);
  }
}

TEST(Memory, AccessesOutsideAllocations) {
  Device device;
  uint64_t out = device.upload(iota(31));
  std::string body = "mov.u32 %r10, 0;\n" + kStore;
  std::string text =
      device.fault(Fault::Kind::IllegalAddress, kernelOf(body), {out, out, out, out});
  EXPECT_THAT(text, AllOf(HasSubstr("write of 4 bytes of global memory"),
                          HasSubstr("0 bytes behind the end of allocation 1 (124 bytes from"),
                          HasSubstr("thread (31,0,0) of block (0,0,0), kernel k at PTX line"),
                          HasSubstr("st.global.u32 [%d9], %r10;")));
  // The same through a pointer that was freed, or is one of the host.
  device.memory.release(out, DeviceMemory::Kind::Device);
  device.fault(Fault::Kind::IllegalAddress, kernelOf(body), {out, out, out, out});
  uint32_t host[32];
  auto address = reinterpret_cast<uint64_t>(host);
  device.fault(Fault::Kind::IllegalAddress, kernelOf(body), {address, address, address, address});
}

// Tests that what lies behind a shared variable belongs to no other: padding, and where a driver may put the next one.
TEST(Memory, AccessesOutsideSharedVariables) {
  auto body = [](const std::string &access) {
    return kernelOf(R"(
    .shared .align 16 .b8 s[4];
    .shared .align 16 .b8 t[16];
    mov.u32 %r11, s; mov.u32 %r12, t; mov.u32 %r13, dynamic;
    )" + access + "\n    ret;",
                    ".extern .shared .align 16 .b8 dynamic[];\n");
  };
  Device device;
  device.like.dynamicSharedBytes = 8;
  uint64_t out = device.upload(iota(32));
  const std::vector<uint64_t> operands(4, out);
  device.run(
      body("st.shared.u32 [%r11], 1; st.shared.u32 [%r12+12], 2; st.shared.u32 [%r13+4], 3;"),
      operands);
  for (const char *access :
       {"st.shared.u32 [%r11+4], 1;", "st.shared.u32 [%r11+16], 1;", "st.shared.u32 [%r12+16], 1;",
        "st.shared.u32 [%r13+8], 1;", "ld.shared.u32 %r10, [%r12+16];",
        "ld.shared.v2.u32 {%r10, %r14}, [%r11];"})
    EXPECT_THAT(device.fault(Fault::Kind::IllegalAddress, body(access), operands),
                HasSubstr("of shared memory"))
        << access;
}

TEST(Memory, Misaligned) {
  Device device;
  uint64_t out = device.upload(iota(64));
  EXPECT_THAT(device.fault(Fault::Kind::Misaligned,
                           kernelOf("ld.global.v2.u32 {%r10, %r11}, [%out+4]; ret;"),
                           {out, out, out, out}),
              HasSubstr("read of 8 bytes"));
}

TEST(Memory, AccessesOutsidePlannedOperands) {
  Device device;
  uint64_t arena = device.upload(iota(256)); // operands at 0 and 256, result at 512
  auto params = std::vector<uint64_t>{arena, arena + 256, arena, arena + 512};
  std::string good = R"(
    add.s64 %d1, %in0, %d0; add.s64 %d2, %in1, %d0; add.s64 %d3, %out, %d0;
    ld.global.u32 %r10, [%d1]; ld.global.u32 %r11, [%d2]; add.u32 %r10, %r10, %r11;
    st.global.u32 [%d3], %r10; ret;)";
  device.like.checks.planned = true;
  device.like.checks.reads = {{arena, arena + 128, "a"}, {arena + 256, arena + 384, "b"}};
  device.like.checks.writes = {{arena + 512, arena + 640, "y"}};
  device.run(kernelOf(good), params);
  EXPECT_THAT(device.fault(Fault::Kind::Unplanned, kernelOf(good), params, {33, 1, 1}),
              AllOf(HasSubstr("outside the command's operands"), HasSubstr("'a'"),
                    HasSubstr("at byte 128 of allocation 1")));
  params[3] = arena; // writes its operand
  EXPECT_THAT(device.fault(Fault::Kind::Unplanned, kernelOf(good), params),
              HasSubstr("the command only reads, 'a'"));
}

TEST(Memory, HostCannotTouchIt) {
  DeviceMemory memory(1 << 20);
  auto *pointer = reinterpret_cast<volatile char *>(memory.allocate(64));
  EXPECT_DEATH((void)*pointer, "");
}

TEST(Memory, UninitializedSharedMemory) {
  Device device;
  uint64_t out = device.upload(iota(64));
  EXPECT_THAT(device.fault(Fault::Kind::Uninitialized, kernelOf(R"(
    .shared .align 4 .b8 s[128];
    mov.u32 %r11, s;
    setp.eq.u32 %p1, %r0, 0;
    @%p1 st.shared.u32 [%r11], %r0;
    bar.sync 0;
    ld.shared.v2.u32 {%r10, %r12}, [%r11];
    ret;)"),
                           {out, out, out, out}),
              HasSubstr("byte 4 was never written by this block"));
}

TEST(Memory, CapacityIsHeld) {
  DeviceMemory memory(4096);
  uint64_t first = memory.allocate(3000);
  EXPECT_NE(first, 0u);
  EXPECT_EQ(memory.allocate(1025), 0u);
  EXPECT_TRUE(memory.release(first, DeviceMemory::Kind::Device));
  EXPECT_FALSE(memory.release(first, DeviceMemory::Kind::Device));
  EXPECT_NE(memory.allocate(4096), 0u);
  EXPECT_EQ(memory.used(), 4096u);
}

TEST(Memory, CopiesThatAreNotWaitedFor) {
  auto body = [](const std::string &wait) {
    return kernelOf(R"(
    .shared .align 16 .b8 s[1024];
    mov.u32 %r11, s; shl.b32 %r12, %r0, 4; add.u32 %r11, %r11, %r12;
    mul.wide.u32 %d1, %r0, 16; add.s64 %d2, %in0, %d1; add.s64 %d3, %d2, 512;
    cp.async.ca.shared.global [%r11], [%d2], 16;
    cp.async.commit_group;
    cp.async.cg.shared.global [%r11+512], [%d3], 16, 8;
    cp.async.commit_group;
    )" + wait + R"(
    ld.shared.u32 %r10, [%r11+4]; ld.shared.u32 %r13, [%r11+512]; ld.shared.u32 %r14, [%r11+520];
    add.u32 %r10, %r10, %r13; add.u32 %r10, %r10, %r14;
    add.s64 %d9, %out, %d0; st.global.u32 [%d9], %r10; ret;)");
  };
  Device device;
  uint64_t in = device.upload(iota(256)), out = device.upload(iota(32));
  device.run(body("cp.async.wait_group 0;"), {in, in, in, out});
  auto found = device.download<uint32_t>(out, 32);
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(found[i], 4 * i + 1 + 128 + 4 * i + 0);
  EXPECT_THAT(
      device.fault(Fault::Kind::Uninitialized, body("cp.async.wait_group 1;"), {in, in, in, out}),
      AllOf(HasSubstr("[%r11+512]"), HasSubstr("on its way by cp.async")));
}

TEST(Memory, Atomics) {
  Device device;
  uint64_t counter = device.upload(std::vector<uint32_t>{0, 5, 0});
  std::string body = R"(
    atom.global.add.u32 %r10, [%out], 2;
    red.global.max.s32 [%out+4], %r0;
    atom.global.cas.b32 %r11, [%out+8], 0, 9;
    ret;)";
  device.run(kernelOf(body), {counter, counter, counter, counter}, {64, 1, 1}, {3, 1, 1});
  EXPECT_EQ(device.download<uint32_t>(counter, 3), (std::vector<uint32_t>{384, 191, 9}));
}

//===-- races ---------------------------------------------------------------------------------===//

std::string raceOf(const std::string &body, Extents grid = {1, 1, 1}) {
  Device device;
  device.like.checks.races = true;
  uint64_t out = device.upload(iota(256));
  return device.fault(Fault::Kind::Race, kernelOf(body), {out, out, out, out}, {64, 1, 1}, grid);
}

const std::string kNeighbour = R"(
    .shared .align 4 .b8 s[512];
    mov.u32 %r11, s; shl.b32 %r12, %r0, 2; add.u32 %r13, %r11, %r12;
    st.shared.u32 [%r13], %r12;
    bar.sync 0;
    st.shared.u32 [%r13], %r0;
    BARRIER
    xor.b32 %r14, %r12, DISTANCE; add.u32 %r14, %r11, %r14;
    ld.shared.u32 %r10, [%r14];
    ret;)";

std::string neighbour(const std::string &barrier, int distance) {
  std::string text = kNeighbour;
  text.replace(text.find("BARRIER"), 7, barrier);
  return text.replace(text.find("DISTANCE"), 8, std::to_string(distance));
}

TEST(Races, SharedMemoryWithoutBarrier) {
  EXPECT_THAT(raceOf(neighbour("", 4)), AllOf(HasSubstr("race: read"), HasSubstr("no barrier")));
  raceOf(neighbour("bar.warp.sync -1;", 128)); // a barrier of the warp orders not its neighbour
  Device device;
  device.like.checks.races = true;
  uint64_t out = device.upload(iota(256));
  device.run(kernelOf(neighbour("bar.warp.sync -1;", 4)), {out, out, out, out}, {64, 1, 1});
  device.run(kernelOf(neighbour("bar.sync 0;", 128)), {out, out, out, out}, {64, 1, 1});
}

// What the lanes of a warp do together orders nothing, unless they meet.
TEST(Races, LanesOfAWarp) {
  const char *shuffle = "shfl.sync.bfly.b32 %r10, %r12, 1, 31, -1;",
             *vote = "setp.ne.u32 %p1, %r12, 0; vote.sync.any.pred %p1, %p1, -1;";
  for (const char *together : {shuffle, vote})
    EXPECT_THAT(raceOf(neighbour(together, 4)), HasSubstr("no barrier")) << together;
  // Halves of a warp meet, each for itself: lane 1 knows of lane 0, and not of lane 17.
  const std::string halves = R"(shr.u32 %r10, %r12, 6; and.b32 %r10, %r10, 1; shl.b32 %r10, %r10, 4;
                                mov.u32 %r14, 65535; shl.b32 %r10, %r14, %r10; bar.warp.sync %r10;)";
  EXPECT_THAT(raceOf(neighbour(halves, 64)), HasSubstr("no barrier"));
  Device device;
  device.like.checks.races = true;
  uint64_t out = device.upload(iota(256));
  for (const auto &[barrier, distance] :
       {std::pair(halves, 4), {halves + "bar.warp.sync -1;", 64}, {halves + "bar.sync 0;", 64}})
    device.run(kernelOf(neighbour(barrier, distance)), {out, out, out, out}, {64, 1, 1});
}

// Two blocks write an element in each of 64 pages: of one page in eight some are watched, of one in very many none.
TEST(Races, PagesOfGlobalMemory) {
  const std::string body = R"(mov.u32 %r11, %tid.x; mul.wide.u32 %d10, %r11, 256;
                              add.u64 %d10, %out, %d10; st.global.u32 [%d10], %r11; ret;)";
  Device device;
  device.like.checks.races = true;
  uint64_t out = device.upload(iota(64 * 64));
  device.like.checks.racePages = 8;
  EXPECT_THAT(
      device.fault(Fault::Kind::Race, kernelOf(body), {out, out, out, out}, {64, 1, 1}, {2, 1, 1}),
      HasSubstr("in the same launch"));
  device.like.checks.racePages = 1 << 30;
  device.run(kernelOf(body), {out, out, out, out}, {64, 1, 1}, {2, 1, 1});
}

TEST(Blocks, SomeOfAGrid) {
  Device device;
  uint64_t out = device.upload(std::vector<uint32_t>(4, 7));
  const std::string body =
      R"(mov.u32 %r11, %ctaid.x; mul.wide.u32 %d10, %r11, 4; add.u64 %d10, %out, %d10;
                              st.global.u32 [%d10], %r11; ret;)";
  device.like.blocks = {1, 3};
  device.run(kernelOf(body), {out, out, out, out}, {1, 1, 1}, {4, 1, 1});
  EXPECT_EQ(device.download<uint32_t>(out, 4), (std::vector<uint32_t>{7, 1, 7, 3}));
  device.like.blocks = {4};
  EXPECT_THAT(device.fault(Fault::Kind::BadLaunch, kernelOf(body), {out, out, out, out}, {1, 1, 1},
                           {4, 1, 1}),
              HasSubstr("block 4 of 4"));
}

TEST(Races, GlobalMemory) {
  EXPECT_THAT(raceOf("st.global.u32 [%out], %r0; ret;"),
              HasSubstr("thread 0 of the same block wrote"));
  EXPECT_THAT(raceOf(R"(mov.u32 %r11, %tid.x; setp.ne.u32 %p1, %r11, 0; @%p1 exit;
                        st.global.u32 [%out], %r0; ret;)",
                     {2, 1, 1}),
              HasSubstr("which thread 0 of block 0 wrote in the same launch"));
}

//===-- programs ------------------------------------------------------------------------------===//

TEST(Program, FunctionsAreCalled) {
  auto found = results(R"(
    { .param .b32 a; .param .b32 r;
      st.param.b32 [a], %r0;
      call.uni (r), twice, (a);
      ld.param.b32 %r10, [r]; }
    { .param .b32 a; .param .b32 r;
      st.param.b32 [a], %r10;
      call.uni (r), twice, (a);
      ld.param.b32 %r10, [r]; })",
                       {32, 1, 1}, {1, 1, 1}, R"(
.func (.param .b32 result) twice(.param .b32 value)
{
  .reg .b32 %r<3>; .reg .pred %p<2>;
  ld.param.b32 %r1, [value];
  setp.eq.u32 %p1, %r1, 4;
  @%p1 bra FOUR;
  add.u32 %r2, %r1, %r1;
  st.param.b32 [result], %r2;
  ret;
FOUR:
  st.param.b32 [result], 1000;
  ret;
}
)");
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(found[i], i == 4 ? 2000 : i == 2 ? 1000 : 4 * i);
}

TEST(Program, VariablesAndPointersToThem) {
  auto found = results(R"(
    ld.global.u64 %d1, [pointer]; ld.u32 %r11, [%d1]; ld.const.u32 %r12, [table+4];
    add.u32 %r10, %r11, %r12;)",
                       {32, 1, 1}, {1, 1, 1}, R"(
.const .align 4 .u32 table[2] = {5, 6};
.global .align 4 .b8 bytes[8] = {0, 0, 0, 0, 1, 2, 0, 0};
.global .align 8 .u64 pointer = generic(bytes)+4;
)");
  EXPECT_EQ(found, std::vector<uint32_t>(32, 513 + 6));
}

void expectRefused(const std::string &body, const std::string &why) {
  DeviceMemory memory(1 << 20);
  try {
    LoadedModule module(kernelOf(body), memory);
    FAIL() << "the module was loaded";
  } catch (const PtxError &error) {
    EXPECT_THAT(error.what(), HasSubstr(why));
  }
}

TEST(Program, WhatIsNotKnownIsNamed) {
  expectRefused("wgmma.fence.sync.aligned;",
                "line 20: wgmma.fence.sync.aligned;: the instruction wgmma is not known");
  expectRefused("add.wrong.u32 %r10, %r0, %r0;", "the modifier .wrong of add is not known");
  expectRefused("mov.u32 %r10, %nothing;", "the special register %nothing is not known");
  expectRefused("bra NOWHERE;", "line 20: bra NOWHERE;: the label NOWHERE is not defined");
  expectRefused("add.u16 %h1, %r0, %h2;", "the register %r0 has 32 bits, .u16 needs 16");
  expectRefused("mov.u32 %r10, elsewhere;", "the name elsewhere is not declared");
}

TEST(Program, EndlessBlocksEnd) {
  Device device;
  device.like.checks.instructionLimit = 1 << 22;
  uint64_t out = device.upload(iota(32));
  EXPECT_THAT(device.fault(Fault::Kind::Timeout, kernelOf("L: bra L;"), {out, out, out, out}),
              HasSubstr("it never ends"));
}

TEST(Program, TrapsAndLimits) {
  Device device;
  uint64_t out = device.upload(iota(32));
  auto params = std::vector<uint64_t>{out, out, out, out};
  EXPECT_THAT(
      device.fault(Fault::Kind::Trap, kernelOf("setp.eq.u32 %p1, %r0, 7; @%p1 trap; ret;"), params),
      HasSubstr("thread (7,0,0)"));
  device.fault(Fault::Kind::BadLaunch, kernelOf("ret;"), params, {1025, 1, 1});
  device.fault(Fault::Kind::BadLaunch, kernelOf("ret;"), params, {32, 1, 1}, {0, 1, 1});
}

// Tests that the number of the host's threads changes nothing, faults included.
TEST(Program, ThreadsOfTheHostChangeNothing) {
  std::string body = "mul.lo.u32 %r10, %r0, %r0;\n" + kStore, found[2];
  for (unsigned threads : {1u, 4u}) {
    Device device;
    device.like.threads = threads;
    uint64_t out = device.upload(std::vector<uint32_t>(32 * 100));
    device.run(kernelOf(body), {out, out, out, out}, {32, 1, 1}, {100, 1, 1});
    auto squares = device.download<uint32_t>(out, 3200);
    for (uint32_t i = 0; i < 3200; ++i)
      ASSERT_EQ(squares[i], i * i);
    found[threads > 1] = device.fault(Fault::Kind::IllegalAddress, kernelOf(body),
                                      {out, out, out, out}, {32, 1, 1}, {140, 1, 1});
    found[threads > 1].erase(0, found[threads > 1].find("; thread")); // addresses differ
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_THAT(found[0], HasSubstr("block (100,0,0)"));
}

} // namespace
