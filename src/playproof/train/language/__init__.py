"""Training of language models: SFT and GRPO from sampling to loss."""
