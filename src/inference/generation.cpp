#include "inference/generation.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "generate/prompts.h"
#include "generate/stop_text.h"
#include "inference/open_generator.h"
#include "model/initialize.h"
#include "run/rank_device.h"
#include "run/resolved_run.h"
#include "run/same_settings.h"

namespace viaduct {
namespace {

int64_t longest_text(const GenerationWork& work) {
  int64_t positions = 0;
  for (const std::vector<Prompt>& batch : work.batches)
    positions = std::max(positions, longest(batch));
  return positions;
}

/// A batch on this rank's replica.
std::vector<GeneratedText> run_batch(Generator& generator, const Tokenizer& tokenizer,
                                     const std::vector<Prompt>& batch, const GenerationWork& work,
                                     const GenerationHooks& hooks, bool leads) {
  std::vector<StopText> streams;
  for (const Prompt& prompt : batch)
    streams.emplace_back(tokenizer, work.stops, prompt.text_before());
  std::vector<GeneratedText> texts(batch.size());
  const auto add = [&](size_t i, const std::string& more) {
    texts[i].text += more;
    if (leads && hooks.piece && !more.empty()) hooks.piece(batch[i].number, more);
  };
  std::vector<Generated> generated =
      generate(generator, batch, work.options, [&](size_t i, int32_t id) {
        add(i, streams[i].push(id));
        return !streams[i].stopped_by();
      });
  for (size_t i = 0; i < batch.size(); ++i) {
    add(i, streams[i].finish());
    texts[i].number = batch[i].number;
    texts[i].generated = std::move(generated[i]);
    texts[i].stop_string = streams[i].stopped_by();
    if (texts[i].stop_string) texts[i].generated.reason = StopReason::stop_string;
  }
  return texts;
}

using Json = nlohmann::json;

std::string to_text(const std::vector<GeneratedText>& texts) {
  Json list = Json::array();
  for (const GeneratedText& t : texts) {
    Json entry{t.number, t.generated.tokens, static_cast<int>(t.generated.reason), t.text};
    entry.push_back(t.generated.stop_token ? Json(*t.generated.stop_token) : Json());
    entry.push_back(t.stop_string ? Json(*t.stop_string) : Json());
    list.push_back(std::move(entry));
  }
  return list.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<GeneratedText> from_text(const std::string& text) {
  std::vector<GeneratedText> texts;
  for (const Json& entry : parse_json<Json>(text, "texts of the ranks")) {
    GeneratedText& t = texts.emplace_back();
    t.number = entry[0];
    t.generated.tokens = entry[1].get<std::vector<int32_t>>();
    t.generated.reason = static_cast<StopReason>(entry[2].get<int>());
    t.text = entry[3];
    if (!entry[4].is_null()) t.generated.stop_token = entry[4].get<int32_t>();
    if (!entry[5].is_null()) t.stop_string = entry[5].get<std::string>();
  }
  return texts;
}

}  // namespace

double run_generation(const RunSetup& setup, const GenerationWork& work, Device& device,
                      const OpTable& ops, std::shared_ptr<Communicator> world,
                      const GenerationHooks& hooks) {
  world->record_on(&device);
  check_same_settings(world->host(), setup.config);
  const ResolvedRun run = resolve_run(setup.config, setup.model);
  Generator generator = open_generator(setup, run, longest_text(work), device, ops, world);
  read_weights(generator, setup, *world);

  const GlobalRank rank{world->rank()};
  const bool leads = rank.value == 0;
  const bool leads_replica =
      run.parallelism.mesh.leads(Grid::attention, rank, {Axis::tp, Axis::pp});
  const auto replicas = static_cast<size_t>(generator.replicas().size());
  const auto replica = static_cast<size_t>(generator.replicas().rank());
  const double begin = steady_seconds();
  if (hooks.started) hooks.started();
  for (size_t first = 0; first < work.batches.size(); first += replicas) {
    std::string mine = "[]";
    if (first + replica < work.batches.size()) {
      const auto texts =
          run_batch(generator, *setup.tokenizer, work.batches[first + replica], work, hooks, leads);
      if (leads_replica) mine = to_text(texts);
    }
    // Others may still need this replica's experts.
    while (generator.keep_up()) continue;
    for (const std::string& theirs : world->host().texts_on_rank_0(mine)) {
      if (!hooks.finished) continue;
      for (const GeneratedText& text : from_text(theirs)) hooks.finished(text);
    }
  }
  return steady_seconds() - begin;
}

std::vector<DryRun> dry_run_generation(const RunSetup& setup, const GenerationWork& work) {
  const ResolvedRun run = resolve_run(setup.config, setup.model);
  std::vector<DryRun> stages;
  for (const GlobalRank first : run.parallelism.mesh.at_each_stage({0})) {
    const RankDevice rank = make_dry_run_device(setup.config);
    Device& device = *rank.device;
    const auto world = make_sim_communicator(first.value, run.parallelism.mesh.ranks(), "world");
    world->record_on(&device);
    Generator generator = open_generator(setup, run, longest_text(work), device, rank.ops, world);
    OpContext context = generator.context();
    initialize_parameters(context, generator.store(), 0);
    for (int64_t number = 1; number <= generator.adapters(); ++number)
      if (ParameterStore* own = generator.adapter_store(number))
        initialize_parameters(context, *own, 0);
    device.reset_peak();
    for (const std::vector<Prompt>& batch : work.batches) rehearse(generator, batch);
    const MemoryStatistics& memory = device.memory();
    DryRun& stage = stages.emplace_back(DryRun{.rank = first});
    stage.peak.bytes = memory.peak_bytes;
    for (int tag = 0; tag < kMemoryTags; ++tag) {
      stage.peak.bytes_by_tag[std::string(memory_tag_name(static_cast<MemoryTag>(tag)))] =
          memory.peak_bytes_by_tag[static_cast<size_t>(tag)];
    }
  }
  return stages;
}

}  // namespace viaduct
