#include "ir/plan/pack/Text.h"
#include "ir/plan/pack/Generate.h"
#include "runtime/base/Error.h"
#include "tests/ir/plan/pack/Build.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow::pack {
namespace {

using testing::HasSubstr;

TEST(TextTest, ReadsMiniMallocsFormat) {
  const Problem problem = parse("id,lower,upper,size\na,0,3,4\nb,2,7,8\n", "x.csv");
  ASSERT_EQ(problem.buffers.size(), 2u);
  EXPECT_EQ(problem.buffers[1].name, "b");
  EXPECT_EQ(problem.buffers[1].life, (Interval{2, 7}));
  EXPECT_EQ(problem.buffers[1].size, 8);
}

TEST(TextTest, ReadsEveryColumnInAnyOrder) {
  const Problem problem =
      parse("# a comment\r\n"
            "size, id ,upper,lower,offset,alignment,persistent,same_as,inside,hint\r\n"
            "\r\n"
            "32, w , 9,0,64,64,1,,,7\r\n"
            "16,x,9,0,,,0,,w+16,\r\n"
            "8,y,9,0,,,,x,,\r\n",
            "x.csv");
  ASSERT_EQ(problem.buffers.size(), 3u);
  EXPECT_EQ(problem.buffers[0].name, "w");
  EXPECT_EQ(problem.buffers[0].fixedOffset, 64);
  EXPECT_EQ(problem.buffers[0].alignment, 64);
  EXPECT_TRUE(problem.buffers[0].persistent);
  EXPECT_EQ(problem.buffers[1].inside, (Inside{0, 16}));
  EXPECT_FALSE(problem.buffers[1].fixedOffset);
  EXPECT_EQ(problem.buffers[2].sameAs, 1);
}

TEST(TextTest, AnEndColumnIsInclusive) {
  EXPECT_EQ(parse("buffer_id,start,end,size\n0,2,4,8\n", "x.csv").buffers[0].life,
            (Interval{2, 5}));
}

TEST(TextTest, PrintsWhatItReads) {
  GenerateOptions options;
  options.fixed = true;
  options.buffers = 12;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Problem problem = generate(seed, options);
    if (check(problem).empty()) {
      EXPECT_EQ(parse(print(problem), "printed"), problem) << seed;
    }
  }
}

TEST(TextTest, PrintsSolutions) {
  const Problem problem = test::picture();
  EXPECT_EQ(print(problem, Solution{{0, 2, 2, 0}, 6}), "id,lower,upper,size,offset\n"
                                                       "b0,0,5,2,0\n"
                                                       "b1,1,4,2,2\n"
                                                       "b2,4,7,4,2\n"
                                                       "b3,5,8,2,0\n");
}

// Tests that fields in quotes and a byte order mark are read, and that names which need quotes come
// back: commas, quotes, blanks at the ends, and # in front, which else begins a comment.
TEST(TextTest, ReadsAndWritesQuotes) {
  const std::string text = "\xef\xbb\xbf\"id\",lower,upper,size,same_as,inside\r\n"
                           "\"conv, first\",\"0\",4, \"16\" ,,\r\n"
                           "\"say \"\"hi\"\"\",0,4,16,\"conv, first\",\n"
                           "\"#3\",0,4,4,,\"conv, first+4\"\n"
                           "\" blank \",5,6,1,,\n";
  const Problem problem = parse(text, "x.csv");
  ASSERT_EQ(problem.buffers.size(), 4u);
  EXPECT_EQ(problem.buffers[0].name, "conv, first");
  EXPECT_EQ(problem.buffers[0].size, 16);
  EXPECT_EQ(problem.buffers[1].name, "say \"hi\"");
  EXPECT_EQ(problem.buffers[1].sameAs, 0);
  EXPECT_EQ(problem.buffers[2].inside, (Inside{0, 4}));
  EXPECT_EQ(problem.buffers[3].name, " blank ");
  EXPECT_EQ(parse(print(problem), "printed"), problem);
}

struct Malformed {
  const char *text;
  const char *message;
};

