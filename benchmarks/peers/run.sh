#!/usr/bin/env bash
# run.sh steps|gemms|experts [options]: makes PyTorch's environment if it does not exist (build/peers-env, 4 GB), then measures it and Viaduct in turn.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
case ${1:-} in
  steps | gemms | experts) what=$1 ;;
  *)
    echo "usage: peers steps|gemms|experts [options] (--help after either lists them)" >&2
    exit 2
    ;;
esac
"$root/tools/python_env.sh" "$root/build/peers-env" "$here/requirements.txt" --no-deps
exec "$root/build/peers-env/bin/python" -B "$here/$what.py" "${@:2}"
