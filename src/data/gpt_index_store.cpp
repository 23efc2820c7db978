#include "data/gpt_index_store.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"

namespace viaduct {
namespace {

using nlohmann::ordered_json;

constexpr char kClass[] = "GPTDataset";

/// Megatron's split_matrix: begin and end of each split, null for one without data.
ordered_json split_matrix(const std::string& weights) {
  auto matrix = ordered_json::array();
  for (const auto& fractions : parse_split(weights)) {
    if (!fractions) {
      matrix.push_back(nullptr);
      continue;
    }
    // Its sum of weights begins with an integer.
    const double begin = (*fractions)[0];
    matrix.push_back({matrix.empty() ? ordered_json(0) : ordered_json(begin), (*fractions)[1]});
  }
  return matrix;
}

int64_t total_bytes(const std::vector<IndexShape>& shapes) {
  int64_t bytes = 0;
  for (const IndexShape& shape : shapes) bytes += shape.bytes();
  return bytes;
}

}  // namespace

std::string gpt_index_description(const GptIndexRequest& request, const GptIndexStorage& storage) {
  const auto& weights = storage.split_weights;
  const auto& asked = request.num_samples;
  const ordered_json description{
      {"class", kClass},
      {"dataset_path", request.dataset->prefix()},
      {"num_samples", asked ? ordered_json(*asked) : ordered_json()},
      {"index_split", split_name(request.split)},
      {"random_seed", request.random_seed},
      {"sequence_length", request.sequence_length},
      {"split", weights ? ordered_json(*weights) : ordered_json()},
      {"split_matrix", weights ? split_matrix(*weights) : ordered_json()},
      {"tokenizer", nullptr}};
  return description.dump(4, ' ', true, ordered_json::error_handler_t::replace);
}

IndexCacheEntry gpt_index_files(const GptIndexRequest& request, const GptIndexStorage& storage) {
  IndexCacheEntry entry;
  entry.folder = storage.path_to_cache ? std::filesystem::path(*storage.path_to_cache)
                                       : std::filesystem::path(request.dataset->prefix()) /
                                             "cache" / (std::string(kClass) + "_indices");
  entry.description = gpt_index_description(request, storage);
  entry.kind = fmt::format("{}-{}", kClass, split_name(request.split));
  entry.names = {"document_index", "sample_index", "shuffle_index"};
  return entry;
}

StoredGptIndex::StoredGptIndex(GptIndexRequest request, GptIndexStorage storage)
    : request_(std::move(request)), storage_(std::move(storage)) {
  IndexCacheEntry files = gpt_index_files(request_, storage_);
  if (storage_.fast_cache_load) {
    const auto shuffle_file = files.array_file(2);
    files_ = std::move(files);
    std::error_code ignored;
    if (storage_.defer_npy_index_mmap && std::filesystem::exists(shuffle_file, ignored)) {
      samples_ = read_npy_shape(shuffle_file).rows;
    } else {
      samples_ = get().samples();
    }
    return;
  }
  plan_ = plan_gpt_index(*request_.dataset, request_.split, request_.range, request_.num_samples,
                         request_.sequence_length);
  samples_ = plan_->samples;
  files.shapes = plan_->shapes();
  if (storage_.path_to_cache || total_bytes(files.shapes) >= kSmallIndexBytes) {
    // The order depends on the lengths of the sequences and on the description.
    files.source = hash64(request_.dataset->length_bytes());
    files_ = std::move(files);
  }
  if (!storage_.defer_npy_index_mmap) {
    get();
  } else if (files_) {
    ensure_built(*files_, [&](IndexSink& sink) { build(sink); });
  }
}

const GptIndex& StoredGptIndex::get() const {
  std::call_once(opened_, [&] { index_ = open(); });
  return index_;
}

void StoredGptIndex::build(IndexSink& sink) const {
  build_gpt_index(*request_.dataset, request_.range, *plan_, request_.sequence_length,
                  request_.random_seed, sink);
}

GptIndex StoredGptIndex::open() const {
  const auto make = [&](IndexSink& sink) { build(sink); };
  if (!files_) return GptIndex(build_in_memory(make));
  if (storage_.fast_cache_load) {
    GptIndex index(load_trusted(*files_));
    VIADUCT_CHECK(IoError, !plan_ || index.samples() == samples_, "{}: {} samples, expected {}",
                  files_->array_file(2).string(), index.samples(), samples_);
    return index;
  }
  try {
    return GptIndex(load_or_build(*files_, make));
  } catch (const IoError& error) {
    if (storage_.path_to_cache || is_writable_folder(files_->folder)) throw;
    log_warning(
        "{}; every rank keeps the order of {} in its own memory (dataset.path_to_cache can name "
        "another folder for it)",
        error.what(), request_.dataset->prefix());
    return GptIndex(build_in_memory(make));
  }
}

}  // namespace viaduct
