// Maps runs of storages to pieces of logical tensors and back: each element exactly once, in every
// layout and cut.

#include "checkpoint/logical_runs.h"

#include <gmock/gmock.h>

#include <random>

#include "base/error.h"
#include "checkpoint/checkpoint_index.h"
#include "checkpoint/logical_gather.h"
#include "device/device.h"
#include "support/tensor_bytes.h"
#include "support/toy_parameters.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::logical_tensor;
using test::MemorySource;
using test::storage_values;
using test::toy_parameters;
using test::toy_tensors;
using test::toy_values;
using test::ToyPlace;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Random {
 public:
  explicit Random(uint64_t seed) : random_(seed) {}
  int64_t upto(int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(random_); }
  /// Ascending borders from 0 to `size`: at most `most` runs between them, none empty.
  std::vector<int64_t> borders(int64_t size, int64_t most) {
    std::vector<int64_t> places{0, size};
    for (int64_t i = upto(most - 1); i > 0; --i) places.push_back(upto(size));
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    return places;
  }

 private:
  std::mt19937_64 random_;
};

/// A logical tensor cut into boxes, each in a storage of its own with padding around it.
std::vector<Parameter> random_parameters(Random& random, const std::string& name) {
  const bool matrix = random.upto(3) > 0, transposed = matrix && random.upto(1) > 0;
  Shape shape{1 + random.upto(11)};
  if (matrix) shape.append(1 + random.upto(11));
  const auto rows = random.borders(shape[0], 3);
  const auto columns = matrix ? random.borders(shape[1], 3) : std::vector<int64_t>{0, 1};
  std::vector<Parameter> parameters;
  for (size_t r = 1; r < rows.size(); ++r) {
    for (size_t c = 1; c < columns.size(); ++c) {
      Part part = whole_part(name, shape, transposed);
      part.box.begin[0] = rows[r - 1];
      part.box.size[0] = rows[r] - rows[r - 1];
      if (matrix) {
        part.box.begin[1] = columns[c - 1];
        part.box.size[1] = columns[c] - columns[c - 1];
      }
      part.storage_row = random.upto(2);
      Parameter parameter;
      parameter.path = name;
      parameter.shape = {part.storage_row + part.rows() + random.upto(2)};
      if (matrix) parameter.shape.append(part.box.size[transposed ? 0 : 1]);
      parameter.parts = {part};
      parameters.push_back(parameter);
    }
  }
  return parameters;
}

std::vector<ParameterRun> random_runs(Random& random, const std::vector<Parameter>& parameters) {
  std::vector<ParameterRun> runs;
  for (const Parameter& parameter : parameters) {
    const auto borders = random.borders(parameter.shape.elements(), 5);
    for (size_t i = 1; i < borders.size(); ++i)
      runs.push_back({&parameter, borders[i - 1], borders[i]});
  }
  return runs;
}

StoredRun stored_run(const ParameterRun& run) {
  const Tensor all = storage_values(*run.parameter).view({run.parameter->shape.elements()});
  return {run, all.slice(0, run.begin, run.elements())};
}

TEST(LogicalRuns, EveryElementOnceAndBack) {
  const auto device = make_cpu_device(1);
  Random random(11);
  int64_t split_rows = 0;
  for (int round = 0; round < 600; ++round) {
    const auto parameters = random_parameters(random, "t");
    const Shape shape = parameters[0].parts[0].logical_shape;
    CheckpointIndex index;
    StoredTensor& tensor = index.tensors["t"];
    tensor.shape = shape;
    const Tensor whole = host_tensor(DType::f32, shape);
    const Piece all = whole_piece(whole_box(shape));
    for (const ParameterRun& run : random_runs(random, parameters)) {
      for (const LogicalPiece& piece : logical_pieces(run)) {
        split_rows += piece.by_columns && piece.piece.box.size[1] == 1 &&
                      piece.piece.box.size[0] < run.parameter->shape[1];
        tensor.pieces.push_back({piece.piece, 0, 0, 0});
        const Tensor values = read_logical(*device, stored_run(run), piece);
        copy_shared(piece.piece, static_cast<const std::byte*>(values.raw()), all,
                    static_cast<std::byte*>(whole.raw()), sizeof(float));
      }
    }
    check_complete(index, "round");
    const Tensor expected = logical_tensor("t", shape);
    ASSERT_EQ(bytes_of(whole), bytes_of(expected)) << "round " << round;

    MemorySource source;
    source.add("t", expected);
    std::vector<StoredRun> targets;
    for (const ParameterRun& run : random_runs(random, parameters)) {
      targets.push_back({run, host_tensor(DType::f32, {run.elements()})});
      std::fill_n(targets.back().state.values.data<float>(), run.elements(),
                  -1.0F);  // padding becomes 0
    }
    fill_runs(*device, targets, source, [](const std::string& name) { return name; });
    for (const StoredRun& target : targets)
      ASSERT_EQ(bytes_of(target.state.values), bytes_of(stored_run(target.run).state.values));
  }
  EXPECT_GT(split_rows, 100);  // the hard case occurs
}

