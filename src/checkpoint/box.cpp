#include "checkpoint/box.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace viaduct {
namespace {

using Index = std::array<int64_t, Shape::kMaxRank>;

// The run of elements at `index` (of the logical tensor) in row-major order of a box.
int64_t place_in(const Box& box, const Index& index) {
  int64_t place = 0;
  for (int dim = 0; dim < box.size.rank(); ++dim)
    place = place * box.size[dim] + index[static_cast<size_t>(dim)] - box.begin[dim];
  return place;
}

// Shrinks [low, high) of the outermost dim to the rows that the range of the piece touches.
void clip_rows(const Piece& piece, int64_t& low, int64_t& high) {
  const int64_t row = piece.box.size.without_first().elements();
  low = std::max(low, piece.box.begin[0] + piece.begin / row);
  high = std::min(high, piece.box.begin[0] + (piece.end + row - 1) / row);
}

}  // namespace

Box whole_box(const Shape& shape) {
  Box box{shape, shape};
  for (int dim = 0; dim < shape.rank(); ++dim) box.begin[dim] = 0;
  return box;
}

bool is_inside(const Box& box, const Shape& shape) {
  if (box.begin.rank() != shape.rank() || box.size.rank() != shape.rank()) return false;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    if (box.size[dim] > shape[dim] || box.begin[dim] > shape[dim] - box.size[dim]) return false;
  }
  return true;
}

bool overlaps(const Box& a, const Box& b) {
  for (int dim = 0; dim < a.size.rank(); ++dim) {
    const int64_t low = std::max(a.begin[dim], b.begin[dim]);
    const int64_t high = std::min(a.begin[dim] + a.size[dim], b.begin[dim] + b.size[dim]);
    if (low >= high) return false;
  }
  return true;
}

Piece whole_piece(const Box& box) {
  return {box, 0, box.size.elements()};
}

namespace {

/// Calls `visit(offset in from, offset in to, elements)` for each run of shared elements that is
/// dense in both pieces, until it returns false.
template <class Visit>
void for_each_shared_run(const Piece& from, const Piece& to, Visit visit) {
  const int rank = from.box.size.rank();
  if (from.elements() == 0 || to.elements() == 0 || !overlaps(from.box, to.box)) return;
  Index low{}, high{};
  for (int dim = 0; dim < rank; ++dim) {
    const auto d = static_cast<size_t>(dim);
    low[d] = std::max(from.box.begin[dim], to.box.begin[dim]);
    high[d] =
        std::min(from.box.begin[dim] + from.box.size[dim], to.box.begin[dim] + to.box.size[dim]);
  }
  // Runs: the inner dims [run_dim, rank), dense in both boxes.
  int run_dim = rank;
  int64_t run = 1;
  bool dense = true;
  while (run_dim > 0 && dense) {
    --run_dim;
    const auto d = static_cast<size_t>(run_dim);
    run *= high[d] - low[d];
    dense =
        from.box.size[run_dim] == to.box.size[run_dim] && high[d] - low[d] == to.box.size[run_dim];
  }
  if (run_dim > 0) {
    clip_rows(from, low[0], high[0]);
    clip_rows(to, low[0], high[0]);
    if (low[0] >= high[0]) return;
  }

  for (Index index = low;;) {
    const int64_t source = place_in(from.box, index), target = place_in(to.box, index);
    const int64_t first = std::max({int64_t{0}, from.begin - source, to.begin - target});
    const int64_t last = std::min({run, from.end - source, to.end - target});
    if (first < last &&
        !visit(source + first - from.begin, target + first - to.begin, last - first))
      return;
    int dim = run_dim - 1;
    for (; dim >= 0; --dim) {
      const auto d = static_cast<size_t>(dim);
      if (++index[d] < high[d]) break;
      index[d] = low[d];
    }
    if (dim < 0) return;
  }
}

}  // namespace

int64_t copy_shared(const Piece& from, const std::byte* from_data, const Piece& to,
                    std::byte* to_data, int64_t element_bytes) {
  int64_t copied = 0;
  for_each_shared_run(from, to, [&](int64_t source, int64_t target, int64_t elements) {
    std::memcpy(to_data + target * element_bytes, from_data + source * element_bytes,
                static_cast<size_t>(elements * element_bytes));
    copied += elements;
    return true;
  });
  return copied;
}

void for_each_row(const Piece& piece, const Shape& shape,
                  FunctionRef<void(int64_t offset, int64_t elements)> visit) {
  const int rank = shape.rank();
  const int64_t width = rank > 0 ? piece.box.size[rank - 1] : 1;
  for (int64_t at = piece.begin; at < piece.end;) {
    const int64_t column = at % width, elements = std::min(width - column, piece.end - at);
    int64_t row = at / width, offset = 0, stride = rank > 0 ? shape[rank - 1] : 1;
    for (int dim = rank - 2; dim >= 0; --dim) {
      offset += (piece.box.begin[dim] + row % piece.box.size[dim]) * stride;
      row /= piece.box.size[dim];
      stride *= shape[dim];
    }
    if (rank > 0) offset += piece.box.begin[rank - 1] + column;
    visit(offset, elements);
    at += elements;
  }
}

bool share_elements(const Piece& a, const Piece& b) {
  bool shared = false;
  for_each_shared_run(a, b, [&](int64_t, int64_t, int64_t) {
    shared = true;
    return false;
  });
  return shared;
}

std::string to_string(const Box& box) {
  std::string text = "[";
  for (int dim = 0; dim < box.size.rank(); ++dim)
    text +=
        fmt::format("{}{}:{}", dim > 0 ? ", " : "", box.begin[dim], box.begin[dim] + box.size[dim]);
  return text + "]";
}

std::string to_string(const Piece& piece) {
  if (piece.begin == 0 && piece.end == piece.box.size.elements()) return to_string(piece.box);
  return fmt::format("{}[{}:{}]", to_string(piece.box), piece.begin, piece.end);
}

}  // namespace viaduct
