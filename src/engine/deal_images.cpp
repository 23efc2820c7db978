#include "engine/deal_images.h"

#include <algorithm>

#include "engine/image_rows.h"

namespace viaduct {

void deal_images(const HostBatch& whole, const BatchPlace& place, HostBatch& cut) {
  check_images(whole, place.images);
  const ImageBatch& all = whole.images;
  const int64_t each = (all.count + place.cp - 1) / place.cp;
  DealtImages dealt{.all = each * place.cp, .shown = all.count};
  cut.images = {each, all.channels, all.height, all.width, {}};
  if (!whole.sizes_only) {
    const int64_t first = std::min(all.count, place.cp_rank * each),
                  end = std::min(all.count, first + each),
                  values = all.channels * all.height * all.width;
    const auto begin = all.pixels.begin();
    cut.images.pixels.assign(begin + first * values, begin + end * values);
    cut.images.pixels.resize(static_cast<size_t>(each * values), 0.0f);
    const std::vector<int64_t> begins = image_begins(whole, place.images);
    dealt.begins.assign(begins.begin() + first, begins.begin() + end);
    dealt.begins.resize(static_cast<size_t>(each), 0);
  }
  cut.dealt = std::move(dealt);
}

}  // namespace viaduct
