#include "checkpoint/checkpoint_index.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "checkpoint/index_json.h"

namespace viaduct {
namespace {

using namespace index_json;

// No byte of a shard belongs to two pieces.
void check_bytes_disjoint(const CheckpointIndex& index, const std::string& where) {
  struct Span {
    int64_t begin, end;
    const std::string* tensor;
  };
  std::vector<std::vector<Span>> spans(index.shards.size());
  for (const auto& [name, tensor] : index.tensors) {
    for (const auto& stored : tensor.pieces) {
      const int64_t bytes = stored.piece.elements() * dtype_bytes(tensor.dtype);
      if (bytes > 0) spans[stored.shard].push_back({stored.offset, stored.offset + bytes, &name});
    }
  }
  for (auto& shard : spans) {
    std::sort(shard.begin(), shard.end(),
              [](const Span& a, const Span& b) { return a.begin < b.begin; });
    for (size_t i = 1; i < shard.size(); ++i)
      VIADUCT_CHECK(IoError, shard[i - 1].end <= shard[i].begin,
                    "{}: tensors \"{}\" and \"{}\" share bytes of a shard", where,
                    shown_name(*shard[i - 1].tensor), shown_name(*shard[i].tensor));
  }
}

bool box_before(const Box& a, const Box& b) {
  const auto less = [](const Shape& x, const Shape& y) {
    return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
  };
  return a.begin == b.begin ? less(a.size, b.size) : less(a.begin, b.begin);
}

}  // namespace

std::string format_checkpoint_index(const CheckpointIndex& index) {
  Json json{{"files", files_to_json(index.files)},
            {"format", kCheckpointFormat},
            {"shards", files_to_json(index.shards)},
            {"state", parse_json<Json>(index.state, "checkpoint state")},
            {"step", index.step},
            {"tensors", Json::object()},
            {"version", kCheckpointVersion}};
  Json& tensors = json["tensors"];
  for (const auto& [name, tensor] : index.tensors) tensors[name] = tensor_to_json(tensor);
  return sealed_lines(std::move(json));
}

CheckpointIndex parse_checkpoint_index(std::string_view text, const std::string& where) {
  return parse_index(open_sealed(text, kCheckpointFormat, where), where);
}

CheckpointIndex index_json::parse_index(const Json& json, const std::string& where) {
  const int64_t version = count_field(json, "version", where);
  VIADUCT_CHECK(IoError, version == kCheckpointVersion,
                "{}: format version {}, this program reads version {}", where, version,
                kCheckpointVersion);
  CheckpointIndex index;
  index.step = count_field(json, "step", where);
  index.shards = files_field(json, "shards", where);
  index.files = files_field(json, "files", where);
  std::set<std::string> shard_names;
  for (const auto& shard : index.shards) shard_names.insert(shard.name);
  for (const auto& file : index.files)
    VIADUCT_CHECK(IoError, !shard_names.contains(file.name),
                  "{}: {} is listed both as a shard and as a file", where, shown_name(file.name));
  index.state = field(json, "state", where).dump();
  const Json& tensors = field(json, "tensors", where);
  VIADUCT_CHECK(IoError, tensors.is_object(), "{}: \"tensors\" is not an object", where);
  for (const auto& [name, tensor] : tensors.items())
    index.tensors.emplace(name, parse_tensor(tensor, index.shards, tensor_where(where, name)));
  check_bytes_disjoint(index, where);
  return index;
}

void check_tensor_complete(const StoredTensor& tensor, const std::string& where) {
  // Real layouts have at most one box a rank; the limit bounds the quadratic number of comparisons
  // for a hostile index.
  constexpr size_t kMostBoxes = 16384;
  std::vector<const Piece*> pieces;
  int64_t elements = 0;
  for (const auto& stored : tensor.pieces)
    if (stored.piece.elements() > 0) pieces.push_back(&stored.piece);
  std::sort(pieces.begin(), pieces.end(), [](const Piece* a, const Piece* b) {
    return a->box == b->box ? a->begin < b->begin : box_before(a->box, b->box);
  });
  std::vector<const Box*> boxes;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = *pieces[i];
    if (i > 0 && piece.box == pieces[i - 1]->box) {
      VIADUCT_CHECK(IoError, pieces[i - 1]->end <= piece.begin, "{}: pieces {} and {} overlap",
                    where, to_string(*pieces[i - 1]), to_string(piece));
    } else {
      boxes.push_back(&piece.box);
    }
    // The boxes so far are disjoint, so the sum exceeds the tensor's size before it can overflow.
    elements += piece.elements();
    VIADUCT_CHECK(IoError, elements <= tensor.shape.elements(),
                  "{}: its pieces overlap: they hold more than its {} elements", where,
                  tensor.shape.elements());
  }
  VIADUCT_CHECK(IoError, boxes.size() <= kMostBoxes, "{}: {} different boxes, more than {}", where,
                boxes.size(), kMostBoxes);
  for (size_t i = 0; i < boxes.size(); ++i) {
    for (size_t j = i + 1; j < boxes.size(); ++j) {
      if (boxes[j]->begin[0] >= boxes[i]->begin[0] + boxes[i]->size[0]) break;  // sorted
      VIADUCT_CHECK(IoError, !overlaps(*boxes[i], *boxes[j]), "{}: boxes {} and {} overlap", where,
                    to_string(*boxes[i]), to_string(*boxes[j]));
    }
  }
  VIADUCT_CHECK(IoError, elements == tensor.shape.elements(),
                "{}: parts are missing: its pieces hold {} of {} elements", where, elements,
                tensor.shape.elements());
}

void check_complete(const CheckpointIndex& index, const std::string& where) {
  for (const auto& [name, tensor] : index.tensors)
    check_tensor_complete(tensor, tensor_where(where, name));
}

void merge_checkpoint_index(CheckpointIndex& index, CheckpointIndex&& other,
                            const std::string& where) {
  const size_t first_shard = index.shards.size();
  index.shards.insert(index.shards.end(), other.shards.begin(), other.shards.end());
  for (auto& [name, tensor] : other.tensors) {
    for (auto& stored : tensor.pieces) stored.shard += first_shard;
    auto [at, fresh] = index.tensors.try_emplace(name, tensor);
    if (fresh) continue;
    StoredTensor& known = at->second;
    VIADUCT_CHECK(IoError, known.dtype == tensor.dtype && known.shape == tensor.shape,
                  "{}: {} {} here, {} {} on another rank", tensor_where(where, name),
                  dtype_name(tensor.dtype), to_string(tensor.shape), dtype_name(known.dtype),
                  to_string(known.shape));
    known.pieces.insert(known.pieces.end(), tensor.pieces.begin(), tensor.pieces.end());
  }
}

}  // namespace viaduct
