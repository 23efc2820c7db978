#include "data/gpt_index_store.h"

#include "base/hash.h"
#include "base/json.h"

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

std::string gpt_index_description(const GptIndexRequest& request) {
  const auto& weights = request.split_weights;
  const auto& asked = request.num_samples;
  return index_description({{"class", kClass},
                            {"dataset_path", request.dataset->prefix()},
                            {"num_samples", asked ? ordered_json(*asked) : ordered_json()},
                            {"index_split", split_name(request.split)},
                            {"random_seed", request.random_seed},
                            {"sequence_length", request.sequence_length},
                            {"split", weights ? ordered_json(*weights) : ordered_json()},
                            {"split_matrix", weights ? split_matrix(*weights) : ordered_json()},
                            {"tokenizer", nullptr}});
}

IndexCacheEntry gpt_index_files(const GptIndexRequest& request, const IndexStorage& storage) {
  return index_files(storage, kClass, request.dataset->prefix(), request.split,
                     gpt_index_description(request),
                     {"document_index", "sample_index", "shuffle_index"});
}

StoredGptIndex::StoredGptIndex(GptIndexRequest request, IndexStorage storage)
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
  std::call_once(opened_, [&] {
    index_ = GptIndex(open_index(files_, storage_, request_.dataset->prefix(),
                                 [&](IndexSink& sink) { build(sink); }));
  });
  return index_;
}

void StoredGptIndex::build(IndexSink& sink) const {
  build_gpt_index(*request_.dataset, request_.range, *plan_, request_.sequence_length,
                  request_.random_seed, sink);
}

}  // namespace viaduct
