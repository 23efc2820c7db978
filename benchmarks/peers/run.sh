#!/usr/bin/env bash
# run.sh steps|gemms|experts|adapters|images|t5|tokenization|conversations [options]: makes the Python environment of the peer if it does not exist (PyTorch: build/peers-env,
# 4 GB; tokenizers, and transformers without it: some MB), then measures it and Viaduct in turn.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
environment=$root/build/peers-env requirements=$here/requirements.txt pip=(--no-deps)
case ${1:-} in
  steps | gemms | experts | adapters | images | t5) what=$1 ;;
  tokenization) what=$1 environment=$root/build/tokenizers-env requirements=$root/tools/oracle/tokenizers-requirements.txt pip=() ;;
  conversations) what=$1 environment=$root/build/templates-env requirements=$root/tools/oracle/templates-requirements.txt pip=() ;;
  *)
    echo "usage: peers steps|gemms|experts|adapters|images|t5|tokenization|conversations [options] (--help after any lists them)" >&2
    exit 2
    ;;
esac
"$root/tools/python_env.sh" "$environment" "$requirements" "${pip[@]}"
exec "$environment/bin/python" -B "$here/$what.py" "${@:2}"
