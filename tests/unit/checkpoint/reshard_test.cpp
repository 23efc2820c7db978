// Saves with the ranks of one layout and loads with those of another: the same bits.

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <ostream>

#include "checkpoint/async_saver.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/logical_gather.h"
#include "comm/world.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "support/toy_parameters.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::logical_tensor;
using test::TemporaryFolder;
using test::toy_parameters;
using test::toy_runs;
using test::toy_tensors;
using test::toy_values;
using test::ToyPlace;

// The saved values of each parameter: masters and moments.
const std::vector<std::string> kKinds{"", "optimizer.exp_avg/", "optimizer.exp_avg_sq/"};

const std::vector<ToyPlace> kLayouts{
    {.tp = 1, .pp = 1, .shards = 1}, {.tp = 2, .pp = 1, .shards = 1},
    {.tp = 1, .pp = 1, .shards = 3}, {.tp = 1, .pp = 2, .shards = 2},
    {.tp = 2, .pp = 1, .shards = 3}, {.tp = 4, .pp = 1, .shards = 2},
    {.tp = 2, .pp = 2, .shards = 2}};

std::string name_of(const ToyPlace& layout) {
  return fmt::format("tp{}_pp{}_shards{}", layout.tp, layout.pp, layout.shards);
}

}  // namespace

namespace test {
void PrintTo(const ToyPlace& layout, std::ostream* os) {
  *os << name_of(layout);
}
}  // namespace test

namespace {

using Ranks = FunctionRef<void(Communicator& world, const ToyPlace& place)>;
void on_ranks(const ToyPlace& layout, Ranks body) {
  run_thread_ranks(
      layout.ranks(), {.timeout_seconds = 60},
      [&](std::shared_ptr<Communicator> world) { body(*world, layout.at(world->rank())); });
}

void save(const ToyPlace& layout, const std::filesystem::path& folder) {
  on_ranks(layout, [&](Communicator& world, const ToyPlace& place) {
    const auto device = make_cpu_device(1);
    const auto parameters = toy_parameters(place);
    StagedCheckpoint staged;
    staged.save = folder;
    staged.step = 1;
    for (size_t kind = 0; kind < kKinds.size(); ++kind)
      stage_runs(*device, toy_values(parameters, place, static_cast<int>(kind)), kKinds[kind],
                 staged);
    save_checkpoint(world, staged);
  });
}

/// The values in the layout of `place`, read only from the checkpoint.
std::vector<StoredRun> load(Device& device, const CheckpointReader& reader,
                            const std::vector<ParameterRun>& runs, const std::string& kind) {
  std::vector<StoredRun> stored;
  for (const ParameterRun& run : runs)
    stored.push_back({run, host_tensor(DType::f32, {run.elements()})});
  fill_runs(device, stored, reader, [&](const std::string& name) { return kind + name; });
  return stored;
}

class Reshard : public testing::TestWithParam<ToyPlace> {};

TEST_P(Reshard, EveryRankWritesItsShardAndTheCheckpointIsWhole) {
  TemporaryFolder folder;
  save(GetParam(), folder.path());
  const auto reader = open_checkpoint(folder.path());
  reader->verify();
  EXPECT_EQ(reader->index().shards.size(), static_cast<size_t>(GetParam().ranks()));
  EXPECT_EQ(reader->tensors().size(), kKinds.size() * toy_tensors().size());
  for (const auto& [name, shape] : toy_tensors()) {
    for (size_t kind = 0; kind < kKinds.size(); ++kind)
      EXPECT_EQ(bytes_of(reader->tensor(kKinds[kind] + name)),
                bytes_of(logical_tensor(name, shape, static_cast<int>(kind))))
          << name;
  }
}

TEST_P(Reshard, LoadsInEveryLayout) {
  TemporaryFolder folder;
  save(GetParam(), folder.path());
  for (const ToyPlace& layout : kLayouts) {
    on_ranks(layout, [&](Communicator&, const ToyPlace& place) {
      const auto device = make_cpu_device(1);
      const auto parameters = toy_parameters(place);
      const auto reader = open_checkpoint(folder.path());
      for (size_t kind = 0; kind < kKinds.size(); ++kind) {
        const auto loaded = load(*device, *reader, toy_runs(parameters, place), kKinds[kind]);
        const auto expected = toy_values(parameters, place, static_cast<int>(kind));
        for (size_t i = 0; i < loaded.size(); ++i)
          ASSERT_EQ(bytes_of(loaded[i].state.values), bytes_of(expected[i].state.values))
              << name_of(layout) << ", " << loaded[i].run.parameter->path;
      }
      // Weights: everything that the rank holds, including replicas.
      std::vector<ParameterRun> whole;
      for (const Parameter& parameter : parameters) whole.push_back(whole_run(parameter));
      for (const StoredRun& weight : load(*device, *reader, whole, ""))
        ASSERT_EQ(bytes_of(weight.state.values),
                  bytes_of(test::storage_values(*weight.run.parameter)));
    });
  }
}

TEST_P(Reshard, RankZeroGathersEachLogicalTensorOnce) {
  std::vector<std::string> names;
  on_ranks(GetParam(), [&](Communicator& world, const ToyPlace& place) {
    const auto device = make_cpu_device(1);
    const auto parameters = toy_parameters(place);
    gather_logical(world, *device, toy_values(parameters, place), 1,
                   [&](const std::string& name, const Tensor& tensor) {
                     EXPECT_EQ(world.rank(), 0);
                     names.push_back(name);
                     EXPECT_EQ(bytes_of(tensor), bytes_of(logical_tensor(name, tensor.shape())))
                         << name;
                   });
  });
  std::vector<std::string> expected;
  for (const auto& [name, shape] : toy_tensors()) expected.push_back(name);
  EXPECT_EQ(names, expected);
}

TEST(ShareOfCopies, EachRunIsOneRanksAndSharesAreEven) {
  const auto parameters = toy_parameters({});
  const auto runs = toy_values(parameters, {});
  std::map<std::string, int> taken;
  int64_t most = 0, all = 0;
  for (int rank = 0; rank < 3; ++rank) {
    int64_t elements = 0;
    for (const StoredRun& stored : share_of_copies(runs, rank, 3)) {
      ++taken[stored.run.parameter->path];
      elements += stored.run.elements();
    }
    most = std::max(most, elements);
    all += elements;
  }
  EXPECT_EQ(taken.size(), runs.size());
  for (const auto& [path, times] : taken) EXPECT_EQ(times, 1) << path;
  EXPECT_LT(most, all / 2);
}

INSTANTIATE_TEST_SUITE_P(From, Reshard, testing::ValuesIn(kLayouts),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace viaduct
