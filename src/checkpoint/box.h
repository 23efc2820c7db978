#pragma once
// Pieces of logical tensors: a row-major range inside a box. Whole tensors, tensor-parallel slices
// and flat optimizer shards are all pieces; resharding copies elements between pieces.

#include <cstddef>
#include <cstdint>

#include "base/function_ref.h"
#include "tensor/box.h"

namespace viaduct {

/// The box of a whole tensor.
Box whole_box(const Shape& shape);
/// True if the box has the rank of `shape` and lies inside it.
bool is_inside(const Box& box, const Shape& shape);
/// True if an element lies in both; the boxes have the same rank.
bool overlaps(const Box& a, const Box& b);

/// The elements [begin, end) of a box, in row-major order of the box.
struct Piece {
  Box box;
  int64_t begin = 0;
  int64_t end = 0;

  int64_t elements() const { return end - begin; }
};

/// The piece that covers a whole box.
Piece whole_piece(const Box& box);

/// Copies the elements that two pieces of the same logical tensor share. `from_data` and `to_data`
/// hold the elements of `from` and `to`, densely. Returns how many were copied.
int64_t copy_shared(const Piece& from, const std::byte* from_data, const Piece& to,
                    std::byte* to_data, int64_t element_bytes);

/// Calls `visit(offset in the tensor, elements)` for the elements of a piece in its order, row by
/// row along the last dim. The piece is inside a tensor of `shape`.
void for_each_row(const Piece& piece, const Shape& shape,
                  FunctionRef<void(int64_t offset, int64_t elements)> visit);

/// True if an element is in both of two pieces of the same logical tensor.
bool share_elements(const Piece& a, const Piece& b);

/// "[0:4, 8:16]", and "[0:4, 8:16][3:9]" for a part of a box: for messages.
std::string to_string(const Box& box);
std::string to_string(const Piece& piece);

}  // namespace viaduct
