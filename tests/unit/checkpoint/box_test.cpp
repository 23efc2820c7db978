#include "checkpoint/box.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace viaduct {
namespace {

// The logical index of every element of a piece, in order, by the definition.
std::vector<int64_t> elements_of(const Piece& piece, const Shape& shape) {
  std::vector<int64_t> elements;
  for (int64_t place = piece.begin; place < piece.end; ++place) {
    int64_t rest = place, index = 0, stride = 1;
    for (int dim = shape.rank() - 1; dim >= 0; --dim) {
      index += (piece.box.begin[dim] + rest % piece.box.size[dim]) * stride;
      rest /= piece.box.size[dim];
      stride *= shape[dim];
    }
    elements.push_back(index);
  }
  return elements;
}

class RandomPieces {
 public:
  explicit RandomPieces(uint64_t seed) : random_(seed) {}
  int64_t upto(int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(random_); }
  Shape shape(int rank) {
    Shape shape;
    for (int dim = 0; dim < rank; ++dim) shape.append(1 + upto(5));
    return shape;
  }
  Piece piece(const Shape& shape) {
    Piece piece{whole_box(shape), 0, 0};
    for (int dim = 0; dim < shape.rank(); ++dim) {
      if (upto(1) == 0) continue;  // all of this dim
      piece.box.begin[dim] = upto(shape[dim] - 1);
      piece.box.size[dim] = 1 + upto(shape[dim] - piece.box.begin[dim] - 1);
    }
    piece.end = piece.box.size.elements();
    if (upto(1) == 0) return piece;  // all of the box
    piece.begin = upto(piece.end);
    piece.end = piece.begin + upto(piece.box.size.elements() - piece.begin);
    return piece;
  }

 private:
  std::mt19937_64 random_;
};

TEST(Box, SharedElementsAreThoseOfTheDefinition) {
  RandomPieces random(17);
  int64_t shared_in_all = 0;
  for (int round = 0; round < 20000; ++round) {
    const Shape shape = random.shape(static_cast<int>(random.upto(4)));
    const Piece from = random.piece(shape), to = random.piece(shape);
    const auto given = elements_of(from, shape), wanted = elements_of(to, shape);
    std::vector<int64_t> received(wanted.size(), -1);
    const int64_t copied =
        copy_shared(from, reinterpret_cast<const std::byte*>(given.data()), to,
                    reinterpret_cast<std::byte*>(received.data()), sizeof(int64_t));
    int64_t shared = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const bool there = std::find(given.begin(), given.end(), wanted[i]) != given.end();
      shared += there;
      ASSERT_EQ(received[i], there ? wanted[i] : -1)
          << to_string(shape) << " " << to_string(from) << " " << to_string(to);
    }
    ASSERT_EQ(copied, shared);
    shared_in_all += shared;
  }
  EXPECT_GT(shared_in_all, 20000);  // the pieces overlap
}

TEST(Box, InsideNeedsTheSameRankAndBothBorders) {
  EXPECT_TRUE(is_inside({{1, 2}, {3, 2}}, {4, 4}));
  EXPECT_TRUE(is_inside({{4, 0}, {0, 4}}, {4, 4}));
  EXPECT_FALSE(is_inside({{1, 2}, {3, 3}}, {4, 4}));
  EXPECT_FALSE(is_inside({{5, 0}, {0, 4}}, {4, 4}));
  EXPECT_FALSE(is_inside({{1}, {3}}, {4, 4}));
  EXPECT_FALSE(is_inside({{INT64_MAX, 0}, {3, 4}}, {4, 4}));
}

TEST(Box, NeighboursDoNotOverlap) {
  EXPECT_FALSE(overlaps({{0, 0}, {2, 4}}, {{2, 0}, {2, 4}}));
  EXPECT_TRUE(overlaps({{0, 0}, {3, 4}}, {{2, 3}, {2, 1}}));
  EXPECT_FALSE(overlaps({{0, 0}, {3, 3}}, {{2, 3}, {2, 1}}));
  EXPECT_TRUE(overlaps({}, {}));  // scalars
}

}  // namespace
}  // namespace viaduct
