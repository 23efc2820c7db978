#!/usr/bin/env bash
# run_blocks.sh PAGE.md BUILD_FOLDER fast|full: runs the commands of a documentation page, in order, in one shell, in an empty
# folder from which the repository's configurations, data and viaduct.sh can be reached and with the built binary on PATH.
#
# Every block of commands says when it runs, in its first line:
#   ```bash test=fast    runs in both
#   ```bash test=full    runs only with `full`: takes more than a second or two
#   ```bash test=no      does not run here: installs, clones, or runs the tests themselves
# A block without such a mark is an error. The first command that fails ends the page.
set -euo pipefail
page=$1 speed=$3
build=$(cd "$2" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

awk -v page="$(basename "$page")" -v speed="$speed" '
  !inside && /^ *```(bash|sh|console)/ {
    if ($0 !~ /^ *```bash test=(fast|full|no)$/) { print page ":" NR ": block without test=fast, full or no: " $0 > "/dev/stderr"; bad = 1 }
    inside = 1
    wanted = /test=fast/ || (speed == "full" && /test=full/)
    if (wanted) print "echo \"== " page ":" NR "\""
    next
  }
  inside && /^ *```$/ { inside = 0; wanted = 0; next }
  wanted { print }
  END { if (inside) { print page ": block without end" > "/dev/stderr"; bad = 1 } exit bad }
' "$page" >"$folder/commands.sh"

mkdir "$folder/place"
for name in viaduct.sh configs data docs examples; do
  [[ ! -e $root/$name ]] || ln -s "$root/$name" "$folder/place/$name"
done
cd "$folder/place"
PATH=$build:$PATH VIADUCT_RUNS=$folder/place/runs bash -euo pipefail -x "$folder/commands.sh" </dev/null
