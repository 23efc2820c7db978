#!/usr/bin/env bash
# run.sh: makes src/data/tokenizer/unicode_tables.cpp.in anew, from the packages of requirements.txt. Minutes; needs a network.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
environment=$root/build/unicode-env
"$root/tools/python_env.sh" "$environment" "$here/requirements.txt"
exec "$environment/bin/python" -B "$here/make_tables.py" "$root/src/data/tokenizer/unicode_tables.cpp.in"