class MalformedTest : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedTest, NamesThePlace) {
  try {
    parse(GetParam().text, "x.csv");
    FAIL() << "accepted";
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), ErrorKind::BadInput);
    EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, MalformedTest,
    testing::Values(
        Malformed{"", "x.csv:1:1: no header"}, Malformed{"\n\n# nothing\n", "x.csv:3:1: no header"},
        Malformed{"id,lower,upper\n", "x.csv:1:1: column 'size' is missing"},
        Malformed{"id,lower,upper,size,colour\n", "x.csv:1:21: unknown column 'colour'"},
        Malformed{"id,lower,upper,size,size\n", "x.csv:1:21: column 'size' is given twice"},
        Malformed{"id,lower,start,upper,size\n", "x.csv:1:10: column 'lower' is given twice"},
        Malformed{"id,lower,upper,size\na,0,1\n", "x.csv:2:1: found 3 fields; the header has 4"},
        Malformed{"id,lower,upper,size\na,0,1,2,3\n", "x.csv:2:1: found 5 fields"},
        Malformed{"id,lower,upper,size\n\"a,0,1,2\n", "x.csv:2:1: the quote is not closed"},
        Malformed{"id,lower,upper,size\n\"a\"b,0,1,2\n", "x.csv:2:4: expected a comma after"},
        Malformed{"id,lower,upper,size\n\na,0, 1x,2\n", "x.csv:3:6: upper is '1x'; expected a "},
        Malformed{"id,lower,upper,size\na,0,,2\n", "x.csv:2:5: upper is ''"},
        Malformed{"id,lower,upper,size\na,0,1,99999999999999999999\n",
                  "x.csv:2:7: size '99999999999999999999' does not fit into 64 bits"},
        Malformed{"id,lower,end,size\na,0,9223372036854775807,1\n", "x.csv:2:5: end "},
        Malformed{"id,lower,upper,size\n,0,1,2\n", "x.csv:2:1: the id is empty"},
        Malformed{"id,lower,upper,size\na,0,0,2\n", "x.csv: buffer 'a' has the empty lifetime"},
        Malformed{"id,lower,upper,size\na,0,1,2\na,0,1,2\n", "'a' is named twice"},
        Malformed{"id,lower,upper,size,persistent\na,0,1,2,yes\n",
                  "x.csv:2:9: persistent is 'yes'"},
        Malformed{"id,lower,upper,size,same_as\na,0,1,2,b\n", "x.csv:2:9: no buffer is named 'b'"},
        Malformed{"id,lower,upper,size,inside\na,0,1,2,b\n", "x.csv:2:9: inside is 'b'; expected"},
        Malformed{"id,lower,upper,size,inside\na,0,1,2,b+x\n", "x.csv:2:11: offset is 'x'"}));

// Random damage to a valid file gives a problem or an input error, nothing else.
TEST(TextTest, SurvivesDamage) {
  GenerateOptions options;
  options.fixed = true;
  uint64_t state = 1;
  auto random = [&](uint64_t bound) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % bound;
  };
  constexpr char alphabet[] = ",\n\r#+-\"0123456789 abwx\0\xff";
  int accepted = 0, refused = 0;
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    std::string text = print(generate(seed % 50, options));
    for (uint64_t edits = 1 + random(4); edits-- > 0;) {
      const size_t at = random(text.size() + 1);
      switch (random(3)) {
      case 0:
        text.insert(at, 1, alphabet[random(sizeof alphabet - 1)]);
        break;
      case 1:
        text.erase(at, random(8));
        break;
      default:
        if (at < text.size())
          text[at] = alphabet[random(sizeof alphabet - 1)];
      }
    }
    try {
      const Problem problem = parse(text, "damaged");
      EXPECT_TRUE(check(problem).empty());
      ++accepted;
    } catch (const Error &error) {
      EXPECT_EQ(error.kind(), ErrorKind::BadInput);
      EXPECT_THAT(error.what(), HasSubstr("damaged"));
      ++refused;
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

} // namespace
} // namespace stow::pack
