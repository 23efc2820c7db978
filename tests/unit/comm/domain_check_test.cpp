#include "comm/domain_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace viaduct {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Straddling& of_kind(const std::vector<Straddling>& all, GroupKind kind) {
  for (const Straddling& s : all) {
    if (s.kind == kind) return s;
  }
  static const Straddling none;
  ADD_FAILURE() << "no such kind";
  return none;
}

// 64 ranks a stage on domains of 72: stage 1, ranks 64 to 127, crosses the border at 72, and so do
// the later stages; tensor groups of 4 do not, because 4 divides 72.
TEST(DomainCheck, StagesOf64OnDomainsOf72) {
  const Mesh mesh = Mesh::make({.ranks = 256, .tp = 4, .pp = 4});
  const auto found = groups_across_domains(mesh, 72);
  EXPECT_EQ(of_kind(found, GroupKind::tp).straddling, 0);
  const Straddling& data = of_kind(found, GroupKind::dp_cp_inner);
  EXPECT_EQ(data.groups, 16);
  EXPECT_EQ(data.straddling, 12);
  EXPECT_EQ(data.example.front().value, 64);
  EXPECT_EQ(data.example.back().value, 124);
  EXPECT_THAT(domain_notes(mesh, 72),
              ElementsAre(AllOf(HasSubstr("12 of 16 groups dp_cp.inner straddle domains of 72"),
                                HasSubstr("ranks 64 to 124 in domains 0 to 1")),
                          AllOf(HasSubstr("use 64 of the 72 devices"),
                                HasSubstr("data-parallel size of 9 or 18"))));
}

TEST(DomainCheck, WhatTheSuggestionSaysIsTrue) {
  EXPECT_THAT(domain_notes(Mesh::make({.ranks = 256, .tp = 4, .pp = 4}), 64), IsEmpty());
  EXPECT_THAT(domain_notes(Mesh::make({.ranks = 288, .tp = 4, .pp = 4}), 72), IsEmpty());
  EXPECT_THAT(domain_notes(Mesh::make({.ranks = 144, .tp = 4, .pp = 4}), 72), IsEmpty());
}

TEST(DomainCheck, TensorGroupsOverABorder) {
  const auto notes = domain_notes(Mesh::make({.ranks = 24, .tp = 3}), 8);
  ASSERT_THAT(notes.size(), 3u);
  EXPECT_THAT(notes[0], HasSubstr("2 of 8 groups tp straddle domains of 8 ranks, for instance "
                                  "ranks 6 to 8 in domains 0 to 1"));
  EXPECT_THAT(notes[1], HasSubstr("3 of 3 groups dp_cp.inner"));
  EXPECT_THAT(notes[2], HasSubstr("use 6 of the 8 devices"));
}

// Groups larger than a domain are reported without suggestions, because none would help.
TEST(DomainCheck, GroupsThatCannotFit) {
  const Mesh mesh = Mesh::make({.ranks = 64});
  EXPECT_THAT(domain_notes(mesh, 8), ElementsAre(HasSubstr("with 64 ranks each they cannot fit")));
  EXPECT_THAT(domain_notes(mesh.with({.optimizer_instances = 8}), 8), IsEmpty())
      << "an instance lies inside a domain";
  EXPECT_THAT(domain_notes(Mesh({1, 1, 1, 1, 1}), 8), IsEmpty());
}

// A group of 70 fits a domain of 72 and no smaller one, so fewer devices a domain do not help.
TEST(DomainCheck, SuggestsNothingThatWouldNotHelp) {
  const auto notes = domain_notes(Mesh::make({.ranks = 140, .pp = 2}), 72);
  ASSERT_THAT(notes.size(), 2u);
  EXPECT_THAT(notes[1], HasSubstr("use 70 of the 72 devices"));
}

TEST(DomainCheck, ExpertGroupsCount) {
  const Mesh mesh = Mesh::make({.ranks = 32, .ep = 16, .etp = 1}).with({.optimizer_instances = 2});
  const auto found = groups_across_domains(mesh, 8);
  EXPECT_EQ(of_kind(found, GroupKind::expert_tp_ep).straddling, 2);
  EXPECT_EQ(of_kind(found, GroupKind::expert_tp_ep).ranks_per_group, 16);
}

}  // namespace
}  // namespace viaduct
