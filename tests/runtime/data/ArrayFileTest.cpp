#include "runtime/data/ArrayFile.h"

#include "runtime/base/Error.h"
#include "tests/runtime/data/DataFiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow {
namespace {

using namespace testfiles;
using testing::ElementsAre;
using testing::HasSubstr;

class ArrayFileTest : public testing::Test {
protected:
  /// Writes `bytes` and loads array `name` from it.
  Array load(const std::string &bytes, const std::string &name = "x") {
    writeFile(path, bytes);
    return ArrayFile(path).load(name);
  }

  std::string errorOf(const std::string &bytes, const std::string &name = "x") {
    try {
      load(bytes, name);
    } catch (const Error &error) {
      EXPECT_EQ(error.kind(), ErrorKind::BadInput);
      return error.what();
    }
    return "no error";
  }

  TempDir dir;
  std::string path = dir.path("a.npz");
};

std::vector<float> floats(const Array &array) {
  std::vector<float> values(array.rowCount() * array.rowElements());
  convertElements(array.type, array.bytes.data(), DType::F32,
                  reinterpret_cast<char *>(values.data()), values.size());
  return values;
}

// Tests that stored and deflated entries, in the small and the 64-bit form, give the same array.
TEST_F(ArrayFileTest, ReadsStoredAndDeflated) {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  for (bool deflated : {false, true})
    for (bool zip64 : {false, true}) {
      writeFile(path, zip({{"x.npy", npyFloats({3, 2}, values), deflated},
                           {"notes.txt", "not an array", false},
                           {"y.npy", npyLabels({7, 8, 9}), deflated}},
                          zip64));
      ArrayFile file(path);
      EXPECT_THAT(file.names(), ElementsAre("x", "y"));
      Array x = file.load("x");
      EXPECT_EQ(describe(x), "f32[3,2]");
      EXPECT_EQ(x.rowElements(), 2);
      EXPECT_EQ(floats(x), values);
      EXPECT_EQ(floats(file.load("y")), (std::vector<float>{7, 8, 9}));
    }
}

// Tests that a stored array is used where it lies: its bytes are inside the file's mapping.
TEST_F(ArrayFileTest, StoredArraysAreMapped) {
  std::string contents = npyFloats({2}, {1, 2});
  Array stored = load(zip({{"x.npy", contents}}));
  Array packed = load(zip({{"x.npy", contents, true}}));
  auto owner = [](const Array &a) { return static_cast<const char *>(a.owner.get()); };
  EXPECT_NE(owner(stored), stored.bytes.data() - (contents.size() - 8));
  EXPECT_EQ(owner(packed), packed.bytes.data() - (contents.size() - 8));
}

TEST_F(ArrayFileTest, ReadsSingleNpy) {
  std::string npyPath = dir.path("labels.npy");
  writeFile(npyPath, npyLabels({4, 5}));
  ArrayFile file(npyPath);
  EXPECT_THAT(file.names(), ElementsAre("labels"));
  EXPECT_EQ(describe(file.load("labels")), "i64[2]");
}

// Tests header versions, scalars, empty arrays, key order and Python 2's long integers.
TEST_F(ArrayFileTest, ReadsHeaderVariants) {
  for (int version : {1, 2, 3})
    EXPECT_EQ(describe(load(zip({{"x.npy", npy("<f4", {2}, bytesOf<float>({1, 2}), version)}}))),
              "f32[2]");
  EXPECT_EQ(describe(load(zip({{"x.npy", npy("<f8", {}, bytesOf<double>({1}))}}))), "f64[]");
  EXPECT_EQ(describe(load(zip({{"x.npy", npy("|u1", {0, 5}, "")}}))), "u8[0,5]");
  EXPECT_EQ(describe(load(zip({{"x.npy", npyWithHeader("{\"shape\": (2L, 1L), 'fortran_order': "
                                                       "False, 'descr': '|b1'}",
                                                       "ab")}}))),
            "bool[2,1]");
  // One dimension is the same in both orders.
  EXPECT_EQ(describe(load(zip({{"x.npy", npyWithHeader("{'descr': '<i4', 'fortran_order': True, "
                                                       "'shape': (1,), }",
                                                       "abcd")}}))),
            "i32[1]");
}

// Tests that errors name the file, the entry, what was expected and what was found.
TEST_F(ArrayFileTest, ErrorsNameThePlace) {
  auto inZip = [](const std::string &npyFile) { return zip({{"x.npy", npyFile}}); };
  std::string four = bytesOf<float>({1});
  EXPECT_THAT(errorOf("nothing"), HasSubstr("a.npz: this is not an npz file"));
  EXPECT_THAT(errorOf(""), HasSubstr("a.npz: this is not an npz file"));
  EXPECT_THAT(errorOf(zip({})), HasSubstr("a.npz: the archive holds no .npy arrays"));
  EXPECT_THAT(errorOf(inZip(npyFloats({1}, {1})), "z"),
              HasSubstr("a.npz: there is no array 'z'; it holds x"));
  EXPECT_THAT(errorOf(inZip("\x93NUMP")), HasSubstr("a.npz: x: this is not a NumPy array"));
  EXPECT_THAT(errorOf(inZip(npyFloats({2}, {1}))),
              HasSubstr("a.npz: x: expected 8 bytes of elements, found 4"));
  EXPECT_THAT(errorOf(inZip(npyFloats({1}, {1, 2}))),
              HasSubstr("a.npz: x: expected 4 bytes of elements, found 8"));
  EXPECT_THAT(errorOf(inZip(npy(">f4", {1}, four))), HasSubstr("big-endian"));
  EXPECT_THAT(errorOf(inZip(npy("<c8", {1}, four + four))), HasSubstr("found '<c8'"));
  EXPECT_THAT(errorOf(inZip(npyWithHeader("{'descr': '<f4', 'fortran_order': True, 'shape': (1, "
                                          "1), }",
                                          four))),
              HasSubstr("column-major"));
  EXPECT_THAT(errorOf(inZip(npyWithHeader("{'descr': [('a', '<f4')], 'fortran_order': False, "
                                          "'shape': (1,), }",
                                          four))),
              HasSubstr("structured"));
  EXPECT_THAT(errorOf(inZip(npy("<f4", {int64_t{1} << 40, int64_t{1} << 40}, four))),
              HasSubstr("the shape is too large"));
  EXPECT_THAT(errorOf(inZip(npyWithHeader("{'descr': '<f4', 'shape': (1,), }", four))),
              HasSubstr("lacks one of"));
  EXPECT_THAT(errorOf(zip({{"x.npy", npyFloats({1}, {1})}, {"x.npy", npyFloats({1}, {1})}})),
              HasSubstr("two entries 'x.npy'"));
  try {
    ArrayFile("/nonexistent/file.npz");
    FAIL();
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot open '/nonexistent/file.npz': No such file"));
  }
  EXPECT_THROW(ArrayFile("/"), Error);
}

// Tests that a flipped bit in a deflated array is found by its checksum.
TEST_F(ArrayFileTest, ChecksumOfDeflatedEntries) {
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i * i % 97);
  std::string good = zip({{"x.npy", npyFloats({1000}, values), true}});
  std::string bad = good;
  size_t crcAt = bad.find("PK\x01\x02") + 16;
  bad[crcAt] = static_cast<char>(bad[crcAt] ^ 1);
  EXPECT_EQ(errorOf(good), "no error");
  EXPECT_THAT(errorOf(bad), HasSubstr("its checksum does not match"));
}

// Tests that a small entry which claims to inflate to terabytes is refused before any allocation.
TEST_F(ArrayFileTest, RefusesBombs) {
  std::string bomb = zip({{"x.npy", std::string(100, 'a'), true}}, true);
  size_t extra = bomb.find(std::string("x.npy") + std::string("\x01\x00\x18\x00", 4));
  uint64_t claimed = uint64_t{1} << 44;
  std::memcpy(bomb.data() + extra + 5 + 4, &claimed, 8);
  EXPECT_THAT(errorOf(bomb), HasSubstr("claims 17592186044416 bytes"));
}

// Tests the data set that comes with the repository.
TEST_F(ArrayFileTest, ReadsTheDigits) {
  ArrayFile file(std::string(STOWAGE_SOURCE_DIR) + "/models/data/digits.npz");
  EXPECT_EQ(describe(file.load("x")), "f32[1437,1,8,8]");
  EXPECT_EQ(describe(file.load("y")), "i64[1437]");
  EXPECT_EQ(describe(file.load("x_test")), "f32[360,1,8,8]");
  for (float value : floats(file.load("x"))) {
    EXPECT_GE(value, 0);
    EXPECT_LE(value, 1);
  }
}

} // namespace
} // namespace stow
