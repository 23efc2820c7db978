// The loss of a sentence under a model, as a program that links the installed library:
//   link_library MODEL_DIR 'a sentence'      MODEL_DIR: a Hugging Face folder or a checkpoint
#include <cstdio>
#include <exception>

#include "base/thread_pool.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/parameter_io.h"
#include "data/tokenizer/tokenizer.h"
#include "engine/engine.h"
#include "ops/cpu/cpu_ops.h"

using namespace viaduct;

double loss_of(const char* model_folder, const char* sentence) {
  const ModelFolder folder = resolve_model_folder(model_folder);
  const ModelConfig model = read_model_config(folder);
  const std::vector<int32_t> ids = load_tokenizer(folder.path).encode(sentence);

  // A rank is a device and a table of ops; the engine holds the model and its weights on it.
  const auto device = make_cpu_device(default_pool_threads(1));
  const OpTable ops = cpu_ops(best_cpu_isa());
  ResolvedRun run;
  run.positions = static_cast<int64_t>(ids.size());
  run.purpose = EnginePurpose::evaluate;
  Engine engine(*device, ops, model, run);
  OpContext context{*device, ops};
  load_parameters(context, engine.store(), *open_weights(folder), model);

  HostBatch batch;  // one row, one document; each token is scored against the next
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool scored = i + 1 < ids.size();
    batch.ids.push_back(ids[i]);
    batch.positions.push_back(static_cast<int32_t>(i));
    batch.targets.push_back(scored ? ids[i + 1] : -1);
    batch.loss_weight.push_back(scored ? 1.0f : 0.0f);
    batch.token_index.push_back(static_cast<int64_t>(i));
  }
  batch.end_document();
  return engine.evaluate(1, [&](int64_t) { return batch; }) / batch.scored_weight();
}

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: link_library MODEL_DIR SENTENCE\n"), 2;
  try {
    std::printf("loss %.4f\n", loss_of(argv[1], argv[2]));
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "link_library: error: %s\n", error.what()), 1;
  }
}
