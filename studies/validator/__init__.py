"""The study of the validator: what its verdicts say of policies, pipelines and rewards whose worth is known."""