TEST(LogicalRuns, ConvertsFormatsAndScales) {
  const auto device = make_cpu_device(1);
  const auto parameters = toy_parameters({});
  MemorySource source;
  for (const auto& [name, shape] : toy_tensors()) {
    const Tensor tensor = host_tensor(DType::bf16, shape);
    for (int64_t i = 0; i < shape.elements(); ++i)
      tensor.data<bfloat16>()[i] = bfloat16(static_cast<float>(i % 250));
    source.add(name, tensor);
  }
  std::vector<StoredRun> runs;
  for (const Parameter& p : parameters)
    runs.push_back({whole_run(p), host_tensor(DType::f64, p.shape)});
  fill_runs(*device, runs, source, [](const std::string& name) { return name; });
  std::map<std::string, Tensor> gathered;
  gather_logical(*make_self_communicator(), *device, runs, 0.5,
                 [&](const std::string& name, const Tensor& t) { gathered[name] = t; });
  ASSERT_EQ(gathered.size(), toy_tensors().size());
  for (const auto& [name, tensor] : gathered) {
    ASSERT_EQ(tensor.shape(), toy_tensors().at(name));
    for (int64_t i = 0; i < tensor.elements(); ++i)
      ASSERT_EQ(tensor.data<float>()[i], 0.5F * static_cast<float>(i % 250)) << name;
  }
}

TEST(LogicalRuns, WhatDoesNotFitIsNamed) {
  const auto device = make_cpu_device(1);
  Parameter parameter;
  parameter.path = "p";
  parameter.shape = {4, 3};
  parameter.parts = {whole_part("w", {4, 3})};
  EXPECT_THAT(
      [&] {
        logical_pieces({&parameter, 3, 13});
      },
      ThrowsMessage<ShapeError>(HasSubstr("p: run [3, 13)")));
  parameter.parts[0].storage_row = 1;
  EXPECT_THAT([&] { logical_pieces(whole_run(parameter)); },
              ThrowsMessage<ShapeError>(HasSubstr("at row 1")));
  parameter.parts[0].storage_row = 0;
  const std::vector<StoredRun> runs{{whole_run(parameter), host_tensor(DType::f32, {4, 3})}};
  const auto same = [](const std::string& name) { return name; };
  MemorySource source;
  EXPECT_THAT([&] { fill_runs(*device, runs, source, same); },
              ThrowsMessage<IoError>(HasSubstr("memory: w is missing")));
  source.add("w", host_tensor(DType::f32, {3, 4}));
  EXPECT_THAT(
      [&] { fill_runs(*device, runs, source, same); },
      ThrowsMessage<IoError>(HasSubstr("w is f32 [3, 4], expected a floating tensor [4, 3]")));
}

TEST(LogicalRuns, AGatherThatMissesElementsIsRefused) {
  const auto device = make_cpu_device(1);
  const auto world = make_self_communicator();
  const ToyPlace half{.tp = 2};  // the half that rank 0 of two holds
  const auto parameters = toy_parameters(half);
  const auto ignore = [](const std::string&, const Tensor&) {};
  EXPECT_THAT([&] { gather_logical(*world, *device, toy_values(parameters, half), 1, ignore); },
              ThrowsMessage<ShapeError>(HasSubstr("parts are missing")));
}

}  // namespace
}  // namespace viaduct
