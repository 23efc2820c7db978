// The saved store: saved tensors by unit, their last reader, and when memory is freed.

#include "nn/saved.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/device.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::ThrowsMessage;

Tensor numbers(int64_t elements) {
  return host_tensor(DType::f32, {elements});
}

const int kLayer = 0, kOther = 0;  // owners are addresses

TEST(SavedStore, GivesBackWhatWasKept) {
  SavedStore saved;
  const Tensor x = numbers(4);
  saved.keep(&kLayer, "x", x);
  saved.keep(&kLayer, "y", x.slice(0, 1, 2));
  EXPECT_EQ(saved.get(&kLayer, "x").raw(), x.raw());
  EXPECT_EQ(saved.get(&kLayer, "y").raw(), x.slice(0, 1, 2).raw());
  EXPECT_EQ(saved.get(&kLayer, "y").elements(), 2) << "the view, not the storage";
  EXPECT_EQ(saved.entries(), 2u) << "get does not remove it";
}

TEST(SavedStore, OwnersHaveNamesOfTheirOwn) {
  SavedStore saved;
  const Tensor a = numbers(1), b = numbers(1);
  saved.keep(&kLayer, "x", a);
  saved.keep(&kOther, "x", b);
  EXPECT_EQ(saved.take(&kOther, "x").raw(), b.raw());
  EXPECT_EQ(saved.get(&kLayer, "x").raw(), a.raw());
}

TEST(SavedStore, KeepingTwiceIsAnError) {
  SavedStore saved;
  saved.keep(&kLayer, "x", numbers(1));
  EXPECT_THAT([&] { saved.keep(&kLayer, "x", numbers(2)); },
              ThrowsMessage<ShapeError>(HasSubstr("\"x\" is kept twice")));
  EXPECT_EQ(saved.take(&kLayer, "x").elements(), 1);
  saved.keep(&kLayer, "x", numbers(3));
  EXPECT_EQ(saved.get(&kLayer, "x").elements(), 3) << "a value that was taken can be kept again";
}

TEST(SavedStore, EachRunOfASegmentHasItsOwnValues) {
  SavedStore saved;
  for (const int instance : {0, 1}) {
    const SegmentScope scope(saved, {.instance = instance});
    saved.keep(&kLayer, "x", numbers(instance + 1));
  }
  const SegmentScope scope(saved, {.instance = 1});
  EXPECT_EQ(saved.take(&kLayer, "x").elements(), 2);
  EXPECT_FALSE(saved.has(&kLayer, "x"));
  EXPECT_EQ(saved.entries(), 1u);
}

TEST(SavedStore, TheLastReaderTakesTheMemoryWithIt) {
  const auto device = make_cpu_device(1);
  SavedStore saved;
  const auto held = [&] {
    return device->memory().bytes_by_tag.at(static_cast<size_t>(MemoryTag::saved));
  };
  saved.keep(&kLayer, "x", device->allocate(DType::f32, {1024}, MemoryTag::saved));
  EXPECT_EQ(held(), 4096);
  (void)saved.get(&kLayer, "x");
  EXPECT_EQ(held(), 4096);
  {
    const Tensor x = saved.take(&kLayer, "x");
    EXPECT_EQ(held(), 4096) << "as long as the reader has it";
  }
  EXPECT_EQ(held(), 0);
}

TEST(SavedStore, WhatWasNotKeptIsNamed) {
  SavedStore saved;
  saved.keep(&kLayer, "x", numbers(1));
  saved.take(&kLayer, "x");
  const auto says = [](const char* name) {
    return ThrowsMessage<ShapeError>(AllOf(HasSubstr(name), HasSubstr("was not kept")));
  };
  EXPECT_THAT([&] { saved.get(&kLayer, "x"); }, says("\"x\""));
  EXPECT_THAT([&] { saved.take(&kLayer, "x"); }, says("\"x\""));
  EXPECT_THAT([&] { saved.take(&kOther, "lse"); }, says("\"lse\""));
}

TEST(SavedStore, UnitsNestAndEnd) {
  SavedStore saved;
  {
    const UnitScope outer(saved, "mlp");
    saved.keep(&kLayer, "a", numbers(4));
    {
      const UnitScope inner(saved, "layernorm");
      saved.keep(&kLayer, "b", numbers(2));
    }
    saved.keep(&kLayer, "c", numbers(1));
  }
  saved.keep(&kLayer, "d", numbers(8));
  EXPECT_THAT(saved.bytes_by_unit(),
              ElementsAre(Pair("", 32), Pair("layernorm", 8), Pair("mlp", 16 + 4)));
}

TEST(SavedStore, BytesAreThoseOfDistinctStorages) {
  SavedStore saved;
  const Tensor a = numbers(4);
  {
    const UnitScope unit(saved, "mlp");
    saved.keep(&kLayer, "a", a);
  }
  saved.keep(&kLayer, "again", a);
  saved.keep(&kLayer, "part", a.slice(0, 1, 2));
  EXPECT_THAT(saved.bytes_by_unit(), ElementsAre(Pair("mlp", 16)));
  saved.take(&kLayer, "a");
  EXPECT_THAT(saved.bytes_by_unit(), ElementsAre(Pair("", 16))) << "others hold the whole storage";
  saved.take(&kLayer, "again");
  saved.take(&kLayer, "part");
  EXPECT_THAT(saved.bytes_by_unit(), IsEmpty());
}

// Owners are addresses; their order has no meaning.
TEST(SavedStore, BytesAreOfTheUnitThatKeptFirst) {
  const int owners[] = {0, 0};
  for (const auto& [first, second] : {std::pair(0, 1), std::pair(1, 0)}) {
    SavedStore saved;
    const Tensor a = numbers(4);
    {
      const UnitScope unit(saved, "attn_norm");
      saved.keep(&owners[first], "a", a);
    }
    const UnitScope unit(saved, "mlp");
    saved.keep(&owners[second], "a", a);
    EXPECT_THAT(saved.bytes_by_unit(), ElementsAre(Pair("attn_norm", 16)));
  }
}

TEST(SavedStore, OneThatKeepsNothingHoldsNothing) {
  SavedStore nothing(false);
  const Tensor a = numbers(4);
  EXPECT_FALSE(nothing.keeps());
  EXPECT_TRUE(SavedStore().keeps());
  nothing.keep(&kLayer, "a", a);
  EXPECT_EQ(nothing.entries(), 0u);
  EXPECT_THAT(nothing.bytes_by_unit(), IsEmpty());
  EXPECT_EQ(a.storage().use_count(), 1);
  EXPECT_THROW(nothing.get(&kLayer, "a"), ShapeError);
}

}  // namespace
}  // namespace viaduct
