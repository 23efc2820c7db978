// When a field does nothing, as its declaration says.

#include "config/idle_rule.h"

#include <gtest/gtest.h>

#include "config/field.h"

namespace viaduct {
namespace {

struct Paint {
  bool inside = true, primer = false, varnish = false;
  int coats = 1;
};

FieldGroup fields_of(Paint& paint) {
  FieldGroup group("paint", "What is painted.");
  group.field("inside", paint.inside, "Walls.");
  group.idle([&paint] { return reason_if(!paint.inside, "paint.inside = false"); });
  group.field("coats", paint.coats, "Of paint.")
      .idle([&paint] { return paint.primer; }, "primer alone");
  group.idle({});
  group.field("varnish", paint.varnish, "Over paint.")
      .idle([&paint] { return paint.coats == 0; }, "no paint");
  return group;
}

TEST(IdleRule, TheFirstThatHoldsIsTheReason) {
  Paint paint;
  const FieldGroup group = fields_of(paint);
  const Field& coats = group.fields()[1];
  EXPECT_EQ(coats.idle_reason(), "");
  paint.primer = true;
  EXPECT_EQ(coats.idle_reason(), "primer alone");
  paint.inside = false;
  EXPECT_EQ(coats.idle_reason(), "paint.inside = false") << "the group's rule comes first";
}

TEST(IdleRule, OfAGroupHoldsForTheFieldsBehindIt) {
  Paint paint{.inside = false};
  const FieldGroup group = fields_of(paint);
  EXPECT_EQ(group.fields()[0].idle_reason(), "");
  EXPECT_EQ(group.fields()[2].idle_reason(), "") << "until it ends";
  paint.coats = 0;
  EXPECT_EQ(group.fields()[2].idle_reason(), "no paint");
}

TEST(IdleRule, OfValuesAreTheFieldsThatAGroupDeclaresSo) {
  Paint paint;
  FieldGroup group("paint", "");
  group.field("inside", paint.inside, "Walls.");
  group.field("primer", paint.primer, "Below.").of_values();
  group.of_values();
  group.field("varnish", paint.varnish, "Over paint.").in_virtual_time();
  group.field("coats", paint.coats, "Of paint.").of_values([&paint] { return paint.primer; });
  EXPECT_FALSE(group.fields()[0].needs_values());
  EXPECT_TRUE(group.fields()[1].needs_values());
  EXPECT_FALSE(group.fields()[2].needs_values());
  EXPECT_TRUE(group.fields()[3].needs_values());
  paint.primer = true;
  EXPECT_FALSE(group.fields()[3].needs_values());
}

}  // namespace
}  // namespace viaduct
