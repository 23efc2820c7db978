#include "comm/exchange_texts.h"

#include <algorithm>
#include <cstring>

namespace viaduct {

std::vector<std::string> exchange_texts(Communicator& group, const std::string& text) {
  const auto bytes = static_cast<int64_t>(text.size());
  const Tensor mine = host_tensor(DType::i64, {1}), sizes = host_tensor(DType::i64, {group.size()});
  *mine.data<int64_t>() = bytes;
  group.all_gather(mine, sizes).wait_host();
  const int64_t* size = sizes.data<int64_t>();
  const int64_t widest = std::max<int64_t>(1, *std::max_element(size, size + group.size()));
  const Tensor padded = host_tensor(DType::u8, {1, widest}),
               all = host_tensor(DType::u8, {group.size(), widest});
  std::memcpy(padded.raw(), text.data(), text.size());
  group.all_gather(padded, all).wait_host();
  std::vector<std::string> texts;
  for (int rank = 0; rank < group.size(); ++rank) {
    texts.emplace_back(static_cast<const char*>(all.select(rank).raw()),
                       static_cast<size_t>(size[rank]));
  }
  return texts;
}

}  // namespace viaduct
