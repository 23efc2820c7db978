// Settings whose values are an enum.

#include "config/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/auto.h"
#include "config/load.h"
#include "config/one_or_list.h"
#include "config/problems.h"

namespace viaduct {
namespace {

enum class Colour { red, green, dark_blue };
constexpr auto choice_names(Colour) {
  return std::to_array<std::string_view>({"red", "green", "dark-blue"});
}

struct Paint {
  Colour inside = Colour::green;
  std::optional<Colour> outside;
  Auto<Colour> roof;
  std::vector<Colour> doors;
  Colour fence = Colour::green;
  OneOrList<Colour> windows = Colour::green;
};

std::vector<FieldGroup> groups_of(Paint& paint) {
  FieldGroup group("paint", "What is painted.");
  group.field("inside", paint.inside, "Walls.");
  group.field("outside", paint.outside, "Walls; null: none.");
  group.field("roof", paint.roof, "Tiles.");
  group.field("doors", paint.doors, "All of them.");
  group.field("fence", paint.fence, "Not blue.").one_of({Colour::red, Colour::green});
  group.field("windows", paint.windows, "One colour, or one of each.");
  return {group};
}

Paint read(const std::vector<std::string>& overrides, Problems& problems) {
  Paint paint;
  const Schema schema(groups_of(paint));
  read_config(schema, {{}, overrides}, problems);
  return paint;
}

Paint read(const std::vector<std::string>& overrides) {
  Problems problems;
  const Paint paint = read(overrides, problems);
  EXPECT_THAT(problems.all(), testing::IsEmpty());
  return paint;
}

/// The only problem.
std::string problem_of(const std::string& override_text) {
  Problems problems;
  read({override_text}, problems);
  EXPECT_EQ(problems.all().size(), 1u);
  return problems.all().front();
}

TEST(Choices, AreReadAndWrittenByName) {
  const Paint paint = read({"paint.inside=dark-blue", "paint.outside=red", "paint.roof=green",
                            "paint.doors=[red,green]"});
  EXPECT_EQ(paint.inside, Colour::dark_blue);
  EXPECT_EQ(paint.outside, Colour::red);
  EXPECT_EQ(paint.roof.value(), Colour::green);
  EXPECT_EQ(paint.doors, (std::vector{Colour::red, Colour::green}));
  EXPECT_EQ(write_value(paint.inside).scalar, "dark-blue");
  EXPECT_EQ(stated("paint.inside", paint.inside), "paint.inside = dark-blue");
}

TEST(Choices, TheDefaultsStay) {
  const Paint paint = read({"paint.outside=null", "paint.roof=auto"});
  EXPECT_EQ(paint.inside, Colour::green);
  EXPECT_FALSE(paint.outside);
  EXPECT_TRUE(paint.roof.is_auto());
}

TEST(Choices, AnotherNameIsAnErrorThatNamesThem) {
  EXPECT_THAT(problem_of("paint.inside=darkblue"),
              testing::HasSubstr(
                  "expected one of red|green|dark-blue, found 'darkblue'; nearest: dark-blue"));
  EXPECT_THAT(problem_of("paint.doors=[red,rad]"), testing::HasSubstr("found 'rad'; nearest: red"));
}

TEST(Choices, OneForAllOrAList) {
  EXPECT_EQ(read({"paint.windows=red"}).windows.at(7), Colour::red);
  EXPECT_EQ(read({"paint.windows=[red,dark-blue]"}).windows.at(1), Colour::dark_blue);
  EXPECT_THAT(problem_of("paint.windows=[red,rad]"), testing::HasSubstr("found 'rad'"));
  EXPECT_THAT(problem_of("paint.windows=rad"), testing::HasSubstr("found 'rad'; nearest: red"));
}

TEST(Choices, AFieldMayHaveSomeOfThem) {
  EXPECT_EQ(read({"paint.fence=red"}).fence, Colour::red);
  EXPECT_THAT(problem_of("paint.fence=dark-blue"),
              testing::HasSubstr("expected one of red|green, found 'dark-blue'"));
}

}  // namespace
}  // namespace viaduct
