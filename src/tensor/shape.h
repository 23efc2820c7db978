#pragma once
// The sizes of a tensor's dims, outermost first. A value of fixed capacity: no allocation.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace viaduct {

class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;  // rank 0: a scalar, one element
  Shape(std::initializer_list<int64_t> dims);
  /// From an array of `rank` sizes; ShapeError if there are more than kMaxRank or one is negative.
  Shape(const int64_t* dims, int rank);

  int rank() const { return rank_; }
  int64_t operator[](int dim) const { return dims_[dim]; }
  int64_t& operator[](int dim) { return dims_[dim]; }
  /// Size of dim `dim`, counted from the end if negative (−1 is the innermost); ShapeError outside.
  int64_t dim(int dim) const;
  /// Number of elements (1 for rank 0).
  int64_t elements() const;
  /// The shape without its first dim.
  Shape without_first() const;
  void append(int64_t size);

  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  bool operator==(const Shape& other) const;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// "[2, 64, 512]".
std::string to_string(const Shape& shape);

}  // namespace viaduct
