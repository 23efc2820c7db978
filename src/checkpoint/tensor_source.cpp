#include "checkpoint/tensor_source.h"

#include "base/error.h"
#include "base/json_reader.h"
#include "base/nearest.h"

namespace viaduct {

void TensorSource::read_into(const std::string& name, const Piece& piece,
                             std::byte* destination) const {
  const Tensor whole = tensor(name);  // a view if the source maps its files
  check_inside(name, whole.shape(), piece);
  copy_shared(whole_piece(whole_box(whole.shape())), static_cast<const std::byte*>(whole.raw()),
              piece, destination, dtype_bytes(whole.dtype()));
  check_read();
}

void TensorSource::read_blocks(const std::string& name, int64_t, int64_t, int64_t,
                               std::byte*) const {
  fail<ShapeError>("{}: tensor \"{}\" is not stored in blocks", where(), shown_name(name));
}

void TensorSource::check_inside(const std::string& name, const Shape& shape,
                                const Piece& piece) const {
  const bool inside = is_inside(piece.box, shape) && piece.begin >= 0 && piece.begin <= piece.end &&
                      piece.end <= piece.box.size.elements();
  VIADUCT_CHECK(ShapeError, inside, "{}: piece {} of tensor \"{}\" {}", where(), to_string(piece),
                shown_name(name), to_string(shape));
}

void TensorSource::fail_missing(const std::string& name) const {
  std::vector<std::string> known;
  for (const auto& info : tensors()) known.push_back(info.name);
  const auto nearest = nearest_name(name, known);
  fail<IoError>("{}: no tensor \"{}\" among its {}{}", where(), shown_name(name), known.size(),
                nearest ? fmt::format(" (nearest name: \"{}\")", shown_name(*nearest)) : "");
}

}  // namespace viaduct
