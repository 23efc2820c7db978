// copy_weights FROM TO SHARD_BYTES: reads the weights of a model folder and writes them as a
// Hugging Face folder, which the interop tests read with other libraries.

#include <cstdio>
#include <exception>
#include <string>

#include "checkpoint/model_folder.h"
#include "checkpoint/safetensors_writer.h"

int main(int count, char** arguments) {
  if (count != 4) {
    std::fputs("usage: copy_weights FROM TO SHARD_BYTES\n", stderr);
    return 2;
  }
  try {
    const auto weights = viaduct::open_weights(viaduct::resolve_model_folder(arguments[1]));
    viaduct::write_safetensors_folder(
        arguments[2], weights->tensors(),
        [&](const std::string& name) { return weights->tensor(name); }, std::stoll(arguments[3]));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "copy_weights: %s\n", error.what());
    return 1;
  }
}
