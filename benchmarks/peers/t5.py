"""Times training steps of T5 in `transformers` and Viaduct, alternating, and prints the ratio: `./viaduct.sh peers t5` (docs/benchmarks.md).

t5_v1_1_60m: the shape of google/t5-v1_1-small, whose head shares the embedding here (transformers 5 ties T5 always), without dropout: rows of 512
tokens of the encoder, 128 of the decoder."""

import folders

ROWS, LENGTH, ENCODER_LENGTH, VOCABULARY = 4, 128, 512, 32128


def t5_v1_1():
    from transformers import T5Config

    return T5Config(vocab_size=VOCABULARY, d_model=512, d_kv=64, d_ff=1024, num_layers=8, num_decoder_layers=8, num_heads=6, dropout_rate=0.0,
                    feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0,
                    architectures=["T5ForConditionalGeneration"])


def batch(_):
    import torch

    return {"input_ids": torch.randint(1, VOCABULARY, (ROWS, ENCODER_LENGTH)), "labels": torch.randint(1, VOCABULARY, (ROWS, LENGTH))}


CASES = {"t5_v1_1_60m": {"config": t5_v1_1, "batch": batch, "rows": ROWS,
                           "model": {"seq_length": LENGTH, "encoder_seq_length": ENCODER_LENGTH}}}

if __name__ == "__main__":
    folders.main("t5", CASES, f"{__doc__}\n\n{folders.__doc__}")
