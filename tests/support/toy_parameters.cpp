#include "support/toy_parameters.h"

#include <algorithm>
#include <functional>

#include "checkpoint/box.h"

namespace viaduct::test {
namespace {

constexpr int64_t kHidden = 6, kInner = 8, kHeads = 2, kVocabulary = 13, kLayers = 2;

Parameter storage(std::string path, const Shape& shape) {
  Parameter parameter;
  parameter.path = std::move(path);
  parameter.shape = shape;
  return parameter;
}

/// A part of `size` elements of dim `dim` from `begin` on, at a row of the storage.
Part cut(const std::string& name, const Shape& shape, int dim, int64_t begin, int64_t size,
         int64_t row, bool transposed = false) {
  Part part = whole_part(name, shape, transposed);
  part.box.begin[dim] = begin;
  part.box.size[dim] = size;
  part.storage_row = row;
  return part;
}

Parameter table(const ToyPlace& place, bool owned) {
  const int64_t rows = (kVocabulary + 2 * place.tp - 1) / (2 * place.tp) * 2;
  Parameter p = storage(owned ? "embedding" : "head", {rows, kHidden});
  const int64_t begin = rows * place.tp_rank, held = std::min(rows, kVocabulary - begin);
  if (held > 0) p.parts = {cut("embed.weight", {kVocabulary, kHidden}, 0, begin, held, 0)};
  for (Part& part : p.parts) part.owned = owned;
  return p;
}

void add_layer(const ToyPlace& place, int64_t layer, std::vector<Parameter>& list) {
  const std::string at = "layers." + std::to_string(layer) + ".";
  const int64_t rank = place.tp_rank, inner = kInner / place.tp;
  const int64_t head = kInner / 2 / kHeads, kv = std::max(head, kHeads * head / place.tp);
  const int64_t copies = std::max<int64_t>(1, place.tp / kHeads);
  Parameter qkv = storage(at + "qkv", {inner + 2 * kv, kHidden});
  qkv.parts = {cut(at + "q", {kInner, kHidden}, 0, rank * inner, inner, 0)};
  for (const char* name : {"k", "v"}) {
    Part part = cut(at + name, {kHeads * head, kHidden}, 0, rank / copies * kv, kv,
                    inner + (*name == 'v' ? kv : 0));
    part.replicas = Replicas::tp_kv;
    part.owned = rank % copies == 0;
    qkv.parts.push_back(part);
  }
  list.push_back(qkv);

  Parameter out = storage(at + "out", {kHidden, inner});  // columns cut
  out.parts = {cut(at + "o", {kHidden, kInner}, 1, rank * inner, inner, 0)};
  list.push_back(out);

  Parameter fused = storage(at + "fused", {3 * inner, kHidden});  // three boxes of one tensor
  for (int64_t i = 0; i < 3; ++i)
    fused.parts.push_back(cut(at + "c_attn", {kHidden, 3 * kInner}, 1, i * kInner + rank * inner,
                              inner, i * inner, true));
  list.push_back(fused);

  Parameter down = storage(at + "down", {kHidden, inner});
  down.parts = {cut(at + "c_proj", {kInner, kHidden}, 0, rank * inner, inner, 0, true)};
  list.push_back(down);

  Parameter bias = storage(at + "bias", {inner});
  bias.parts = {cut(at + "b", {kInner}, 0, rank * inner, inner, 0)};
  list.push_back(bias);

  Parameter norm = storage(at + "norm", {kHidden});
  norm.parts = {whole_part(at + "norm", {kHidden})};
  norm.parts[0].replicas = Replicas::tp;
  norm.parts[0].owned = rank == 0;
  list.push_back(norm);
}

}  // namespace

float logical_value(const std::string& name, const Shape& shape, int64_t index, int kind) {
  const auto seed = static_cast<int64_t>(std::hash<std::string>()(name) % 1000);
  return static_cast<float>(seed * 1000 + kind * 300 + shape.elements()) +
         static_cast<float>(index) / 128;
}

Tensor logical_tensor(const std::string& name, const Shape& shape, int kind) {
  const Tensor tensor = host_tensor(DType::f32, shape);
  for (int64_t i = 0; i < shape.elements(); ++i)
    tensor.data<float>()[i] = logical_value(name, shape, i, kind);
  return tensor;
}

Tensor storage_values(const Parameter& parameter, int kind) {
  const Tensor tensor = host_tensor(DType::f32, parameter.shape);
  const int64_t columns = parameter.shape.rank() > 1 ? parameter.shape[1] : 1;
  for (const Part& part : parameter.parts) {
    const Box& box = part.box;
    for (int64_t row = 0; row < part.rows(); ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        int64_t index = box.begin[0] + row;
        if (part.logical_shape.rank() > 1) {
          const int64_t r = part.transposed ? column : row, c = part.transposed ? row : column;
          index = (box.begin[0] + r) * part.logical_shape[1] + box.begin[1] + c;
        }
        tensor.data<float>()[(part.storage_row + row) * columns + column] =
            logical_value(part.name, part.logical_shape, index, kind);
      }
    }
  }
  return tensor;
}

