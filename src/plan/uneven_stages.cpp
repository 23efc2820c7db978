#include "plan/uneven_stages.h"

#include <fmt/format.h>

namespace viaduct {
namespace {

/// Places of layers, of which embedding and loss take one each.
int places(int layers, int prediction) {
  return layers + prediction + 2;
}

std::string letters(int layers) {
  return layers > 3 ? fmt::format("t*{}", layers) : std::string(static_cast<size_t>(layers), 't');
}

}  // namespace

bool can_cut_unevenly(int layers, int prediction, int chunks) {
  return places(layers, prediction) / chunks >= 2 + prediction;
}

int uneven_layers_of(const Layout& layout, int chunk) {
  const int chunks = layout.pp * layout.vpp;
  const int all = places(layout.uneven_layers, layout.prediction_layers);
  const int here = all / chunks + (chunk > 0 && chunk <= all % chunks ? 1 : 0);
  const int embedding = chunk == 0 ? 1 : 0;
  const int ends = chunk == chunks - 1 ? 1 + layout.prediction_layers : 0;
  return here - embedding - ends;
}

std::string uneven_stages(const Layout& layout) {
  const int last = layout.pp * layout.vpp - 1;
  std::string text = "E" + letters(uneven_layers_of(layout, 0)) + "|";
  for (int chunk = 1; chunk < last;) {
    const int layers = uneven_layers_of(layout, chunk);
    int end = chunk + 1;
    while (end < last && uneven_layers_of(layout, end) == layers) ++end;
    text += end - chunk == 1 ? letters(layers) + "|"
                             : fmt::format("({}|)*{}", letters(layers), end - chunk);
    chunk = end;
  }
  return text + letters(uneven_layers_of(layout, last)) +
         std::string(static_cast<size_t>(layout.prediction_layers), 'm') + "L";
}

}  // namespace viaduct
