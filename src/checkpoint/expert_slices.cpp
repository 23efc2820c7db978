#include "checkpoint/expert_slices.h"

#include "base/error.h"
#include "base/json_reader.h"

namespace viaduct {

Shape with_first(int64_t size, const Shape& rest) {
  Shape shape{size};
  for (int i = 0; i < rest.rank(); ++i) shape.append(rest[i]);
  return shape;
}

ExpertSlices::ExpertSlices(std::unique_ptr<TensorSource> stored,
                           const std::vector<ExpertSlice>& slices)
    : DerivedSource(std::move(stored)) {
  for (const ExpertSlice& slice : slices) {
    const Place place{infos_.size(), slice.stored, slice.expert, slice.row};
    VIADUCT_CHECK(IoError, places_.emplace(slice.info.name, place).second,
                  "{}: tensor \"{}\" appears twice, of one expert and of all", where(),
                  shown_name(slice.info.name));
    infos_.push_back(slice.info);
  }
}

const ExpertSlices::Place& ExpertSlices::place_of(const std::string& name) const {
  const auto at = places_.find(name);
  if (at == places_.end()) fail_missing(name);
  return at->second;
}

const TensorInfo* ExpertSlices::find(const std::string& name) const {
  const auto at = places_.find(name);
  return at == places_.end() ? nullptr : &infos_[at->second.info];
}

Tensor ExpertSlices::tensor(const std::string& name) const {
  const Place& place = place_of(name);
  if (place.expert < 0) return stored_->tensor(place.stored);
  const TensorInfo& info = infos_[place.info];
  const Tensor result = host_tensor(info.dtype, info.shape);
  read_into(name, whole_piece(whole_box(info.shape)), static_cast<std::byte*>(result.raw()));
  return result;
}

void ExpertSlices::read_into(const std::string& name, const Piece& piece,
                             std::byte* destination) const {
  const Place& place = place_of(name);
  if (place.expert < 0) return stored_->read_into(place.stored, piece, destination);
  check_inside(name, infos_[place.info].shape, piece);
  Shape begin = piece.box.begin;
  begin[0] += place.row;
  const Piece together{
      {with_first(place.expert, begin), with_first(1, piece.box.size)}, piece.begin, piece.end};
  stored_->read_into(place.stored, together, destination);
}

}  // namespace viaduct
