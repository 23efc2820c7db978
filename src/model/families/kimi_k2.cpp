// Kimi K2 (Moonshot AI 2025, arXiv 2507.20534): the body of DeepSeek-V3 under a type of its own,
// which Hugging Face's code has only inside Kimi K2.5.

#include "base/json.h"
#include "model/families/families.h"

namespace viaduct::families {

ModelFamily kimi_k2() {
  return {"kimi_k2",        "DeepseekV3ForCausalLM", read_deepseek_v3,           write_deepseek_v3,
          deepseek_names(), resolve_deepseek_v3,     RotaryPairs::as_config_says};
}

}  // namespace viaduct::families
