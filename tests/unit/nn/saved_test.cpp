#include "nn/saved.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace viaduct {
namespace {

TEST(SavedStore, CountsEqualStoragesOnceByUnit) {
  SavedStore saved;
  const Tensor a = host_tensor(DType::f32, {4}), b = host_tensor(DType::f32, {2});
  const int owner = 0;
  {
    const UnitScope outer(saved, "mlp");
    saved.keep(&owner, "a", a);
    const UnitScope inner(saved, "layernorm");
    saved.keep(&owner, "b", b);
  }
  saved.keep(&owner, "view", a.slice(0, 1, 2));
  int64_t bytes = 0;
  for (const auto& [unit, size] : saved.bytes_by_unit()) bytes += size;
  EXPECT_EQ(bytes, 24);
  EXPECT_EQ(saved.bytes_by_unit().at("layernorm"), 8);
  EXPECT_EQ(saved.take(&owner, "b").raw(), b.raw());
  EXPECT_THROW(saved.get(&owner, "b"), ShapeError);
  SavedStore nothing(false);
  nothing.keep(&owner, "a", a);
  EXPECT_EQ(nothing.entries(), 0u);
}

}  // namespace
}  // namespace viaduct
