#include "support/language_model.h"

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "data/tokenizer/train_bpe.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/instruction_set.h"
#include "support/paths.h"

namespace viaduct::test {

namespace {

constexpr int64_t kTokens = 262;

/// A matrix [V, H] with `rows` rows: additional rows are copies of the first ones with their
/// features shifted by one.
Tensor with_more_rows(const Tensor& matrix, int64_t rows) {
  const int64_t V = matrix.dim(0), H = matrix.dim(1);
  Tensor out = host_tensor(DType::f32, {rows, H});
  for (int64_t i = 0; i < rows * H; ++i) {
    const int64_t row = i / H, shift = row / V;
    out.data<float>()[i] = matrix.data<float>()[row % V * H + (i % H + shift) % H];
  }
  return out;
}

/// Writes the model of `source` with enough tokens into `folder`.
void widen_vocabulary(const std::filesystem::path& source, const std::filesystem::path& folder) {
  auto config = nlohmann::json::parse(read_file(source / "config.json"));
  if (config.at("vocab_size").get<int64_t>() >= kTokens) return;
  const int64_t rows = kTokens + 2;  // a number that tensor ranks divide
  config["vocab_size"] = rows;
  write_file_atomically(folder / "config.json", config.dump(1));
  const SafetensorsFolder weights(source);
  std::map<std::string, Tensor> tensors;
  for (const TensorInfo& info : weights.tensors()) {
    const bool by_token =
        info.name == "lm_head.weight" || info.name.ends_with("embed_tokens.weight");
    const Tensor tensor = weights.tensor(info.name);
    tensors[info.name] = by_token ? with_more_rows(tensor, rows) : tensor;
  }
  write_safetensors(folder / "model.safetensors", tensors);
}

}  // namespace

LanguageModel::LanguageModel(const std::string& golden) {
  const auto source = test_data("golden") / golden / "model";
  for (const auto& file : std::filesystem::directory_iterator(source))
    std::filesystem::copy_file(file.path(), folder_ / file.path().filename());
  widen_vocabulary(source, folder_.path());
  BpeTrainer trainer;
  trainer.add_text("the cat and the hat and the rat");
  write_tokenizer(trainer.train(kTokens), folder_.path());
}

RunSetup LanguageModel::generation(std::vector<std::string> overrides) const {
  overrides.push_back("dist.threads_per_rank=1");
  overrides.push_back("dist.distributed_timeout_minutes=1");
  for (const std::string& isa : instruction_set_override()) overrides.push_back(isa);
  return prepare_inference({.model = path(), .overrides = overrides, .few_tokens = true});
}

std::vector<GeneratedText> generate_texts(
    const RunSetup& setup, const GenerationWork& work,
    const std::function<void(int rank, Device& device)>& started,
    const std::function<void(int rank, Device& device)>& done) {
  std::vector<GeneratedText> texts;
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const int number = world->rank();
    const RankDevice rank = make_rank_device(setup.config.dist);
    GenerationHooks hooks;
    if (started) hooks.started = [&] { started(number, *rank.device); };
    hooks.finished = [&](const GeneratedText& text) { texts.push_back(text); };
    run_generation(setup, work, *rank.device, rank.ops, std::move(world), hooks);
    if (done) done(number, *rank.device);
  });
  std::sort(texts.begin(), texts.end(),
            [](const GeneratedText& a, const GeneratedText& b) { return a.number < b.number; });
  return texts;
}

}  // namespace viaduct::test
