#include "model/segment_edges.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {
namespace {

/// For messages.
std::string name_of(const Layer& layer, const Segment& segment) {
  const std::string own(segment.name());
  return layer.path == own ? own : layer.path + "." + own;
}

bool names(const std::vector<std::string_view>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

/// Whether a tensor has the shape that is declared, whose sizes may depend on the data.
bool fits(const Shape& shape, const Shape& declared) {
  if (shape.rank() != declared.rank()) return false;
  for (int dim = 0; dim < shape.rank(); ++dim)
    if (declared[dim] != kAnyRows && shape[dim] != declared[dim]) return false;
  return true;
}

/// Fails unless `set` has the tensor as declared.
void check_declared(const Layer& layer, const Segment& segment, const TensorSet& set,
                    const EdgeTensor& declared, const char* what) {
  VIADUCT_CHECK(ShapeError, set.has(declared.name), "segment {}: no {} \"{}\" among {} tensors",
                name_of(layer, segment), what, declared.name, set.operands().size());
  const Operand& found = set.operand(declared.name);
  VIADUCT_CHECK(ShapeError, found.dtype() == declared.dtype && fits(found.shape(), declared.shape),
                "segment {}: {} \"{}\" is declared as {} {} and is {}", name_of(layer, segment),
                what, declared.name, dtype_name(declared.dtype), to_string(declared.shape),
                describe(found));
}

/// Fails unless a pending exchange reaches the segment that ends it, and no other segment.
void check_under_way(const Layer& layer, const Segment& segment, const TensorSet& in,
                     ExchangePart ends) {
  const bool expected = segment.exchange_part() == ends;
  VIADUCT_CHECK(ShapeError, expected == (in.under_way() != nullptr), "segment {}: {}",
                name_of(layer, segment),
                expected ? "it ends an exchange that was not begun"
                         : "an exchange is pending that it does not end");
}

/// `made` plus the tensors that bypassed the segment.
TensorSet join(const Layer& layer, const Segment& segment, TensorSet made,
               const TensorSet& passed) {
  for (const auto& [name, operand] : passed.operands()) {
    VIADUCT_CHECK(ShapeError, !made.has(name),
                  "segment {}: \"{}\" bypasses it, but it also makes a tensor of that name",
                  name_of(layer, segment), name);
    made.set(name, operand);
  }
  return made;
}

}  // namespace

Edge edge_before(const Layer& layer, const Segment& segment, const RankContext& context,
                 const Batch& batch, const Edge& after, bool makes_outputs) {
  Edge before = segment.inputs(context, batch);
  if (!makes_outputs) {
    const auto for_outputs = segment.read_for_outputs();
    std::erase_if(before,
                  [&](const EdgeTensor& tensor) { return names(for_outputs, tensor.name); });
  }
  const size_t read = before.size();
  const auto outputs = segment.outputs();
  for (const EdgeTensor& tensor : after) {
    if (names(outputs, tensor.name)) continue;
    for (size_t i = 0; i < read; ++i) {
      VIADUCT_CHECK(
          ShapeError, before[i].name != tensor.name,
          "segment {}: it reads \"{}\", which is read again later, but does not return it",
          name_of(layer, segment), tensor.name);
    }
    before.push_back(tensor);
  }
  std::sort(before.begin(), before.end(),
            [](const EdgeTensor& a, const EdgeTensor& b) { return a.name < b.name; });
  return before;
}

std::vector<std::string_view> unread_outputs(const Segment& segment, const Edge& after) {
  std::vector<std::string_view> unread = segment.outputs();
  std::erase_if(unread, [&](std::string_view name) {
    return std::any_of(after.begin(), after.end(),
                       [&](const EdgeTensor& tensor) { return tensor.name == name; });
  });
  return unread;
}

TensorSet forward_through(const Layer& layer, Segment& segment, RankContext& context,
                          const Batch& batch, const TensorSet& in, SavedStore& saved) {
  check_under_way(layer, segment, in, ExchangePart::second);
  TensorSet reads, passed = in;
  reads.set_under_way(in.under_way());
  const auto not_read =
      saved.output_is_read() ? std::vector<std::string_view>() : segment.read_for_outputs();
  for (const EdgeTensor& declared : segment.inputs(context, batch)) {
    passed.remove(declared.name);
    if (names(not_read, declared.name)) continue;
    check_declared(layer, segment, in, declared, "input");
    reads.set(declared.name, in.operand(declared.name));
  }
  TensorSet out = segment.forward(context, batch, reads, saved);
  const auto outputs = segment.outputs();
  for (const std::string_view name : outputs) {
    if (!segment.makes(name, batch)) continue;
    if (!saved.output_is_read(name)) {
      out.remove(name);
      continue;
    }
    VIADUCT_CHECK(ShapeError, out.has(name), "segment {}: it did not make its output \"{}\"",
                  name_of(layer, segment), name);
  }
  for (const auto& [name, operand] : out.operands()) {
    VIADUCT_CHECK(ShapeError, names(outputs, name), "segment {}: \"{}\" is not one of its outputs",
                  name_of(layer, segment), name);
  }
  return join(layer, segment, std::move(out), passed);
}

TensorSet backward_through(const Layer& layer, const Segment& segment, const RankContext& context,
                           const Batch& batch, const TensorSet& d_out,
                           FunctionRef<TensorSet(const TensorSet& d_out)> call) {
  check_under_way(layer, segment, d_out, ExchangePart::first);
  TensorSet reads, passed = d_out;
  reads.set_under_way(d_out.under_way());
  for (const std::string_view name : segment.outputs()) {
    if (!d_out.has(name)) continue;  // it has no gradient
    reads.set(name, d_out.operand(name));
    passed.remove(name);
  }
  TensorSet d_in = call(reads);
  size_t gradients = 0;
  for (const EdgeTensor& declared : segment.inputs(context, batch)) {
    if (!declared.needs_gradient) continue;
    check_declared(layer, segment, d_in, declared, "gradient of input");
    ++gradients;
  }
  VIADUCT_CHECK(ShapeError, gradients == d_in.operands().size(),
                "segment {}: {} gradients of inputs, expected {}", name_of(layer, segment),
                d_in.operands().size(), gradients);
  return join(layer, segment, std::move(d_in), passed);
}

}  // namespace viaduct