void MemorySource::add(const std::string& name, const Tensor& tensor) {
  infos_.push_back({name, tensor.dtype(), tensor.shape()});
  tensors_[name] = tensor;
}

const TensorInfo* MemorySource::find(const std::string& name) const {
  const auto at = std::find_if(infos_.begin(), infos_.end(),
                               [&](const TensorInfo& info) { return info.name == name; });
  return at == infos_.end() ? nullptr : &*at;
}

Tensor MemorySource::tensor(const std::string& name) const {
  if (!contains(name)) fail_missing(name);
  return tensors_.at(name);
}

ToyPlace ToyPlace::at(int rank) const {
  ToyPlace place = *this;
  place.tp_rank = rank % tp;
  place.shard = rank / tp % shards;
  place.pp_rank = rank / tp / shards;
  return place;
}

std::vector<Parameter> toy_parameters(const ToyPlace& place) {
  std::vector<Parameter> list;
  if (place.pp_rank == 0) list.push_back(table(place, true));
  for (int64_t layer = 0; layer < kLayers; ++layer)
    if (layer * place.pp / kLayers == place.pp_rank) add_layer(place, layer, list);
  if (place.pp > 1 && place.pp_rank == place.pp - 1) list.push_back(table(place, false));
  return list;
}

std::map<std::string, Shape> toy_tensors() {
  std::map<std::string, Shape> tensors;
  for (const Parameter& parameter : toy_parameters({}))
    for (const Part& part : parameter.parts) tensors[part.name] = part.logical_shape;
  return tensors;
}

std::vector<ParameterRun> toy_runs(const std::vector<Parameter>& parameters,
                                   const ToyPlace& place) {
  int64_t total = 0;
  for (const Parameter& parameter : parameters) total += parameter.shape.elements();
  const int64_t begin = total * place.shard / place.shards,
                end = total * (place.shard + 1) / place.shards;
  std::vector<ParameterRun> runs;
  int64_t first = 0;
  for (const Parameter& parameter : parameters) {
    const int64_t elements = parameter.shape.elements();
    const int64_t low = std::max(begin - first, int64_t{0}), high = std::min(end - first, elements);
    if (low < high) runs.push_back({&parameter, low, high});
    first += elements;
  }
  return runs;
}

std::vector<StoredRun> toy_values(const std::vector<Parameter>& parameters, const ToyPlace& place,
                                  int kind) {
  std::vector<StoredRun> stored;
  for (const ParameterRun& run : toy_runs(parameters, place)) {
    const Tensor all = storage_values(*run.parameter, kind).view({run.parameter->shape.elements()});
    stored.push_back({run, all.slice(0, run.begin, run.elements())});
  }
  return stored;
}

}  // namespace viaduct::test
